"""What a graph means, told node by node in program order: plain Python, no futures, no queues.

Knows texts, gens, expressions, tools, forks of static width, joins, sub-programs, branches, merges
and loops. Independent calls of a row that fails are made all the same, as the executor makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.expr import FUNCTIONS, evaluate
from sgc_ir.graph import ROOT_STREAM, UNSET, Graph, Node, Program, Ref
from sgc_ir.ops import Op

Place = tuple[int, ...]
Reply = Callable[[str], str]  # raises where the call fails


@dataclass(frozen=True)
class Bad:
    """A value that is not there: its node failed, or depends on one that failed."""

    error: str


DEAD = Bad("dead")


@dataclass
class Line:
    """A stream."""

    path: str
    text: str = ""
    start: int = 0  # length of what a branch has from its parent
    error: Bad | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    inherited: frozenset[str] = frozenset()

    def branch(self, path: str) -> Line:
        known = dict(self.variables)
        return Line(path, self.text, len(self.text), self.error, known, frozenset(known))


@dataclass
class Told:
    """All that a row did and left behind."""

    calls: dict[str, str] = field(default_factory=dict)  # path -> prompt
    tools: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)  # those with effects
    pure: set[str] = field(default_factory=set)
    errors: dict[Place, str] = field(default_factory=dict)
    value: Any = None
    vars: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    dead: int = 0
    nodes: int = 0

    @property
    def error(self) -> str | None:
        return self.errors[min(self.errors)] if self.errors else None


def tell(program: Program, args: Mapping[str, Any], reply: Reply) -> Told:
    """Run one row; a tool gives its name and arguments as one text."""
    told = Told()
    line = Line("")
    frame = _Frame(program, program.graph, line, dict(args), (), told, reply)
    frame.run()
    told.value, told.text = frame.result, line.text
    told.vars = {k: v for k, v in frame.out.items() if not _missing(v)}
    return told


def _missing(value: Any) -> bool:
    return value is UNSET or _bad(value) is not None


def _bad(value: Any) -> Bad | None:
    """The first failure inside an operand."""
    if isinstance(value, Bad):
        return value
    if isinstance(value, tuple | list):
        return next((b for item in value if (b := _bad(item)) is not None), None)
    if isinstance(value, dict):
        return _bad(list(value.values()))
    return None


class _Frame:
    def __init__(
        self,
        program: Program,
        graph: Graph,
        root: Line,
        params: dict[str, Any],
        prefix: Place,
        told: Told,
        reply: Reply,
        stopped: Bad | None = None,
    ) -> None:
        self.program, self.graph, self.root, self.params = program, graph, root, params
        self.prefix, self.told, self.reply = prefix, told, reply
        self.values: list[Any] = []
        self.tokens: dict[tuple[int, bool], Any] = {}  # True, False (dead), or Bad
        self.stopped = stopped  # what keeps tools with effects from running
        self.result: Any = None
        self.out: dict[str, Any] = {}
        self.kind: Any = 0

    def run(self) -> None:
        for node in self.graph.nodes:
            self.told.nodes += 1
            state = True if node.control is None else self.tokens[node.control]
            if node.op is Op.MERGE:
                self.values.append(self._merge(node))
            elif state is False:
                self.told.dead += 1
                self.values.append(self._dead(node))
            elif isinstance(state, Bad):
                self.values.append(self._failed(node, state))
            else:
                self.values.append(self._do(node))

    def _dead(self, node: Node) -> Any:
        if node.op is Op.BRANCH:
            self.tokens[node.id, True] = self.tokens[node.id, False] = False
        if node.op is Op.RETURN:
            self._no_return(node, DEAD)
        return DEAD

    def _failed(self, node: Node, error: Bad) -> Any:
        if node.appends:
            line = self.line(node)
            line.error = line.error or error
        if node.op is Op.BRANCH:
            self.tokens[node.id, True] = self.tokens[node.id, False] = error
        elif node.op is Op.RETURN:
            self._no_return(node, error)
        elif node.op in (Op.FORK, Op.GET_FORK_ITEM, Op.JOIN):
            return self._do(node)
        elif node.op is Op.GEN:
            self.line(node).variables[node.attrs["name"]] = error
        self._guard(node, error)
        return error

    def _no_return(self, node: Node, error: Bad) -> None:
        self.result = self.kind = error
        self.out = dict.fromkeys(node.attrs["vars"], error)

    def _merge(self, node: Node) -> Any:
        states = [self.tokens[ref.node, arm] for ref, arm in node.attrs["tokens"]]
        token = node.id, True
        if True in [state is True for state in states]:
            self.tokens[token] = True
            values = node.attrs["values"]
            arrived = next(i for i, state in enumerate(states) if state is True)
            return self.operand(values[arrived]) if values else None
        failed = next((state for state in states if isinstance(state, Bad)), None)
        self.tokens[token] = False if failed is None else failed
        self.told.dead += failed is None
        return DEAD if failed is None else failed

    # -- helpers

    def line(self, node: Node) -> Line:
        found: Line = self.root if node.stream == ROOT_STREAM else self.values[node.stream]
        return found

    def operand(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.values[value.node]
        if isinstance(value, tuple | list):
            return type(value)([self.operand(item) for item in value])
        if isinstance(value, dict):
            return {key: self.operand(item) for key, item in value.items()}
        return value

    def note(self, node: Node, text: str) -> Bad:
        self.told.errors[(*self.prefix, node.id)] = text
        return Bad(text)

    def _guard(self, node: Node, value: Any) -> None:
        fn, field = node.attrs.get("fn", ""), node.attrs.get("field")
        partial = node.op is Op.EXPR and fn != "set" and not FUNCTIONS[fn].total
        read = node.op is Op.VARIABLE and field not in ("item", "output", "kind")
        if partial or read or node.op in (Op.CALL, Op.BRANCH):
            self.stopped = self.stopped or _bad(value)

    def _path(self, node: Node, letter: str, ordinal: Any) -> str:
        path = self.line(node).path
        return f"{path}/{letter}{ordinal}" if path else f"{letter}{ordinal}"

    # -- nodes

    def _do(self, node: Node) -> Any:
        value = getattr(self, "_" + node.op.name.lower())(node)
        self._guard(node, value)
        if node.attrs.get("append"):
            self._append(node, value)
        return value

    def _append(self, node: Node, value: Any) -> None:
        line = self.line(node)
        if line.error is None:
            line.error = _bad(value)
        if line.error is None:
            line.text += str(value)

    def _constant_text(self, node: Node) -> Any:
        self._append(node, node.attrs["text"])
        return node.attrs["text"]

    def _argument(self, node: Node) -> Any:
        return self.params[node.attrs["name"]]

    def _expr(self, node: Node) -> Any:
        args = self.operand(node.attrs["args"])
        if node.attrs["fn"] == "set":
            self.line(node).variables[args[0]] = args[1]
            return args[1]
        if (bad := _bad(args)) is not None:
            return bad
        try:
            return evaluate(node.attrs["fn"], args)
        except Exception as error:
            return self.note(node, f"{type(error).__name__}: {error}")

    def _gen(self, node: Node) -> Any:
        line, name = self.line(node), node.attrs["name"]
        ordinal = self.operand(node.attrs["ordinal"])
        line.error = line.error or _bad(ordinal)
        if line.error is not None:
            line.variables[name] = line.error
            return line.error
        path = self._path(node, "g", ordinal)
        self.told.calls[path] = line.text
        try:
            value: Any = self.reply(line.text)
            line.text += value
        except Exception as error:
            value = line.error = self.note(node, str(error))
        line.variables[name] = value
        return value

    def _call(self, node: Node) -> Any:
        args = self.operand(tuple(node.attrs["args"]))
        bad = _bad(args)
        if node.attrs["effect"] != "pure":
            bad = bad or self.stopped
        if bad is not None:
            return bad
        call = node.attrs["tool"], args
        if node.attrs["effect"] == "pure":
            self.told.pure.add(str(call))
        else:
            self.told.tools.append(call)
        return f"{call[0]}:{args!r}"

    def _variable(self, node: Node) -> Any:
        field, name = node.attrs.get("field", "value"), node.attrs["name"]
        if field == "stream_text":
            line = self.line(node)
            return line.error or line.text
        found = self.values[node.attrs["of"].node]
        if isinstance(found, Bad):
            return found
        if isinstance(found, _Frame):
            if field == "text":
                return found.root.error or found.root.text
            found = found.result if field == "result" else found.out.get(name, UNSET)
        elif isinstance(found, _Passes) and field in ("output", "kind"):
            found = found.kind if field == "kind" else found.slots[name]
            return found
        elif isinstance(found, Line) and field == "text":
            return found.error or found.text
        elif isinstance(found, Line):
            found = found.variables.get(name, UNSET)
        elif isinstance(found, dict):
            found = found.get(name, UNSET)
        if found is UNSET:
            return self.note(node, f"variable {name!r} is not set")
        return found

    def _fork(self, node: Node) -> Any:
        line = self.line(node)
        path = self._path(node, "f", self.operand(node.attrs["ordinal"]))
        items = self.operand(node.attrs.get("items"))
        if isinstance(items, Bad):
            return items
        width = node.attrs.get("width", 0) if items is None else len(items)
        return [line.branch(f"{path}[{i}]") for i in range(width)]

    def _get_fork_item(self, node: Node) -> Any:
        index = self.operand(node.attrs["index"])
        if isinstance(index, Bad):
            return Line("", error=index)
        refs = (node.attrs["fork"], *node.attrs.get("more", ()))
        return [branch for ref in refs for branch in self.operand(ref)][index]

    def _join(self, node: Node) -> Any:
        branches: list[Line] = self.operand(node.attrs["fork"])
        line = self.line(node)
        if isinstance(branches, Bad):
            if node.attrs["mode"] == "append":
                line.error = line.error or branches
            return branches
        if node.attrs["mode"] == "append":
            line.error = line.error or next((b.error for b in branches if b.error), None)
            if line.error is None:
                line.text += "".join(branch.text[branch.start :] for branch in branches)
            return None
        gathered: dict[str, Any] = {}
        names = {n: 0 for b in branches for n in b.variables if n not in b.inherited}
        for name in node.attrs.get("vars", names):
            if "vars" in node.attrs:
                found = [self.operand(writer) for writer in node.attrs["vars"][name]]
            else:
                found = [branch.variables.get(name, UNSET) for branch in branches]
            lacking = [i for i, value in enumerate(found) if value is UNSET]
            if lacking and len(lacking) < len(found):
                return self.note(
                    node, f"variable {name!r} is not set in branch {branches[lacking[0]].path}"
                )
            if not lacking:
                gathered[name] = _bad(found) or found
        line.variables.update(gathered)
        return gathered

    def _sub_program(self, node: Node) -> Any:
        graph = self.program.graphs[node.attrs["callee"]]
        place = (*self.prefix, node.id)
        line = Line(self._path(node, "c", self.operand(node.attrs["ordinal"])))
        params = self.operand(node.attrs["args"])
        return self._run_inside(graph, line, params, place)

    def _run_inside(self, graph: Graph, line: Line, params: Any, place: Any) -> _Frame:
        told, reply, stopped = self.told, self.reply, self.stopped
        frame = _Frame(self.program, graph, line, params, place, told, reply, stopped)
        frame.run()
        return frame

    def _branch(self, node: Node) -> Any:
        cond = self.operand(node.attrs["cond"])
        bad = _bad(cond)
        self.tokens[node.id, True] = bool(cond) if bad is None else bad
        self.tokens[node.id, False] = not cond if bad is None else bad
        return cond if bad is not None else bool(cond)

    def _loop(self, node: Node) -> Any:
        body, attrs = node.body, node.attrs
        assert body is not None
        over = [self.operand(value) for value in attrs["over"]]
        limit = self.operand(attrs.get("max"))
        slots = self.operand(attrs.get("carried", {}))
        bad = _bad([column for column in over if isinstance(column, Bad)]) or _bad(limit)
        if bad is not None:
            return _Passes([bad], dict.fromkeys(slots, bad), bad)
        over = [range(len(x)) if x and isinstance(x[0], Line) else x for x in over]
        lengths = [len(column) for column in over] + ([] if limit is None else [max(0, limit)])
        values: list[Any] = []
        kind: Any = 0
        for i in range(min(lengths)):
            params = dict(zip(attrs["item_params"], (column[i] for column in over), strict=True))
            if attrs["index_param"]:
                params[attrs["index_param"]] = i
            params |= {name: self.values[ref.node] for name, ref in attrs["captures"].items()}
            params |= slots
            frame = self._run_inside(body, self.line(node), params, (*self.prefix, node.id, i))
            self.stopped = self.stopped or frame.stopped
            values.append(frame.result)
            slots, kind = frame.out, frame.kind
            if "kind" in body.nodes[-1].attrs and kind != 0:
                if isinstance(kind, Bad):
                    slots = dict.fromkeys(slots, kind)
                break
        return _Passes(values, slots, kind)

    def _return(self, node: Node) -> Any:
        value = self.operand(node.attrs["value"])
        self.result = _bad(value) or value
        self.out = self.operand(node.attrs["vars"])
        self.kind = self.operand(node.attrs.get("kind", 0))
        return None


class _Passes(list[Any]):
    """A loop's list, and what its last pass leaves."""

    def __init__(self, values: list[Any], slots: dict[str, Any], kind: Any) -> None:
        super().__init__(values)
        self.slots, self.kind = slots, kind
