"""How much an engine holds and does at once, out of the memory of its device.

On a GPU nothing of it is guessed. When the model has been loaded, a runner for all rows in flight
is made and the largest step is computed once, and the memory of both and the time of that step are
measured; of `memory_share` of what is free, what these, the logits of the rows and recorded graphs
take goes off, and the KV pool has the rest:

    free x memory_share = runner + largest step + rows x logits + graphs + KV pool

The runner holds the slot table, partial results of attention and what sampling works on.

On a CPU the pool is a share of free memory, see `memory`, and the rest are constants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sgc_ir.errors import BackendError
from sgc_runtime.engine.options import EngineOptions, parse_size

CPU_RUNNING = 128
CPU_PREFILL_TOKENS = 1024

RUNNING = (512, 256, 128, 64, 32, 16, 8)
ROWS_SHARE = 0.05  # of the memory: what rows in flight may take beside their KV
PREFILL_TOKENS = (8192, 4096, 2048, 1024, 512, 256)
STEP_SHARE = 0.15  # of the memory: what the largest step may take
# A step in which others decode takes as long at most; a step that only decodes takes some 10 ms.
MIXED_SECONDS = 0.06
MIXED_UNIT = 64  # tokens; whole tiles of the products
LEAST_MIXED = 256
GRAPHS_SHARE, LEAST_GRAPHS, MOST_GRAPHS = 0.02, 64 << 20, 2 << 30
MOST_SLOTS = 8 << 20  # the list of free ones takes 64 MB then
MASKS = 2  # this step's and the last one's
LOGITS = 3  # the last step's, this one's, and a copy that penalties change


@dataclass(frozen=True, slots=True)
class Budgets:
    """See `EngineConfig` for the first four; `graph_bytes`: what recorded steps may take."""

    kv_tokens: int
    max_running: int
    prefill_tokens: int
    mixed_tokens: int | None
    graph_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What one of each takes.

    Attributes:
        slot_bytes: keys and values of one token, all layers.
        slot_numbers: of them, numbers in one layer's keys.
        vocab_size: logits of a row.
        max_positions: longest context.
        score_tokens: positions of scorings whose logits one step computes.
    """

    slot_bytes: int
    slot_numbers: int
    vocab_size: int
    max_positions: int
    score_tokens: int

    @property
    def row_bytes(self) -> int:
        """Slot table, masks, and logits of one row in flight."""
        return 4 * self.max_positions + MASKS * self.vocab_size // 8 + self.logit_bytes

    @property
    def logit_bytes(self) -> int:
        """Logits of one row in flight."""
        return 4 * LOGITS * self.vocab_size

    @property
    def max_slots(self) -> int:
        """Kernels count numbers of a layer in 32 bits."""
        return min(MOST_SLOTS, (1 << 31) // self.slot_numbers - 1)


@dataclass(frozen=True, slots=True)
class Trial:
    """What one step took: the peak of memory beyond weights and KV, and its time."""

    peak_bytes: int
    seconds: float


class Machine(Protocol):
    """A device with the model's weights in its memory."""

    def free_bytes(self) -> int:
        """What the device has left."""
        ...

    def held(self, rows: int, max_context: int) -> int | None:
        """Bytes that a runner for so many rows of up to `max_context` tokens holds all the time,
        without KV; None: it has too little memory. What else such steps leave behind is not free
        from then on."""
        ...

    def trial(self, num_tokens: int, num_logits: int) -> Trial | None:
        """Compute a step of so many prompt tokens and rows of logits; None: it has too little
        memory."""
        ...


def cpu_budgets(options: EngineOptions, kv_tokens: int) -> Budgets:
    """What is not given is a constant."""
    return Budgets(
        kv_tokens,
        options.max_running or CPU_RUNNING,
        options.prefill_tokens or CPU_PREFILL_TOKENS,
        options.mixed_tokens,
    )


def gpu_budgets(options: EngineOptions, sizes: Sizes, machine: Machine) -> Budgets:
    """What is not given is derived.

    Raises:
        BackendError: not even the smallest step fits beside the weights, no KV does, or what was
            asked for does not.
    """
    free = machine.free_bytes()
    share = int(free * options.memory_share)
    rows = options.max_running or _max_running(sizes, share)
    held = _held(sizes, machine, rows, share)
    num_logits = rows + sizes.score_tokens
    tokens, trial = _largest_step(options, machine, num_logits, share)
    graphs = _graph_bytes(options, share)
    kept = max(0, free - machine.free_bytes())  # kernels, what libraries and attention keep
    padding = sizes.slot_bytes  # a slot that tokens which are none are written to
    others = kept + held + padding + trial.peak_bytes + rows * sizes.logit_bytes + graphs
    left = _Left(free - others, share - others)
    return Budgets(
        kv_tokens=_kv_tokens(options, sizes, left),
        max_running=rows,
        prefill_tokens=tokens,
        mixed_tokens=options.mixed_tokens or _mixed_tokens(tokens, trial),
        graph_bytes=graphs,
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """Bytes for the KV pool: at most, and by default."""

    most: int
    share: int


def _max_running(sizes: Sizes, share: int) -> int:
    fitting = (rows for rows in RUNNING if rows * sizes.row_bytes <= ROWS_SHARE * share)
    return next(fitting, RUNNING[-1])


def _held(sizes: Sizes, machine: Machine, rows: int, share: int) -> int:
    max_context = max(1, min(sizes.max_positions, sizes.max_slots, share // sizes.slot_bytes))
    held = machine.held(rows, max_context)
    if held is None:
        raise BackendError(
            f"what {rows} sequences at once take does not fit into the {share >> 20} MiB that are "
            "left beside the weights: give a smaller max_running, or another device"
        )
    return held


def _largest_step(
    options: EngineOptions, machine: Machine, num_logits: int, share: int
) -> tuple[int, Trial]:
    given = options.prefill_tokens
    for tokens in (given,) if given else PREFILL_TOKENS:
        trial = machine.trial(tokens, num_logits)
        if trial is not None and (given or trial.peak_bytes <= STEP_SHARE * share):
            return tokens, trial
    raise BackendError(
        f"a step of {tokens} prompt tokens and {num_logits} rows of logits does not fit into the "
        f"{share >> 20} MiB that are left beside the weights: give fewer prefill_tokens or "
        "max_running, or another device"
    )


def _graph_bytes(options: EngineOptions, share: int) -> int:
    if not options.graphs:
        return 0
    if options.graph_memory is not None:
        return parse_size(options.graph_memory, "graph_memory")
    return max(LEAST_GRAPHS, min(MOST_GRAPHS, int(GRAPHS_SHARE * share)))


def _mixed_tokens(tokens: int, trial: Trial) -> int:
    if trial.seconds <= MIXED_SECONDS:
        return tokens
    fitting = int(tokens * MIXED_SECONDS / trial.seconds)
    return min(tokens, max(LEAST_MIXED, fitting - fitting % MIXED_UNIT))


def _kv_tokens(options: EngineOptions, sizes: Sizes, left: _Left) -> int:
    if options.kv_tokens is not None:
        return _checked(options.kv_tokens, f"kv_tokens={options.kv_tokens}", sizes, left)
    if options.kv_memory is not None:
        tokens = parse_size(options.kv_memory) // sizes.slot_bytes
        return _checked(tokens, f"kv_memory={options.kv_memory}", sizes, left)
    tokens = min(left.share // sizes.slot_bytes, sizes.max_slots)
    if tokens < 1:
        raise BackendError(
            f"no memory is left for the KV pool: what the largest step takes goes beyond "
            f"memory_share={options.memory_share} by {-left.share >> 20} MiB; give a larger share, "
            "fewer prefill_tokens or max_running, or another device"
        )
    return tokens


def _checked(tokens: int, option: str, sizes: Sizes, left: _Left) -> int:
    if tokens < 1:
        raise BackendError(f"{option} holds no token (one takes {sizes.slot_bytes} bytes)")
    if tokens > sizes.max_slots:
        raise BackendError(f"{option}: a KV pool holds {sizes.max_slots} tokens at most; give less")
    if tokens * sizes.slot_bytes > left.most:
        raise BackendError(
            f"{option}: a KV pool of {tokens * sizes.slot_bytes >> 20} MiB is more than the "
            f"{max(0, left.most) >> 20} MiB that the device has beside the weights and the largest "
            "step; give less"
        )
    return tokens


def describe(budgets: Budgets) -> str:
    """One line for the log."""
    facts = (
        f"{budgets.kv_tokens:,} KV tokens",
        f"{budgets.max_running} sequences at once",
        f"steps of {budgets.prefill_tokens:,} prompt tokens",
        f"{budgets.mixed_tokens:,} beside others" if budgets.mixed_tokens else "",
        f"{budgets.graph_bytes >> 20} MiB for graphs" if budgets.graph_bytes else "",
    )
    return ", ".join(filter(None, facts))
