"""Whether all that is in flight can end without anybody's memory being taken away.

A state is safe if there is an order in which each finds what it may still need in what is left, and
in what those before it have given back (the banker's algorithm of Dijkstra, EWD 108, with one
resource). By what each may need at most the order is the ascending one. Requests begin, and rows
decode, only into safe states; so nothing is ever retracted, as long as the bounds hold. Rows for
which there is no memory pause, with what they have, until others end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sgc_runtime.engine.request import Request

Need = tuple[int, int]  # slots that one may still take, and those that it holds alone


def need_of(request: Request) -> Need:
    """Of a request in flight. What others hold with it is not its alone."""
    node = request.node
    assert node is not None
    holds = request.num_slots - node.end
    while node.parent is not None and node.locks == 1:
        holds += len(node.key)
        node = node.parent
    return request.num_needed, holds


def is_safe(available: int, needs: Iterable[Need]) -> bool:
    """Whether all can end, one after another."""
    for need, holds in sorted(needs):
        if need > available:
            return False
        available += holds
    return True


def most_that_may_go(available: int, needs: Sequence[Need], wanted: Sequence[int]) -> int:
    """How many may take what they want now, the first ones of `needs`.

    Args:
        needs: of all in flight, those that want something first.
        wanted: slots that each of the first ones wants.
    """
    low, high = 0, len(wanted)
    while low < high:  # what is safe is safe with fewer of them too
        middle = (low + high + 1) // 2
        given = [(n - w, h + w) for (n, h), w in zip(needs, wanted[:middle], strict=False)]
        if is_safe(available - sum(wanted[:middle]), [*given, *needs[middle:]]):
            low = middle
        else:
            high = middle - 1
    return low
