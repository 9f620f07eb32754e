"""Whether two streams or handles are the same one, where that is known before the run."""

from __future__ import annotations

from typing import Any

from sgc.trace.family import Branch
from sgc.trace.handle import TracedHandle
from sgc.trace.refusal import refuse
from sgc_ir.ops import Op


def is_same(a: Any, b: Any) -> bool:
    """`a is b`. Refuses where a run decides, as for a branch of this pass and branch 0."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Branch) and a.family is b.family:
        if isinstance(a.index, int) and isinstance(b.index, int):
            return False
        raise refuse("which of the branches this is, is decided at run time; compare their numbers")
    if isinstance(a, TracedHandle) and not (_is_call(a) and _is_call(b)):
        raise refuse("which of the handles this is, is decided at run time; compare their values")
    return False


def _is_call(handle: TracedHandle) -> bool:
    symbol = handle.symbol
    return symbol.region.nodes[symbol.node].op is Op.SUB_PROGRAM
