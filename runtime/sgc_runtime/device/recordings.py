"""Which recording computes a step of decode rows, and when one is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from sgc_kernels.attention.rows import RowAttention
from sgc_kernels.gpu.attention.items import Grids, Launch
from sgc_runtime.device.graphs import Graphs, padded, sizes

Launches = tuple[Launch, ...]  # of each window
Body = Callable[[int, Launches], torch.Tensor]
# How often a recording of its own would have served a step better before it is made: that takes
# some 50 ms of the host. Fitting grids gain half a millisecond at most, a fitting size more.
_WORTH, _WORTH_A_SIZE = 64, 8
_Form = tuple[int, ...]


class Recordings:
    """Steps of decode rows by their size: one recording serves nearly every plan.

    A size that comes up is launched kernel by kernel once, which compiles what is not compiled
    yet, and recorded when it comes up again. Before, a recording of up to twice the size serves
    it a few times, where there is one.

    Args:
        body: all that the device does in a step of so many tokens, by these grids.
    """

    def __init__(self, graphs: Graphs, attentions: Sequence[RowAttention], body: Body) -> None:
        self._graphs, self._attentions, self._body = graphs, attentions, body
        self._general: dict[_Form, Launches] = {}
        self._ran: set[Launches] = set()
        self._fitting: Counter[Launches] = Counter()
        self._served: Counter[_Form] = Counter()  # by larger ones

    def size(self, tokens: int, launches: Sequence[Launch]) -> int:
        """The size by which a step of so many tokens is computed now."""
        own = padded(tokens)
        form = (own, *(launch.tokens for launch in launches))
        if form in self._general and self._graphs.find(self._general[form]) is not None:
            return own
        for size in sizes(own + 1, own + max(64, own)):
            larger = self._general.get((size, *form[1:]))
            if larger is None or self._graphs.find(larger) is None:
                continue
            if _cover(larger, [replace(launch, rows=size) for launch in launches]):
                self._served[form] += 1
                few = self._served[form] <= _WORTH_A_SIZE
                return size if few or not self._graphs.has_room else own
        return own

    def run(self, launches: Sequence[Launch]) -> torch.Tensor:
        """Compute a step whose plans ask for `launches`; their rows are its size, padded.

        Returns:
            What the body gives; its memory is written by the next step.
        """
        pairs = zip(self._attentions, launches, strict=True)
        grids = [attention.grids(launch) for attention, launch in pairs]
        form = (launches[0].rows, *(launch.tokens for launch in launches))
        general, before = self._serving(form, launches, grids)
        fitting = tuple(one.fitting for one in grids)
        if self._is_worth(fitting, general):
            return self._compute(fitting, None)
        return self._compute(general, before)

    def _serving(
        self, form: _Form, launches: Sequence[Launch], grids: Sequence[Grids]
    ) -> tuple[Launches, Launches | None]:
        """Grids for all plans of a form so far, and those that they take the place of."""
        before = self._general.get(form)
        if before is None:
            general = self._general[form] = tuple(one.general for one in grids)
            return general, None
        if _cover(before, launches):
            return before, None
        if not self._graphs.has_room:
            return tuple(launches), None
        pairs = zip(before, grids, strict=True)
        general = self._general[form] = tuple(a.joined(b.general).rounded() for a, b in pairs)
        return general, before

    def _is_worth(self, fitting: Launches, general: Launches) -> bool:
        if fitting == general:
            return False
        self._fitting[fitting] += 1
        known = self._graphs.find(fitting) is not None
        return known or (self._fitting[fitting] > _WORTH and self._graphs.has_room)

    def _compute(self, grids: Launches, instead: Launches | None) -> torch.Tensor:
        size = grids[0].rows
        recorded = self._graphs.find(grids)
        if recorded is None and instead is not None:
            self._graphs.drop(instead)
        if recorded is None and grids in self._ran:
            recorded = self._graphs.record(grids, lambda: self._body(size, grids))
        if recorded is None:
            result = self._body(size, grids)
            if self._graphs.has_room:  # else each plan has grids of its own, without end
                self._ran.add(grids)
            return result
        recorded.replay()
        return recorded.result


def _cover(grids: Launches, launches: Sequence[Launch]) -> bool:
    return all(a.covers(b) for a, b in zip(grids, launches, strict=True))
