"""How many tokens the calls of a program can generate at most, as far as its graph tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.graph import Graph, Node, Program, Ref
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams


def call_bound(params: SamplingParams) -> int:
    """Tokens that one call may generate; at least 1, which is what a select counts."""
    return max(1, params.max_tokens * params.n) if params.choices is None else 1


def bound_as_told(params: SamplingParams | Mapping[str, Any], defaults: SamplingParams) -> int:
    """The same of parameters that may wait for a run's values: 0 where those decide it."""
    if isinstance(params, SamplingParams):
        return call_bound(params)
    if "choices" in params:
        return 1
    most, n = params.get("max_tokens", defaults.max_tokens), params.get("n", defaults.n)
    return max(1, most * n) if isinstance(most, int) and isinstance(n, int) else 0


def node_bound(
    program: Program, node: Node, defaults: SamplingParams, callers: frozenset[str] = frozenset()
) -> int | None:
    """Tokens that the calls of one node may generate: a gen or select, a sub-program, a loop; None
    where the run decides how many calls or how many tokens there are. Calls on paths that are not
    taken are counted until the run knows that they are not."""
    if node.body is not None:
        return None
    if node.op is Op.SELECT:
        return 1
    if node.op is Op.GEN:
        max_tokens = node.attrs.get("max_tokens", defaults.max_tokens)
        return _gen_bound(max_tokens, node.attrs.get("n", defaults.n))
    if node.op is Op.SUB_PROGRAM:
        return _graph_bound(program, program.graphs[node.attrs["callee"]], defaults, callers)
    return 0


def _graph_bound(
    program: Program, graph: Graph, defaults: SamplingParams, callers: frozenset[str]
) -> int | None:
    if graph.name in callers:
        return None
    total = 0
    for node in graph.nodes:
        found = node_bound(program, node, defaults, callers | {graph.name})
        if found is None:
            return None
        total += found
    return total


def _gen_bound(max_tokens: int | Ref, n: int | Ref) -> int | None:
    if isinstance(max_tokens, Ref) or isinstance(n, Ref):
        return None
    return max(1, max_tokens * n)
