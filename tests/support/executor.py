"""Builds small graphs by hand and runs them on the scripted backend."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.graph import MISSING, ROOT_STREAM, Graph, Node, Param, Program, Ref, Source
from sgc_ir.ops import OPS, Op
from sgc_ir.params import SamplingParams
from sgc_ir.text import parse_program
from sgc_ir.verify import verify
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import RunDefaults
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync
from sgc_runtime.executor.state import FinishedState

_ORDINAL_KINDS = {"g", "f", "c"}


class GraphBuilder:
    """Appends nodes; ordinals are counted per stream; line numbers are node ids plus one."""

    def __init__(self, name: str = "main", **params: Any) -> None:
        self.name = name
        self.params = tuple(Param(p, default=d) for p, d in params.items())
        self.nodes: list[Node] = []
        self._counts: dict[tuple[int, str], itertools.count[int]] = {}

    def add(
        self, op: Op, stream: Ref | int = ROOT_STREAM, body: Graph | None = None, **attrs: Any
    ) -> Ref:
        sid = stream.node if isinstance(stream, Ref) else stream
        kind = OPS[op].path_kind
        if kind in _ORDINAL_KINDS and "ordinal" not in attrs:
            attrs["ordinal"] = next(self._counts.setdefault((sid, kind), itertools.count()))
        node_id = len(self.nodes)
        source = Source("p.py", node_id + 1)
        self.nodes.append(Node(node_id, op, sid, attrs, source, body=body))
        return Ref(node_id)

    def text(self, text: str, stream: Ref | int = ROOT_STREAM) -> Ref:
        return self.add(Op.CONSTANT_TEXT, stream, text=text)

    def arg(self, name: str, stream: Ref | int = ROOT_STREAM, **attrs: Any) -> Ref:
        return self.add(Op.ARGUMENT, stream, name=name, **attrs)

    def gen(self, name: str, stream: Ref | int = ROOT_STREAM, **params: Any) -> Ref:
        return self.add(Op.GEN, stream, name=name, **params)

    def select(self, name: str, stream: Ref | int = ROOT_STREAM, **params: Any) -> Ref:
        return self.add(Op.SELECT, stream, name=name, **params)

    def expr(self, fn: str, *args: Any, stream: Ref | int = ROOT_STREAM, **attrs: Any) -> Ref:
        return self.add(Op.EXPR, stream, fn=fn, args=args, **attrs)

    def put(self, value: Any, stream: Ref | int = ROOT_STREAM) -> Ref:
        return self.expr("text", value, stream=stream, append=True)

    def var(self, name: str, of: Ref, stream: Ref | int = ROOT_STREAM, **attrs: Any) -> Ref:
        return self.add(Op.VARIABLE, stream, name=name, of=of, **attrs)

    def fork(self, stream: Ref | int = ROOT_STREAM, **attrs: Any) -> Ref:
        return self.add(Op.FORK, stream, **attrs)

    def item(self, fork: Ref, index: Any, stream: Ref | int = ROOT_STREAM) -> Ref:
        return self.add(Op.GET_FORK_ITEM, stream, fork=fork, index=index)

    def static_fork(self, width: int, stream: Ref | int = ROOT_STREAM) -> tuple[Ref, list[Ref]]:
        fork = self.fork(stream, width=width)
        return fork, [self.item(fork, i, stream) for i in range(width)]

    def loop(
        self,
        over: list[Ref],
        build: Callable[..., Any],
        stream: Ref | int = ROOT_STREAM,
        captures: Mapping[str, Ref] | None = None,
        index: str | None = None,
        after: Ref | None = None,
    ) -> Ref:
        """`build(body, *item refs, **capture refs)` gives the pass's value."""
        items = tuple(f"item{i}" for i in range(len(over)))
        captures = dict(captures or {})
        names = [*items, *([index] if index else []), *captures]
        body = GraphBuilder("body", **dict.fromkeys(names, MISSING))
        refs = {name: body.arg(name) for name in names}
        value = build(
            body, *[refs[i] for i in items], **{n: refs[n] for n in names if n not in items}
        )
        attrs: dict[str, Any] = {
            "over": tuple(over),
            "item_params": items,
            "index_param": index,
            "captures": captures,
        }
        if after is not None:
            attrs["after"] = after
        return self.add(Op.LOOP, stream, body=body.done(value), **attrs)

    def done(self, value: Any = None, **variables: Any) -> Graph:
        self.add(Op.RETURN, value=value, vars=variables)
        return Graph(self.name, self.params, tuple(self.nodes), Source("p.py", 1))


def program_of(*graphs: Graph, tools: Mapping[str, str] | None = None) -> Program:
    """A verified program; the first graph is the entry."""
    program = Program(graphs[0].name, {g.name: g for g in graphs}, tools=tools or {})
    verify(program)
    return program


def main_program(
    nodes: str, params: str = "", more: str = "", tools: Mapping[str, str] | None = None
) -> Program:
    """A main graph of these nodes in the text form; `more` are the graphs that it calls."""
    listed = f"tools {json.dumps(tools)}" if tools else ""
    return parse_program(f"program main\n{listed}\ngraph main({params}) {{\n{nodes}\n}}\n{more}")


def run_graph(
    program: Program | Graph,
    backend: ScriptedBackend | None = None,
    args: Mapping[str, Any] | None = None,
    tools: Mapping[str, Any] | None = None,
    **context: Any,
) -> FinishedState:
    """Run one row and give its state; the default row is 0, the default seed 0."""
    whole = program if isinstance(program, Program) else program_of(program)

    async def run() -> FinishedState:
        ctx = RunContext(backend, **{"defaults": RunDefaults(SamplingParams()), **context})
        return await execute(whole, args or {}, ctx, tools)

    return run_sync(run())


def echo(prompt: str, params: SamplingParams) -> str:
    """A reply that tells prompts apart: the prompt's length and its last characters."""
    return f"<{len(prompt)}:{prompt[-3:]}>"


def call_order(backend: ScriptedBackend) -> list[str]:
    """Paths of the calls' nodes, as they came."""
    return [call["node"] for call in backend.calls]


def prompts(backend: ScriptedBackend) -> dict[str, str]:
    """Node path -> prompt of each call."""
    return {call["node"]: call["prompt"] for call in backend.calls}
