"""Draws branches that the run puts in an order: of one fork, or of several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc_ir.graph import Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from support.random_control import Maker, Scope


def choose(maker: Maker, scope: Scope, depth: int) -> bool:
    """Forks with something in their branches, then one or two branches that the run chooses."""
    draw = maker.draw
    forks: list[Ref] = []
    widths: list[int] = []
    for _ in range(draw.randint(1, 3)):
        stream = maker.stream(scope)
        widths.append(draw.randint(1, 2))
        ordinal = maker.ordinal(scope, stream, "f")
        forks.append(maker.add(Op.FORK, scope, stream, ordinal=ordinal, width=widths[-1]))
        for index in range(widths[-1]):
            if draw.random() < 0.8:
                item = maker.add(Op.GET_FORK_ITEM, scope, fork=forks[-1], index=index)
                _fill(maker, scope, item.node)
    order = maker.order(scope, sum(widths))
    more: dict[str, Any] = {"more": tuple(forks[1:])} if forks[1:] else {}
    chosen: list[int] = []
    for place in range(min(draw.randint(1, 2), sum(widths))):
        index = maker.add(Op.EXPR, scope, fn="getitem", args=(order, place))
        made = maker.add(Op.GET_FORK_ITEM, scope, fork=forks[0], index=index, **more)
        for kind in "gf":  # what the branch has counted is not known here: start far above
            maker.counts[made.node, kind] = 1000 * made.node
        chosen.append(made.node)
    inner = maker.inside(scope, [*chosen, *chosen, scope.streams[0]])
    reached = maker.block(inner, depth - 1)
    scope.token = inner.token
    if reached:
        scope.values += [v for v in inner.values[-2:] if v not in scope.values]
    return reached


def _fill(maker: Maker, scope: Scope, stream: int) -> None:
    inner = maker.inside(scope, [stream])
    for _ in range(maker.draw.randint(0, 3)):
        maker.draw.choice([maker.text, maker.gen, maker.gen, maker.put])(inner, 0)
    scope.values += inner.values[len(scope.values) :]
