"""How long the prompts of a row's streams are of use: what each call tells the backend of it.

What the graph knows (`sgc_ir.analysis.hints`) is joined here with what the run knows: which calls
were issued or will never be, and how long the prompts were where streams forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sgc_ir.analysis.hints import CallHints, GraphHints, StreamHints, graph_hints
from sgc_ir.analysis.output_bounds import output_bounds
from sgc_ir.analysis.static_prefix import Piece
from sgc_ir.graph import ROOT_STREAM, Node, Program, Ref, iter_refs
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES, SamplingParams
from sgc_runtime.executor.backend import Beginning, ChatTemplate
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.prompt import Begin, End, Part, Prompt


class CallFacts(NamedTuple):
    """A gen or select of a graph: its hints, and bounds of the tokens of one sample."""

    hints: CallHints
    fewest: int
    most: int | None


class StaticPrefix:
    """What the prompts of a stream begin with in every instance; `content` are its characters
    without those of the template."""

    __slots__ = ("_known", "_pieces", "content")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.content = sum(len(piece.data) for piece in pieces if piece.kind == "text")
        self._pieces = pieces
        self._known: tuple[ChatTemplate, int] | None = None

    def chars(self, template: ChatTemplate) -> int:
        """Its length as the template renders it; 0 where that cannot be told."""
        if self._known is None or self._known[0] is not template:
            self._known = (template, _rendered_length(self._pieces, template))
        return self._known[1]


class Life:
    """What is still to come of a stream and its branches.

    Attributes:
        parent: of a branch, the stream that it forked from.
        calls: not issued yet, at most. known: there are no others.
        alone: nothing outside of the stream goes on from its end.
    """

    __slots__ = ("alone", "calls", "known", "parent", "prefix")

    def __init__(
        self, parent: Life | None, hints: StreamHints | None, prefix: StaticPrefix | None
    ) -> None:
        self.parent = parent
        self.prefix = prefix
        self.calls = 0 if hints is None else hints.calls
        self.known = hints is not None and hints.known
        self.alone = hints is not None and hints.alone

    def less(self) -> None:
        """One of its calls is issued, or will never be."""
        life: Life | None = self
        while life is not None:
            life.calls -= 1
            life = life.parent


NO_LIFE = Life(None, None, None)  # of a stream about which nothing is known


class GraphLives:
    """What the streams and calls of one graph or loop body are told.

    Attributes:
        calls: facts by node.
    """

    __slots__ = ("_hints", "_prefixes", "calls")

    def __init__(self, hints: GraphHints, calls: Mapping[int, CallFacts]) -> None:
        self.calls = calls
        self._hints = hints
        self._prefixes = {at: StaticPrefix(s.prefix) for at, s in hints.streams.items()}

    def begin(self, stream: int = ROOT_STREAM, parent: Life | None = None) -> Life:
        """The life of a stream that opens: of the graph itself, or of a branch by its node."""
        return Life(parent, self._hints.streams.get(stream), self._prefixes.get(stream))

    def parent_of(self, stream: int) -> int | None:
        """The stream of the graph that a branch forks from."""
        return self._hints.parents.get(stream)


def graph_lives(program: Program, defaults: SamplingParams) -> dict[int, GraphLives]:
    """Those of all graphs and loop bodies of a program, by `id` of the graph."""
    bounds: dict[int, tuple[int, int | None]] = {}

    def bound(node: Node) -> int | None:
        return _bounds(node, defaults, bounds)[1]

    found = graph_hints(program, bound)
    bodies = [n.body for n in program.walk() if n.body is not None]
    made: dict[int, GraphLives] = {}
    for graph in (*program.graphs.values(), *bodies):
        hints = found[id(graph)]
        calls = {
            at: CallFacts(known, *_bounds(graph.nodes[at], defaults, bounds))
            for at, known in hints.calls.items()
        }
        made[id(graph)] = GraphLives(hints, calls)
    return made


def _bounds(
    node: Node, defaults: SamplingParams, known: dict[int, tuple[int, int | None]]
) -> tuple[int, int | None]:
    found = known.get(id(node))
    if found is None:
        found = known[id(node)] = _measured(node, defaults)
    return found


def _measured(node: Node, defaults: SamplingParams) -> tuple[int, int | None]:
    """Tokens of one sample at least and at most; a select generates none."""
    if node.op is Op.SELECT:
        return 0, 0
    values = {k: v for k, v in node.attrs.items() if k in PARAM_NAMES}
    if next(iter_refs(tuple(values.values())), None) is not None:
        most = values.get("max_tokens", defaults.max_tokens)
        return 0, None if isinstance(most, Ref) else most
    try:
        low, high = output_bounds(defaults.override(values), len)
    except (ValueError, TypeError):
        return 0, None  # the call itself says what is wrong
    return low, high


def _rendered_length(pieces: Sequence[Piece], template: ChatTemplate) -> int:
    prompt = Prompt()
    entries: dict[str, Any] = {"text": Part, "begin": Begin}
    for kind, data in pieces:
        prompt.add(End() if kind == "end" else entries[kind](data))
    try:
        prompt.flush(template)
    except Exception:  # whatever a template raises is told by the call that it fails
        return 0
    return len(prompt.sent_text())


# -- what a call tells


class Core(Protocol):
    """A stream, as far as it is asked here; see `StreamCore`."""

    life: Life | None
    prompt: Prompt
    ctx: RunContext
    fork_chars: int
    told_chars: int

    @property
    def forked_from(self) -> Core | None: ...


def chars_of(core: Core) -> int:
    """Length of a stream's prompt as far as it can be told without rendering it, at most what it
    will be."""
    prompt, life = core.prompt, core.life
    count = prompt.num_chars()
    if life is not None and life.prefix is not None and prompt.is_unrendered:
        prefix, backend = life.prefix, core.ctx.source.backend
        if backend is not None and count >= prefix.content:
            count += prefix.chars(backend.chat_template) - prefix.content
    return count


def note_said(core: Core) -> None:
    """What the stream has said since this was called last is no longer to come."""
    ctx = core.ctx
    if ctx.more_chars is not None:
        chars = core.prompt.num_chars()
        ctx.will_not_run(0, chars - max(core.told_chars, core.fork_chars))
        core.told_chars = chars


class Told(NamedTuple):
    """The fields of the same names of a `Call`."""

    readers: int | None
    next_use: int | None
    beginnings: tuple[Beginning, ...]


def tell(
    core: Core, facts: CallFacts | None, template: ChatTemplate, shared_chars: int = 0
) -> Told:
    """Note that a call of the stream is issued, and tell what is of use of its prompt.

    Args:
        shared_chars: of the root's prompts, which later rows begin with too.
    """
    life = core.life
    readers = next_use = None
    note_said(core)
    if life is not None:
        life.less()
    if facts is not None:
        readers, next_use, _ = facts.hints
        if life is not None and life.known and life.alone:
            readers = life.calls if readers is None else min(readers, life.calls)
        next_use = None if readers == 0 else next_use
    return Told(readers, next_use, _beginnings(core, facts, template, shared_chars))


def _beginnings(
    core: Core, facts: CallFacts | None, template: ChatTemplate, shared_chars: int
) -> tuple[Beginning, ...]:
    prefix = core.life.prefix if core.life is not None else None
    static = prefix.chars(template) if prefix is not None else 0
    forks = facts.hints.forks if facts is not None else ()
    found: list[Beginning] = []  # from the longest on
    here, depth = core, 0
    while (parent := here.forked_from) is not None:
        if here.fork_chars > static:
            at = Beginning(here.fork_chars, *_at_fork(parent, forks, depth))
            if found and found[-1].chars == at.chars:
                found.pop()
            found.append(at)
        here, depth = parent, depth + 1
    static = max(static, shared_chars)
    if static:
        found = [at for at in found if at.chars > static]
        found.append(Beginning(static))
    found.reverse()
    return tuple(found)


def _at_fork(
    parent: Core, forks: Sequence[int | None], depth: int
) -> tuple[int | None, int | None]:
    life = parent.life
    readers = max(0, life.calls) if life is not None and life.known else None
    next_use = forks[depth] if depth < len(forks) and readers != 0 else None
    return readers, next_use
