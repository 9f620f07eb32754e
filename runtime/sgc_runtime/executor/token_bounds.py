"""How many tokens the calls of a program can generate at most, as far as its graph tells."""

from __future__ import annotations

from sgc_ir.graph import Graph, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams


def call_bound(params: SamplingParams) -> int:
    """Tokens that one call may generate; at least 1, which is what a select counts."""
    return max(1, params.max_tokens * params.n) if params.choices is None else 1


def program_bound(program: Program, defaults: SamplingParams) -> int | None:
    """Tokens that all calls of one instance may generate; exact for a graph in which each call
    runs once, None where the run decides how many calls or how many tokens there are."""
    return _graph_bound(program, program.graph, defaults, frozenset())


def _graph_bound(
    program: Program, graph: Graph, defaults: SamplingParams, callers: frozenset[str]
) -> int | None:
    if graph.name in callers:
        return None
    total = 0
    for node in graph.nodes:
        found: int | None = 0
        if node.body is not None:
            found = None
        elif node.op is Op.SELECT:
            found = 1
        elif node.op is Op.GEN:
            found = _gen_bound(
                node.attrs.get("max_tokens", defaults.max_tokens), node.attrs.get("n", defaults.n)
            )
        elif node.op is Op.SUB_PROGRAM:
            callee = program.graphs[node.attrs["callee"]]
            found = _graph_bound(program, callee, defaults, callers | {graph.name})
        if found is None:
            return None
        total += found
    return total


def _gen_bound(max_tokens: int | Ref, n: int | Ref) -> int | None:
    if isinstance(max_tokens, Ref) or isinstance(n, Ref):
        return None
    return max(1, max_tokens * n)
