"""The sampler of a device beside the host's: by Triton's interpreter, and by its form in torch."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from support.sampled_rows import (
    MaskRule,
    Steps,
    check_as_on_the_host,
    check_logprobs,
    random_row,
    request_of,
)

from sgc_ir.params import SamplingParams
from sgc_kernels.gpu.sampling import in_torch
from sgc_runtime.device.sample_masks import MaskArena
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.token_trie import TokenTrie
from sgc_runtime.sampling.logprobs import token_logprobs
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import NO_TOKEN, sample

VOCAB = 200
CPU = torch.device("cpu")

_HAS_TRITON = importlib.util.find_spec("triton") is not None
if _HAS_TRITON and not torch.cuda.is_available() and "triton" not in sys.modules:
    # Read when triton is loaded: its own functions are made then.
    os.environ.setdefault("TRITON_INTERPRET", "1")


def interpreted() -> ModuleType:
    """The kernels in Triton's interpreter, which is slow: a draw takes 0.2 s a row."""
    pytest.importorskip("triton")
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton compiles for a GPU here, or was loaded before its interpreter was set")
    from sgc_kernels.gpu.sampling import in_triton

    return in_triton


@pytest.fixture(params=["torch", "triton"])
def kernels(request: pytest.FixtureRequest) -> ModuleType:
    return in_torch if request.param == "torch" else interpreted()


def logits_of(rows: int, seed: int = 0, vocab: int = VOCAB) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("seed", range(6))
def test_rows_of_every_kind_step_by_step(seed: int) -> None:
    go_through_steps(in_torch, random.Random(seed), seed % 2 == 0, rows=8, turns=4)


@pytest.mark.parametrize("draws", [False, True])
def test_rows_of_every_kind_by_the_interpreter(draws: bool) -> None:
    go_through_steps(interpreted(), random.Random(draws), draws, rows=4, turns=2)


def go_through_steps(
    kernels: ModuleType, chance: random.Random, draws: bool, rows: int, turns: int
) -> None:
    steps = Steps(VOCAB, rows + 4, CPU, kernels)
    requests = [request_of(random_row(chance, VOCAB, draws)) for _ in range(rows)]
    places = chance.sample(range(rows + 4), rows)
    for turn in range(turns):
        if turn == 1:  # another row in the place of one
            requests[3] = request_of(random_row(chance, VOCAB, draws))
        at = sorted(chance.sample(range(rows), rows - 2)) if turn == 3 else list(range(rows))
        logits = logits_of(rows + 1, chance.randrange(1000))
        before = logits.clone()
        asked = [requests[i] for i in at]
        results = steps.start(logits, asked, at, [places[i] for i in at]).result()
        assert (logits == before).all()
        sampled = [r.row for r in asked if r.row is not None]
        check_as_on_the_host(results, before[at], sampled)
        for i, row, token in zip(at, sampled, results.ids):
            assert steps.last_ids[places[i]] == max(token, 0)
            if token != NO_TOKEN and not row.heals:
                row.advance(token)


def test_logits_that_are_no_numbers(kernels: ModuleType) -> None:
    logits = logits_of(4)
    logits[1, 7] = torch.nan
    logits[2] = -torch.inf
    rows = [SamplingRow(SamplingParams(temperature=t, logprobs=True), 3) for t in (1.0, 0.0) * 2]
    found = Steps(VOCAB, 4, CPU, kernels).start(logits, [request_of(r) for r in rows]).result()
    assert found.ids[1:3] == [NO_TOKEN, NO_TOKEN]
    assert min(found.ids[0], found.ids[3]) >= 0


CASES: list[dict[str, Any]] = [
    {"temperature": 0.8},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"top_k": 12, "top_p": 0.8, "min_p": 0.05, "temperature": 1.3},
    {"frequency_penalty": 1.5, "repetition_penalty": 1.3, "top_p": 0.9},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_are_distributed_as_the_hosts(case: dict[str, Any]) -> None:
    num, turns = 40, 10
    logits = logits_of(1, vocab=24)
    rows = [_row_of(case, seed) for seed in range(num)]
    steps, seen = Steps(24, num, CPU, in_torch), np.zeros(24)
    requests = [request_of(row) for row in rows]
    for _ in range(turns):
        seen += np.bincount(steps.start(logits.repeat(num, 1), requests).result().ids, minlength=24)
        for row in rows:
            row.step += 1  # the noise of another step; nothing is counted
    others = [_row_of(case, 1000 + i) for i in range(10_000)]
    share = np.bincount(sample(logits.repeat(10_000, 1), others).ids, minlength=24) / 10_000
    assert seen[share == 0].sum() <= 1  # too rare to be among the host's
    likely = share * num * turns > 5
    chi = ((seen - share * num * turns)[likely] ** 2 / (share * num * turns)[likely]).sum()
    assert chi < likely.sum() + 5 * np.sqrt(2 * likely.sum()) + 5


def _row_of(case: dict[str, Any], seed: int) -> SamplingRow:
    made = SamplingRow(SamplingParams(**case), seed, [1, 2])
    made.advance(2)
    return made


def test_a_step_that_did_not_follow_the_last_has_its_own_noise(kernels: ModuleType) -> None:
    rows = [SamplingRow(SamplingParams(), seed) for seed in range(4)]
    requests, logits = [request_of(row) for row in rows], logits_of(4) / 9
    steps = Steps(VOCAB, 4, CPU, kernels)
    by_step: dict[int, list[int]] = {}
    for step in (0, 1, 7, 1, 2):
        for row in rows:
            row.step = step
        ids = steps.start(logits, requests).result().ids
        assert by_step.setdefault(step, ids) == ids
    assert len({tuple(ids) for ids in by_step.values()}) == len(by_step)
    alone = Steps(VOCAB, 4, CPU, kernels).start(logits[2:3], requests[2:3]).result().ids
    assert alone == by_step[2][2:3]


REFUSED: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"top_k": 2},
    {"temperature": 0.0, "logit_bias": {"50": 90.0}},
    {},
    {"top_p": 0.5, "frequency_penalty": 0.5},
]


def test_refused_ids_are_replaced_by_others(kernels: ModuleType) -> None:
    cases = REFUSED if kernels is in_torch else REFUSED[:2]  # the interpreter is slow
    count, allowed = len(cases), [4, 50, 51, 120, 199] if kernels is in_torch else [4, 50, 120]
    logits = logits_of(count + 1)
    rule = MaskRule(allowed, VOCAB)
    rows = [SamplingRow(SamplingParams(**case), i, rule=rule) for i, case in enumerate(cases)]
    for row in rows:
        row.prepare()
    rows.append(SamplingRow(SamplingParams(temperature=0.0), 0))
    steps = Steps(VOCAB, count + 1, CPU, kernels)
    flight = steps.start(logits, [request_of(r) for r in rows])
    tried = [[token] for token in flight.result().ids]
    for _ in allowed[1:]:
        for place, token in enumerate(steps.sampler.again(flight, range(count), tried[:count])):
            tried[place].append(token)
    for found in tried[:count]:
        assert sorted(found) == sorted(allowed)
    # What is left behind the two of a top-k comes by likelihood.
    for row, found in ((0, tried[0]), (1, tried[1][2:])):
        assert found == sorted(found, key=lambda t: -float(logits[row, t]))
    if count > 2:
        assert tried[2][0] == 50
    flight.others.clear()  # found anew, out of order
    places = [1, 0, count]
    others = steps.sampler.again(flight, places, [tried[i] for i in places])
    assert others == [NO_TOKEN, NO_TOKEN, int(logits[count].topk(2).indices[1])]


def test_equally_likely_ids_are_tried_in_order(kernels: ModuleType) -> None:
    logits, allowed = logits_of(1), [3, 17, 60, 61, 140]
    logits[0, [60, 17, 140]] = 20.0
    row = SamplingRow(SamplingParams(temperature=0.0), 0, rule=MaskRule(allowed, VOCAB))
    row.prepare()
    steps = Steps(VOCAB, 1, CPU, kernels)
    flight = steps.start(logits, [request_of(row)])
    tried = list(flight.result().ids)
    for _ in range(2):
        tried += steps.sampler.again(flight, [0], [tried])
    assert tried == [17, 60, 140]


def test_recorded_and_scored_ids(kernels: ModuleType) -> None:
    logits = logits_of(60)
    recorded = request_of(SamplingRow(SamplingParams(top_logprobs=3), 0))
    recorded.tokens = np.arange(10, 60, dtype=np.int32)
    other = request_of(SamplingRow(SamplingParams(logprobs=True), 0))
    other.tokens = np.arange(30, 60, dtype=np.int32)
    behind = [np.array(ids, np.int32) for ids in ([8, 9, 10], [8, 11], [12])]
    trie = TokenTrie(np.array([5, 6, 7], np.int32), behind)
    scored = request_of(SamplingRow(SamplingParams(), 0))
    scored.scoring = Scoring(trie, lambda values: 0)
    first, last = trie.first_row, len(trie.tokens)
    recording = [((recorded, 2, 30), 4), ((other, 5, 6), 1)]
    scoring = [((scored, first, last), 40)]
    sampled = [request_of(SamplingRow(SamplingParams(temperature=0.0), 1))]
    steps = Steps(VOCAB, 4, CPU, kernels)
    found = steps.start(logits, sampled, [0], [2], recording, scoring).result()
    assert found.ids == [int(logits[0].argmax())]
    ids = list(range(13, 41))
    expected = token_logprobs(logits[4:32], ids, [3] * 28)
    for one, two in zip(found.recorded[0], expected, strict=True):
        check_logprobs(one, two)
    check_logprobs(found.recorded[1][0], token_logprobs(logits[1:2], [36], [0])[0])
    rows, targets = trie.edges(first, last)
    values = logits.log_softmax(-1)[torch.from_numpy(rows) + 40, torch.from_numpy(targets)]
    assert found.scores[0] == pytest.approx(values.tolist(), abs=1e-5)
    nothing = steps.start(logits, [], [], [], recording[1:], []).result()
    assert nothing.ids == []
    assert steps.start(logits, []).result().ids == []
    assert nothing.recorded[0][0].logprob == pytest.approx(found.recorded[1][0].logprob)


def test_masks_stay_on_the_device_until_others_need_their_place() -> None:
    arena = MaskArena(4, 96, Uploads(CPU), CPU)
    made = [MaskRule([i, 95 - i], 96).words for i in range(9)]
    chance = random.Random(1)
    for _ in range(40):
        picked = [made[chance.randrange(9)] for _ in range(3)]
        picked[1] = picked[1].copy() if chance.random() < 0.3 else picked[1]
        found = arena.masks(picked, [0, 2, 3], 5)
        assert found.rows[[1, 4]].tolist() == [-1, -1]
        for mask, row in zip(picked, found.rows[[0, 2, 3]].tolist()):
            assert found.words[row].tolist() == mask.tolist()
        if picked[1].flags.writeable:
            picked[1][:] = 0  # not seen again


@pytest.mark.parametrize("name", ["stage", "send"])
def test_masks_are_sent_after_a_step_that_failed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    uploads = Uploads(CPU)
    arena = MaskArena(3, 96, uploads, CPU)
    old, new, changing = (MaskRule([i, 95 - i], 96).words for i in range(3))
    changing = changing.copy()
    arena.masks([old], [0], 1)
    monkeypatch.setattr(uploads, name, fails)
    with pytest.raises(MemoryError):
        arena.masks([new, changing], [0, 1], 2)
    monkeypatch.undo()
    found = arena.masks([changing, new, old], [0, 1, 2], 3)
    expected = [mask.tolist() for mask in (changing, new, old)]
    assert found.words[found.rows.long()].tolist() == expected


def fails(*args: object) -> None:
    raise MemoryError
