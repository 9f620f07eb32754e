"""Computes an engine's steps on a GPU: small ones as graphs of decode rows, others by kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from sgc_runtime.device.eager import EagerSteps
from sgc_runtime.device.graphs import CudaRecorder, EagerRecorder, Graphs
from sgc_runtime.device.launched import DeviceLaunched, wanted_of
from sgc_runtime.device.row_steps import RowSteps
from sgc_runtime.device.slot_table import Ints, SlotTable
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.profile import NO_PROFILE, Profiling
from sgc_runtime.engine.request import Request, State
from sgc_runtime.engine.runner import Flight, Launched
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.model.forward import KVTensors
from sgc_runtime.model.llama import LlamaModel


class Sampler(Protocol):
    """Chooses ids on the device; see `DeviceSampler`."""

    def start(
        self,
        logits: torch.Tensor,
        rows: Sequence[Request],
        logit_rows: Sequence[int],
        recording: Sequence[tuple[Positions, int]],
        scoring: Sequence[tuple[Positions, int]],
        last_ids: torch.Tensor,
        table_rows: Sequence[int],
    ) -> Flight:
        """Begin to choose.

        Args:
            logits: `[all, vocab]` float32, not to be changed.
            logit_rows: for each of `rows`, its row of `logits`.
            recording, scoring: positions and their first row of `logits`.
            last_ids: ids go there, too, at `table_rows`.
        """
        ...

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        """See `Runner.again`."""
        ...


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """Sizes of a runner.

    Attributes:
        max_running: requests in flight at once.
        max_context: tokens of the longest request.
        padding_slot: a slot of the pool that is never handed out.
        graphs: record small steps.
        graph_bytes: what those may take.
        max_graph_tokens: the largest step that is recorded.
    """

    max_running: int
    max_context: int
    padding_slot: int
    graphs: bool = True
    graph_bytes: int = 1 << 30
    max_graph_tokens: int = 512


class DeviceRunner:
    """A `Runner`. Nothing in `launch` and `sample` waits for the device.

    Attributes:
        graphs: what was recorded; None: nothing is.
    """

    def __init__(
        self,
        model: LlamaModel,
        kv: KVTensors,
        sampler: Sampler,
        options: DeviceOptions,
        profile: Profiling = NO_PROFILE,
    ) -> None:
        self._model, self._sampler, self._profile = model, sampler, profile
        kernels, device = model.kernels.rows, model.device
        uploads = Uploads(device)
        self.table = SlotTable(
            options.max_running, options.max_context, options.padding_slot, kernels, uploads, device
        )
        self._eager = EagerSteps(model, kv, self.table, uploads)
        self.graphs: Graphs | None = None
        self.row_steps: RowSteps | None = None
        if options.graphs and kernels.attention is not None:
            recorder = CudaRecorder(device) if device.type == "cuda" else EagerRecorder()
            self.graphs = Graphs(recorder, options.graph_bytes)
            tokens = options.max_graph_tokens
            self.row_steps = RowSteps(model, kv, self.table, uploads, tokens, self.graphs)

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Compile what small steps run, so that none of them waits for it; takes seconds where the
        kernels are not in Triton's cache yet. Before the first launch."""
        if self.row_steps is not None:
            self.row_steps.warm_up()

    @torch.inference_mode()
    def launch(self, chunks: Sequence[Chunk]) -> DeviceLaunched:
        gens = [c for c in chunks if c.request.scoring is None]
        scorings = [c for c in chunks if c.request.scoring is not None]
        tokens = sum(end - start for _, start, end in chunks)
        if self.row_steps is not None and tokens <= self.row_steps.max_tokens:
            with self._profile.span("prepare"):
                numbers = self._numbers(gens, scorings)
            if numbers is not None:
                return self._launch_rows(self.row_steps, gens + scorings, numbers)
        return self._launch_eager(gens, scorings)

    @torch.inference_mode()
    def sample(
        self,
        launched: Launched,
        rows: Sequence[Request],
        recording: Sequence[Positions],
        scoring: Sequence[Positions],
    ) -> Flight:
        assert isinstance(launched, DeviceLaunched)
        with self._profile.device_span("sample"):
            return self._sampler.start(
                launched.logits,
                rows,
                launched.sampled_rows(rows),
                list(zip(recording, launched.recorded_rows(recording), strict=True)),
                list(zip(scoring, launched.scored_rows(scoring), strict=True)),
                self.table.last_ids,
                [self.table.row(request) for request in rows],
            )

    @torch.inference_mode()
    def sample_kept(self, rows: Sequence[Request], logits: Sequence[torch.Tensor]) -> Flight:
        places = [self.table.row(request) for request in rows]
        with self._profile.device_span("sample"):
            kept, ids = torch.cat(list(logits)), self.table.last_ids
            return self._sampler.start(kept, rows, range(len(rows)), [], [], ids, places)

    @torch.inference_mode()
    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        return self._sampler.again(flight, rows, excluded)

    def forget(self, request: Request) -> None:
        self.table.forget(request)

    def close(self) -> None:
        if self._model.device.type == "cuda":
            torch.cuda.synchronize(self._model.device)

    # -- two ways to compute a step -------------------------------------------------------------

    def _numbers(self, gens: list[Chunk], scorings: list[Chunk]) -> Ints | None:
        if not scorings:
            return self.table.number(gens)
        scored = self.table.number_scorings(scorings)
        return None if scored is None else np.concatenate([self.table.number(gens), scored])

    def _launch_rows(
        self, steps: RowSteps, chunks: Sequence[Chunk], numbers: Ints
    ) -> DeviceLaunched:
        with self._profile.span("prepare"):
            wanted = wanted_of(chunks)
        with self._profile.device_span(_kind(chunks)):
            return DeviceLaunched(wanted, steps.run(numbers, wanted.rows))

    def _launch_eager(self, gens: list[Chunk], scorings: list[Chunk]) -> DeviceLaunched:
        with self._profile.span("prepare"):
            self.table.fill(gens)
            chunks = self._eager.ordered(gens) + scorings
            numbers = self.table.number(chunks[: len(gens)])
            wanted = wanted_of(chunks)
            rows = np.arange(len(chunks)) if wanted.rows is None else wanted.rows
        with self._profile.device_span(_kind(chunks)):
            return DeviceLaunched(wanted, self._eager.run(chunks, numbers, rows))


def _kind(chunks: Sequence[Chunk]) -> str:
    prefills = any(chunk.request.state is State.PREFILLING for chunk in chunks)
    return "prefill" if prefills else "decode"
