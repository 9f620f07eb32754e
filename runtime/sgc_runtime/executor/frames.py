"""Makes the frame that a graph needs: a plain one, or one whose nodes stand under tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sgc_ir.graph import Graph
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.control_frame import ControlFrame
from sgc_runtime.executor.control_plan import Lane
from sgc_runtime.executor.effects import EffectChain
from sgc_runtime.executor.frame import BodyRoot, Frame, GraphRun
from sgc_runtime.executor.scope import Order
from sgc_runtime.executor.stream import Stream


def make_frame(
    run: GraphRun,
    graph: Graph,
    root: Stream,
    params: Mapping[str, Any],
    prefix: Order,
    chain: EffectChain | None = None,
    body_root: BodyRoot | None = None,
    carried: dict[str, Any] | None = None,
    starts: Mapping[Lane, Cell] | None = None,
) -> Frame:
    """A frame of the kind that the graph needs; see `Frame` for the arguments.

    `starts` gives the cell for which the nodes of a lane wait; the graph must be one with
    branches.
    """
    if run.executable.plan(graph).control is None:
        return Frame(run, graph, root, params, prefix, chain, body_root, carried)
    return ControlFrame(run, graph, root, params, prefix, chain, body_root, carried, starts=starts)
