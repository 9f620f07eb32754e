"""Ids that are being chosen on a device, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sgc_runtime.device.sample_given import Recorded, RowLogprobs, Scores
from sgc_runtime.device.sample_output import Output, Outputs, Section
from sgc_runtime.engine.runner import Results
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs


@dataclass(slots=True)
class Apart:
    """Rows whose log-probabilities come from a copy of their logits.

    Attributes:
        places: which of the sampled rows these are.
        asking, bound: which of `places` want log-probabilities, and have a rule.
        logprobs: of the ids; of rows that do not ask, too.
        shares: of what their masks allow, where they have one.
    """

    places: list[int]
    asking: list[int]
    bound: list[int]
    logprobs: RowLogprobs
    shares: Section


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is chosen, and where in the output.

    Attributes:
        rows: the sampled rows; `at`: their rows of `logits`, ascending.
        changed: places of the rows whose logits are not used as they are.
        asking, bound: places of the rows that want log-probabilities or have a rule, but those
            that are apart.
        tokens: of all rows of the logits up to the last sampled one; `logprobs` and `shares`
            likewise, where some row wants them.
    """

    rows: Sequence[SamplingRow]
    at: Sequence[int]
    logits: torch.Tensor
    changed: list[int]
    asking: list[int]
    bound: list[int]
    tokens: Section
    logprobs: Section | None
    shares: Section | None
    apart: Apart | None


class SampleFlight:
    """A `Flight`.

    Attributes:
        others: by place, the choices of rows whose first one was refused, as far as known.
    """

    def __init__(
        self,
        chosen: Chosen | None,
        recorded: Recorded | None,
        scores: Scores | None,
        output: Output,
        outputs: Outputs,
    ) -> None:
        self.chosen = chosen
        self.others: dict[int, list[int]] = {}
        self._recorded, self._scores = recorded, scores
        self._output, self._outputs = output, outputs

    def result(self) -> Results:
        numbers = self._output.wait()
        found = Results(
            ids=_ids(self.chosen, numbers),
            logprobs=_logprobs(self.chosen, numbers),
            shares=_shares(self.chosen, numbers),
            recorded=[] if self._recorded is None else self._recorded.read(numbers),
            scores=[] if self._scores is None else self._scores.read(numbers),
        )
        self._outputs.give_back(self._output)
        return found


def _ids(chosen: Chosen | None, numbers: NDArray[np.int32]) -> list[int]:
    if chosen is None:
        return []
    tokens: list[int] = chosen.tokens.ints(numbers).tolist()
    if len(tokens) == len(chosen.at):  # rows ascend
        return tokens
    return [tokens[i] for i in chosen.at]


def _logprobs(chosen: Chosen | None, numbers: NDArray[np.int32]) -> dict[int, TokenLogprobs]:
    found: dict[int, TokenLogprobs] = {}
    if chosen is None:
        return found
    if chosen.logprobs is not None:
        values = chosen.logprobs.floats(numbers).tolist()
        found = {place: TokenLogprobs(values[chosen.at[place]], ()) for place in chosen.asking}
    if chosen.apart is not None:
        apart = chosen.apart
        read = apart.logprobs.read(numbers)
        found.update((apart.places[i], read[i]) for i in apart.asking)
    return found


def _shares(chosen: Chosen | None, numbers: NDArray[np.int32]) -> dict[int, float]:
    found: dict[int, float] = {}
    if chosen is None:
        return found
    if chosen.shares is not None:
        values = chosen.shares.floats(numbers).tolist()
        found = {place: values[chosen.at[place]] for place in chosen.bound}
    if chosen.apart is not None:
        apart, read = chosen.apart, chosen.apart.shares.floats(numbers).tolist()
        found.update((apart.places[i], read[i]) for i in apart.bound)
    return found
