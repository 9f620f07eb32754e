"""The sampler on a GPU: beside the host's at the sizes of real vocabularies, without waiting."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from support.sampled_rows import MaskRule, Steps, check_as_on_the_host, random_row, request_of

from sgc_ir.params import SamplingParams
from sgc_runtime.sampling.row import SamplingRow

pytestmark = pytest.mark.gpu


@contextmanager
def no_waiting() -> Iterator[None]:
    """What would wait for the device is an error."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.fixture
def device() -> torch.device:
    return torch.device("cuda")


@pytest.mark.parametrize(("rows", "vocab"), [(64, 49_152), (17, 50_257)])
@pytest.mark.parametrize("draws", [False, True])
def test_rows_of_every_kind(device: torch.device, rows: int, vocab: int, draws: bool) -> None:
    chance = random.Random(rows + draws)
    steps = Steps(vocab, rows + 4, device)
    requests = [request_of(random_row(chance, vocab, draws)) for _ in range(rows)]
    places = chance.sample(range(rows + 4), rows)
    for turn in range(3):
        at = list(range(rows)) if turn < 2 else sorted(chance.sample(range(rows), rows // 2))
        logits = torch.randn(rows + 2, vocab, device=device) * 3
        before, asked = logits.clone(), [requests[i] for i in at]
        with no_waiting():
            flight = steps.start(logits, asked, at, [places[i] for i in at])
        results = flight.result()
        assert (logits == before).all()
        sampled = [r.row for r in asked if r.row is not None]
        check_as_on_the_host(results, before[at], sampled)
        kept = steps.last_ids[[places[i] for i in at]].tolist()
        assert kept == [max(token, 0) for token in results.ids]
        for row, token in zip(sampled, results.ids):
            if token >= 0 and not row.heals:
                row.advance(token)


@pytest.mark.parametrize("case", [{}, {"top_p": 0.9}, {"min_p": 0.05}, {"top_k": 20}], ids=str)
def test_a_row_does_not_depend_on_the_others(device: torch.device, case: dict[str, Any]) -> None:
    vocab, rows = 49_152, 48
    kinds = [case, {"temperature": 0.0}, {"top_k": 5, "top_p": 0.8}, {"logprobs": True}]
    sampled = [SamplingRow(SamplingParams(**kinds[i % 4]), i) for i in range(rows)]
    sampled[5] = SamplingRow(SamplingParams(), 5, rule=MaskRule(range(100), vocab))
    sampled[5].prepare()
    logits = torch.randn(rows, vocab, device=device) * 2
    steps = Steps(vocab, rows, device)
    together = steps.start(logits, [request_of(r) for r in sampled]).result()
    for i in (0, 1, 2, 3, 4, 5):
        alone = steps.start(logits[i : i + 1].clone(), [request_of(sampled[i])]).result()
        assert alone.ids == [together.ids[i]]
        assert alone.logprobs.get(0) == together.logprobs.get(i)
        assert alone.shares.get(0) == together.shares.get(i)


def test_other_choices_while_the_device_works(device: torch.device) -> None:
    vocab, rows = 49_152, 32
    rule = MaskRule(range(0, vocab, 7), vocab)
    sampled = [SamplingRow(SamplingParams(temperature=0.0), i, rule=rule) for i in range(rows)]
    for row in sampled:
        row.prepare()
    steps, logits = Steps(vocab, rows, device), torch.randn(rows, vocab, device=device)
    allowed = logits[:, ::7].topk(3).indices.cpu() * 7
    flight = steps.start(logits, [request_of(r) for r in sampled])
    ids = flight.result().ids
    assert ids == allowed[:, 0].tolist()
    excluded = [[token] for token in ids]
    steps.sampler.again(flight, range(rows), excluded)  # loads the kernels, which may wait
    busy, work = torch.cuda.Event(), torch.randn(8192, 8192, device=device)
    for _ in range(400):
        work = torch.mm(work, work) * 1e-3
    busy.record()
    others = steps.sampler.again(flight, range(rows), excluded)
    assert not busy.query(), "it waited for what was begun after the flight"
    assert others == allowed[:, 1].tolist()
    torch.cuda.synchronize()
