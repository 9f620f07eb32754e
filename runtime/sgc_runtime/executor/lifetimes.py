"""How long the prompts of a row's streams are of use: what each call tells the backend of it.

What the graph knows (`sgc_ir.analysis.hints`) is joined here with what the run knows: which calls
were issued or will never be, and how long the prompts were where streams forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sgc_ir.analysis.call_bounds import call_bounds
from sgc_ir.analysis.hints import CallHints, GraphHints, StreamHints, graph_hints
from sgc_ir.analysis.static_prefix import Piece
from sgc_ir.graph import ROOT_STREAM, Node, Program
from sgc_ir.params import SamplingParams
from sgc_runtime.executor.backend import Beginning, ChatTemplate
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.prompt import Begin, End, Part, Prompt
from sgc_runtime.executor.token_bounds import bound_as_told, call_bound


class CallFacts(NamedTuple):
    """A gen or select of a graph: its hints, and the tokens of one sample at most (None: the run
    decides)."""

    hints: CallHints
    most: int | None


class StaticPrefix:
    """What the prompts of a stream begin with in every instance; `content` are its characters
    without those of the template."""

    __slots__ = ("_alone", "_known", "_pieces", "content")

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.content = sum(len(piece.data) for piece in pieces if piece.kind == "text")
        self._pieces = pieces
        self._known: tuple[ChatTemplate, int] | None = None
        self._alone: tuple[Beginning, ...] = ()

    def alone(self, chars: int) -> tuple[Beginning, ...]:
        """The only beginning of a prompt, which is made once."""
        if chars and (not self._alone or self._alone[0].chars != chars):
            self._alone = (Beginning(chars),)
        return self._alone if chars else ()

    def chars(self, template: ChatTemplate) -> int:
        """Its length as the template renders it; 0 where that cannot be told."""
        if self._known is None or self._known[0] is not template:
            self._known = (template, _rendered_length(self._pieces, template))
        return self._known[1]


class Life:
    """What is still to come of a stream and its branches.

    Attributes:
        parent: of a branch, the stream that it forked from.
        calls: not issued yet, at most; open: loops not begun yet, which may make others.
        alone: nothing outside of the stream goes on from its end.
    """

    __slots__ = ("alone", "calls", "open", "parent", "prefix")

    def __init__(
        self, parent: Life | None, hints: StreamHints | None, prefix: StaticPrefix | None
    ) -> None:
        self.parent = parent
        self.prefix = prefix
        self.calls = 0 if hints is None else hints.calls
        self.open = 1 if hints is None else hints.open
        self.alone = hints is not None and hints.alone

    def less(self) -> None:
        """One of its calls is issued, or will never be."""
        life: Life | None = self
        while life is not None:
            life.calls -= 1
            life = life.parent

    def end(self) -> None:
        """Nothing more comes of it: it was cancelled."""
        life, self.parent = self.parent, None
        if life is not None:
            life.more(-self.calls, -self.open)
        self.calls = self.open = 0

    def more(self, calls: int, opened: int) -> None:
        """A loop begins: it makes so many calls, and so many further loops are not begun yet."""
        life: Life | None = self
        while life is not None:
            life.calls += calls
            life.open += opened
            life = life.parent


class GraphLives:
    """What the streams and calls of one graph or loop body are told.

    Attributes:
        calls: facts by node.
        captured: see `GraphHints`; root: the same of the stream around a loop's body.
    """

    __slots__ = ("_prefixes", "calls", "captured", "hints", "root")

    def __init__(self, hints: GraphHints, calls: Mapping[int, CallFacts]) -> None:
        self.calls = calls
        self.hints = hints
        root = hints.streams[ROOT_STREAM]
        self.root, self.captured = (root.calls, root.open), hints.captured
        self._prefixes = {at: StaticPrefix(s.prefix) for at, s in hints.streams.items()}

    def begin(self, stream: int = ROOT_STREAM, parent: Life | None = None) -> Life:
        """The life of a stream that opens: of the graph itself, or of a branch by its node."""
        return Life(parent, self.hints.streams.get(stream), self._prefixes.get(stream))

    def go_on(self, stream: int, life: Life) -> None:
        """The graph goes on with a branch that was opened before; those around it count its calls
        already."""
        found = self.hints.streams[stream]
        life.calls += found.calls
        life.open += found.open

    def choose(self, stream: int, parent: Life, among: Sequence[Life]) -> None:
        """A branch of several forks is known; `parent` forked it, `among` are what all of them
        forked from, each of which had to reckon with it."""
        found = self.hints.streams[stream]
        parent.more(found.calls, found.open - (not found.alone))
        for life in among:
            life.more(0, -1)


class OpenLives(GraphLives):
    """Those of a graph whose streams go on behind its end, so that nobody knows their last reader;
    without prefixes where something may stand before it."""

    __slots__ = ()

    def __init__(self, hints: GraphHints, calls: Mapping[int, CallFacts], is_first: bool) -> None:
        opened = {at: CallFacts(f.hints._replace(readers=None), f.most) for at, f in calls.items()}
        super().__init__(hints, opened)
        if not is_first:
            self._prefixes = {}

    def begin(self, stream: int = ROOT_STREAM, parent: Life | None = None) -> Life:
        """The life of a stream that opens; it stays open."""
        life = super().begin(stream, parent)
        life.open += 1
        return life


def open_lives(program: Program, defaults: SamplingParams, is_first: bool) -> dict[int, GraphLives]:
    """As `graph_lives`, of a program whose main graph is a part of what its streams hold."""
    made = graph_lives(program, defaults)
    main = [program.graph, *(n.body for n in program.graph.walk() if n.body is not None)]
    for graph in main:
        closed = made[id(graph)]
        made[id(graph)] = OpenLives(closed.hints, closed.calls, is_first)
    return made


def graph_lives(program: Program, defaults: SamplingParams) -> dict[int, GraphLives]:
    """Those of all graphs and loop bodies of a program, by `id` of the graph."""
    bounds: dict[int, int | None] = {}

    def bound(node: Node) -> int | None:
        if id(node) not in bounds:
            bounds[id(node)] = call_bounds(node, defaults)[1]
        return bounds[id(node)]

    found = graph_hints(program, bound)
    bodies = [n.body for n in program.walk() if n.body is not None]
    made: dict[int, GraphLives] = {}
    for graph in (*program.graphs.values(), *bodies):
        hints = found[id(graph)]
        calls = {at: CallFacts(known, bound(graph.nodes[at])) for at, known in hints.calls.items()}
        made[id(graph)] = GraphLives(hints, calls)
    return made


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
    to_come = core.ctx.to_come
    if to_come is not None:
        chars = core.prompt.num_chars()
        to_come.chars -= chars - max(core.told_chars, core.fork_chars)
        core.told_chars = chars


def tell(
    core: Core, params: SamplingParams, facts: CallFacts | None, template: ChatTemplate
) -> dict[str, Any]:
    """Note that a call of the stream is issued; the hints of its `Call`, by field."""
    to_come, life = core.ctx.to_come, core.life
    told: dict[str, Any] = {"beginnings": _beginnings(core, facts, template)}
    if to_come is not None:
        to_come.tokens -= call_bound(params)
        note_said(core)
        told["more_tokens"], told["more_chars"] = to_come.told()
    if life is not None:
        life.less()
    if facts is None:
        return told
    (readers, next_use, _), told["most"] = facts
    if life is not None and not life.open and life.alone:
        readers = life.calls if readers is None else min(readers, life.calls)
    told["readers"] = readers
    if readers != 0:
        told["next_use"] = next_use
    return told


def forget(core: Core, params: SamplingParams | Mapping[str, Any]) -> None:
    """Note that a call of the stream, which was to come, will not be issued."""
    if core.ctx.to_come is not None:
        core.ctx.to_come.tokens -= bound_as_told(params, core.ctx.defaults.params)
    if core.life is not None:
        core.life.less()


def _beginnings(
    core: Core, facts: CallFacts | None, template: ChatTemplate
) -> tuple[Beginning, ...]:
    prefix = core.life.prefix if core.life is not None else None
    static = prefix.chars(template) if prefix is not None else 0
    shared = core.ctx.shared_chars
    parent = core.forked_from
    if parent is None:
        if prefix is not None and shared <= static:
            return prefix.alone(static)
        return (Beginning(max(shared, static)),) if static or shared else ()
    forks = facts.hints.forks if facts is not None else ()
    found: list[Beginning] = []  # from the longest on
    here, depth, least = core, 0, max(static, shared)
    while parent is not None:
        if here.fork_chars > least:
            if found and found[-1].chars == here.fork_chars:
                found.pop()
            found.append(_at_fork(here.fork_chars, parent.life, forks, depth))
        here, parent, depth = parent, parent.forked_from, depth + 1
    if least:
        found.append(Beginning(least))
    found.reverse()
    return tuple(found)


def _at_fork(chars: int, life: Life | None, forks: Sequence[int | None], depth: int) -> Beginning:
    """The place where a stream forked; `life` is that of what it forked from."""
    if life is None or life.open:
        return Beginning(chars, None, forks[depth] if depth < len(forks) else None)
    # The call itself is still among those to come.
    readers = max(0, life.calls - 1)
    next_use = forks[depth] if depth < len(forks) and readers else None
    return Beginning(chars, readers, next_use)
