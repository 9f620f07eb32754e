"""What the user decides about a local engine. No torch here, so that options are cheap to check."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sgc_ir.errors import BackendError

ORDERS = ("lpm", "dfs", "fcfs", "random")
SEAMS = ("canonical", "splice")
WEIGHTS = ("auto", "dense", "int4", "int8")
ATTENTIONS = ("auto", "triton", "flashinfer", "torch")
KV_DTYPES = ("auto", "fp8")
PROCESSES = ("auto", "on", "off")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Only `dtype`, `weights`, `attention`, `kv_dtype` and `deterministic` (rounding) and `seam`
    change results. What is None is derived from the device and its memory, see `budgets`.

    Attributes:
        dtype: `float32`, `bfloat16` or `float16`; None: what the machine is fast in.
        device: a torch device: `cpu`, `cuda` or `cuda:N`.
        weights: the form of the weights in bfloat16 on a CPU. `auto`: integers of the file
            itself, if it holds such, else dense; `dense`: numbers of the format; `int8`, `int4`:
            round what the file holds in more bits to groups of 32 with a scale (the output head
            never below 8 bits). Where both forms of a weight are kept, because the machine is
            faster with the dense one for many rows (CPUs with AMX), a result depends by rounding
            on how many tokens are computed together, except with `deterministic`. float32 is
            always dense: the reference.
        kv_tokens: slots of the KV pool; or
        kv_memory: its size in bytes, or as text such as `2GB`. Neither: a share of what is free.
        memory_share: on a GPU, how much of what is free once the model is loaded the engine takes
            in all: pool, graphs and the tensors of its largest step.
        seam: what happens where text follows generated ids: `canonical` encodes the last few
            anew together with the text, `splice` never changes them.
        cache: keep the KV of prefixes for later calls.
        cache_tree: find what a kept text has in common with a prompt; without it only texts that
            the prompt begins with as a whole (for comparisons, as is the next one).
        match_share: part of the calls, evenly spread, that may find kept prefixes.
        max_running: sequences that are computed at once.
        prefill_tokens: prompt tokens that one step computes at most.
        mixed_tokens: the same for a step in which others decode: it bounds the time between two
            tokens of theirs.
        reserve: see `EngineConfig`.
        order: which waiting call is served next: `lpm` (longest cached prefix first), `dfs`
            (those that share a prefix together), `fcfs` (first come, first served) or `random` (by
            lot, for comparisons).
        priorities: finish program instances that have begun before new ones begin.
        claims: see `EngineConfig`; None: 0.7 on a CPU, a half elsewhere.
        hints: use what calls say of the calls to come, see `EngineConfig`.
        jump: compute text that a constraint forces in one pass; without it the same ids take a
            pass each.
        attention: which kernels attend: `triton` and `flashinfer` need a GPU, `torch` is the
            reference; `auto`: the device's own.
        kv_dtype: `fp8` keeps keys and values in 8 bits, on a GPU; `auto`: in those of `dtype`.
        deterministic: a result depends on nothing but its own call, to the last bit: not on what
            else is computed with it, on what is cached or on how prompts are cut. It costs speed;
            otherwise sums are rounded in an order that depends on all that. On a CPU it needs the
            compiled kernels, see `kernels/README.md`.
        overlap: prepare a step while the one before is computed; None: on a GPU.
        graphs: record the steps of a GPU as graphs, which start faster.
        graph_memory: what those may take, as for `kv_memory`.
        max_graph_tokens: steps of more tokens are not recorded.
        process: run the engine in a process of its own: `on`, `off`, or `auto`: on a GPU.
        profile: keep where the time of the steps goes, see `profile`; it comes with `stats`.
    """

    dtype: str | None = None
    device: str = "cpu"
    weights: str = "auto"
    kv_tokens: int | None = None
    kv_memory: int | str | None = None
    seam: str = "canonical"
    cache: bool = True
    cache_tree: bool = True
    match_share: float = 1.0
    memory_share: float = 0.9
    max_running: int | None = None
    prefill_tokens: int | None = None
    mixed_tokens: int | None = None
    reserve: float = 0.5
    order: str = "lpm"
    priorities: bool = True
    claims: float | None = None
    hints: bool = True
    jump: bool = True
    attention: str = "auto"
    kv_dtype: str = "auto"
    deterministic: bool = False
    overlap: bool | None = None
    graphs: bool = True
    graph_memory: int | str | None = None
    max_graph_tokens: int = 512
    process: str = "auto"
    profile: bool = False

    def __post_init__(self) -> None:
        if self.kv_tokens is not None and self.kv_memory is not None:
            raise BackendError("kv_tokens and kv_memory together; give one of them")
        for name in ("kv_memory", "graph_memory"):
            if getattr(self, name) is not None:
                parse_size(getattr(self, name), name)
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                raise BackendError(f"{name}={getattr(self, name)!r}: give one of {_list(allowed)}")
        for name in _COUNTS:
            _check_count(name, getattr(self, name), derived=name != "max_graph_tokens")
        for name in ("reserve", "claims", "memory_share", "match_share"):
            _check_share(name, getattr(self, name))
        self._check_together()

    @property
    def on_gpu(self) -> bool:
        """Whether `device` names a GPU."""
        return str(self.device).partition(":")[0] == "cuda"

    @property
    def own_process(self) -> bool:
        """Whether the engine runs in a process of its own."""
        return self.on_gpu if self.process == "auto" else self.process == "on"

    def _check_together(self) -> None:
        if self.weights in ("int4", "int8") and self.dtype in ("float32", "float16"):
            raise BackendError(
                f"weights={self.weights} with dtype={self.dtype}: integer weights need bfloat16; "
                "leave out one of them"
            )
        if self.on_gpu:
            return
        for name, value in (("attention", self.attention), ("kv_dtype", self.kv_dtype)):
            if value not in ("auto", "torch"):
                raise BackendError(
                    f"{name}={value} with device={self.device}: it needs a GPU; "
                    "leave it out or give device=cuda"
                )


_ALLOWED = {
    "seam": SEAMS,
    "weights": WEIGHTS,
    "order": ORDERS,
    "attention": ATTENTIONS,
    "kv_dtype": KV_DTYPES,
    "process": PROCESSES,
}
_COUNTS = ("kv_tokens", "max_running", "prefill_tokens", "mixed_tokens", "max_graph_tokens")


def _list(values: tuple[str, ...]) -> str:
    return ", ".join(values)


def _check_count(name: str, value: object, derived: bool) -> None:
    if value is None and derived:
        return
    if not (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        raise BackendError(f"{name}={value!r}: give a whole number, at least 1")


def _check_share(name: str, value: object) -> None:
    if value is None and name == "claims":
        return
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0.0 <= value <= 1.0):
        raise BackendError(f"{name}={value!r}: give a number from 0 to 1")


def parse_size(size: int | str, name: str = "kv_memory") -> int:
    """Bytes of a plain number or of `2GB`, `512MiB`; K, M, G and T are powers of 1024.

    Args:
        name: the option, for the message.

    Raises:
        BackendError: it is no size.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if found is None or len(found[1]) > 30:
        raise BackendError(
            f"{name}={repr(size)[:40]}: give a number of bytes or a size such as 2GB"
        )
    return int(float(found[1]) * _UNITS[found[2].lower()])
