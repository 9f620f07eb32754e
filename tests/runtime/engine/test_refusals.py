"""Ids of a whole batch that are refused, against the rows one by one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine import HistoryModel

from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.engine.host_runner import HostRunner
from sgc_runtime.engine.refusals import accepted_ids
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import sample

VOCAB, EOS = 60, 3
PARAMS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.0, "top_p": 0.5, "min_p": 0.1},
)


class Rule:
    """Allows some ids, of which some are refused."""

    end_allowed = True

    def __init__(self, allowed: set[int], refused: set[int], fails: bool = False) -> None:
        self.allowed, self.refused, self.fails = allowed, refused, fails

    def mask(self) -> np.ndarray:
        bits = np.zeros(64, np.uint8)
        bits[list(self.allowed)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def is_canonical(self, token: int) -> bool | None:
        if self.fails:
            raise ConstraintError("too much")
        return token not in self.refused


def random_row(rng: random.Random, seed: int) -> SamplingRow:
    params = SamplingParams(**rng.choice(PARAMS))
    if rng.random() < 0.2:
        return SamplingRow(params, seed)
    allowed = set(rng.sample(range(VOCAB), rng.randrange(1, VOCAB)))
    refused = {t for t in allowed if rng.random() < rng.choice([0.1, 0.6, 1.0])}
    made = SamplingRow(params, seed, rule=Rule(allowed, refused), end_ids=(EOS,))
    made.prepare()
    return made


def runner() -> HostRunner:
    return HostRunner(HistoryModel(VOCAB), KVPool(1, 8, 1, 1, torch.float32, torch.device("cpu")))


def chosen(rows: list[SamplingRow], logits: torch.Tensor) -> tuple[list[int], list[Exception]]:
    failed: list[Exception] = []
    requests: list[Any] = [_Asked(row) for row in rows]
    on = runner()
    flight = on.sample_kept(requests, list(logits.clone().split(1)))
    results, places = flight.result(), range(len(rows))
    others = accepted_ids(
        on, flight, results, requests, places, lambda request, error: failed.append(error)
    )
    return [others.get(i, token) for i, token in enumerate(results.ids)], failed


class _Asked:
    def __init__(self, row: SamplingRow) -> None:
        self.row = row


@given(st.integers(0, 1 << 30))
@settings(max_examples=80, deadline=None)
def test_the_same_ids_as_row_by_row(seed: int) -> None:
    rng = random.Random(seed)
    rows = [random_row(rng, rng.randrange(1 << 40)) for _ in range(rng.randrange(1, 9))]
    logits = torch.from_numpy(np.random.default_rng(seed).standard_normal((len(rows), VOCAB)))
    logits = logits.float() * 2
    if rng.random() < 0.2:
        logits[rng.randrange(len(rows))] = float("nan")
    expected = [
        sample(one.clone(), [row]).ids[0] for one, row in zip(logits.split(1), rows, strict=True)
    ]
    assert chosen(rows, logits)[0] == expected


def test_a_rule_that_fails_fails_its_request_alone() -> None:
    rows = [SamplingRow(SamplingParams(temperature=0.0), 0, rule=Rule({5, 6}, {5}, fails=True))]
    rows += [SamplingRow(SamplingParams(temperature=0.0), 0, rule=Rule({5, 6}, {5}))]
    for row in rows:
        row.prepare()
    logits = torch.zeros(2, VOCAB)
    logits[:, 5] = 1.0
    ids, failed = chosen(rows, logits)
    assert ids == [5, 6]
    assert len(failed) == 1
    with pytest.raises(ConstraintError, match="too much"):
        raise failed[0]
