"""How many tokens a gen of a graph makes, at least and at most, as far as the graph tells."""

from __future__ import annotations

from sgc_ir.graph import Node, Ref, iter_refs
from sgc_ir.ops import Op
from sgc_ir.params import PARAM_NAMES, SamplingParams

_BINDING = ("regex", "json_schema", "grammar", "dtype", "choices")


def call_bounds(node: Node, defaults: SamplingParams) -> tuple[int, int | None]:
    """Tokens of one sample, at least and at most (None: the run decides); a select makes none.

    Args:
        defaults: for parameters that the node does not set.
    """
    if node.op is Op.SELECT:
        return 0, 0
    values = {k: v for k, v in node.attrs.items() if k in PARAM_NAMES}
    if next(iter_refs(tuple(values.values())), None) is not None:
        most = values.get("max_tokens", defaults.max_tokens)
        return 0, None if isinstance(most, Ref) else most
    if not any(name in values for name in _BINDING):  # the usual case, without a copy of all
        high = values.get("max_tokens", defaults.max_tokens)
        return min(values.get("min_tokens", defaults.min_tokens), high), high
    from sgc_ir.analysis.output_bounds import output_bounds  # automata, for who has constraints

    try:
        low, high = output_bounds(defaults.override(values), len)
    except (ValueError, TypeError):
        return 0, None  # the call itself says what is wrong
    return low, high
