"""Chooses the next ids on a device, beside the forward that comes next.

A step's sampling is one kernel that reads the logits once, or two where some row draws; where they
are asked for, one that changes a few logits before and one that takes that back behind, and those
that sum up log-probabilities. Nothing waits: parameters go up when they change, masks when they are
new, and all results come down in one copy. What is chosen is what `sampling.sampler` chooses, but
for its noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch

from sgc_kernels.gpu.sampling.select import SamplingKernels, sampling_kernels
from sgc_runtime.device.sample_again import OtherChoices
from sgc_runtime.device.sample_choice import Chooser
from sgc_runtime.device.sample_flight import SampleFlight
from sgc_runtime.device.sample_given import Recorded, Scores
from sgc_runtime.device.sample_output import Layout, Outputs
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.runner import Flight
from sgc_runtime.engine.step_input import Positions


class DeviceSampler:
    """The sampler of a runner, for one step after the other.

    Args:
        max_rows: rows at once, and places in `last_ids`.
        kernels: None: those for the device.
    """

    def __init__(
        self,
        vocab: int,
        max_rows: int,
        device: torch.device,
        kernels: SamplingKernels | None = None,
    ) -> None:
        self._vocab, self._device = vocab, device
        self._kernels = sampling_kernels(device) if kernels is None else kernels
        self._uploads, self._outputs = Uploads(device), Outputs(device)
        self._chooser = Chooser(vocab, max_rows, device, self._kernels, self._uploads)
        self._again = OtherChoices(vocab, max_rows, device, self._kernels, self._uploads)
        self._side = _side_stream(device) if device.type == "cuda" else None

    def start(
        self,
        logits: torch.Tensor,
        rows: Sequence[Request],
        logit_rows: Sequence[int],
        recording: Sequence[tuple[Positions, int]],
        scoring: Sequence[tuple[Positions, int]],
        last_ids: torch.Tensor,
        table_rows: Sequence[int],
    ) -> SampleFlight:
        """Begin to choose.

        Args:
            logits: `[all, vocab]` float32; unchanged when this is done.
            logit_rows: for each of `rows`, its row of `logits`; ascending.
            recording, scoring: positions and their first row of `logits`.
            last_ids: int64; ids go there, too, at `table_rows`.
        """
        layout, chooser = Layout(), self._chooser
        chosen = None
        if rows:
            asked = [request.row for request in rows if request.row is not None]
            at, places = list(logit_rows), list(table_rows)
            chosen = chooser.begin(layout, logits, asked, at, places)
        recorded = Recorded(layout, recording, self._vocab) if recording else None
        scores = Scores(layout, scoring) if scoring else None
        output = self._outputs.take(layout.size)
        if chosen is not None:
            chooser.run(chosen, output.memory, last_ids)
        for given in (recorded, scores):
            if given is not None:
                given.compute(self._kernels, logits, self._uploads, output.memory)
        output.send(layout.size)
        return SampleFlight(chosen, recorded, scores, output, self._outputs)

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        """See `Runner.again`; waits for nothing that was begun after the flight."""
        assert isinstance(flight, SampleFlight)
        chosen = flight.chosen
        assert chosen is not None
        with nullcontext() if self._side is None else torch.cuda.stream(self._side):
            return self._again.ids(chosen, flight.others, rows, excluded)


def _side_stream(device: torch.device) -> torch.cuda.Stream:
    """One whose few programs come before those of a forward that is in flight."""
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
