"""Rows of every kind for the sampler of a device, and its results beside the sampler's on the
host."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from math import isnan
from typing import Any

import numpy as np
import torch

from sgc_ir.params import SamplingParams
from sgc_runtime.device.sampler import DeviceSampler
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.runner import Results
from sgc_runtime.sampling.healing import Healing, TokenPrefixes
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs
from sgc_runtime.sampling.sampler import choose


class MaskRule:
    """A constraint that allows the same ids at every place."""

    end_allowed = False

    def __init__(self, allowed: Sequence[int], vocab: int) -> None:
        bits = np.zeros(-(-vocab // 32) * 32, np.bool_)
        bits[list(allowed)] = True
        self.words = np.packbits(bits, bitorder="little").view(np.int32)
        self.words.setflags(write=False)

    def mask(self) -> np.ndarray:
        return self.words

    def is_canonical(self, token: int) -> bool | None:
        return True


def token_text(token: int) -> bytes:
    """Each id spells some letters."""
    return bytes([97 + token % 3, 97 + token // 3 % 3, 97 + token // 9 % 5])[: 1 + token % 3]


@cache
def _prefixes(vocab: int) -> TokenPrefixes:
    return TokenPrefixes(token_text, vocab)


def random_row(chance: random.Random, vocab: int, draws: bool) -> SamplingRow:
    params: dict[str, Any] = {"temperature": chance.choice([0.0, 0.7, 1.0, 1.6]) if draws else 0.0}
    if draws and chance.random() < 0.5:
        params |= {"top_k": chance.choice([-1, 1, 4, 30]), "top_p": chance.choice([0.3, 0.9, 1.0])}
        params |= {"min_p": chance.choice([0.0, 0.1])}
    if chance.random() < 0.3:
        params |= {"frequency_penalty": 0.7, "presence_penalty": chance.choice([0.0, -0.4])}
    if chance.random() < 0.3:
        params |= {"repetition_penalty": chance.choice([1.4, 0.6])}
    if chance.random() < 0.3:
        ids = chance.sample(range(vocab), 3)
        params |= {"logit_bias": {str(i): chance.choice([5.0, -100.0, 2.0]) for i in ids}}
    if chance.random() < 0.3:
        params |= {"min_tokens": chance.choice([1, 3, 9])}
    if chance.random() < 0.4:
        params |= {"logprobs": True, "top_logprobs": chance.choice([0, 0, 2, 5])}
    rule = None
    if chance.random() < 0.4:
        rule = MaskRule(
            chance.sample(range(vocab), chance.choice([1, 5, min(vocab // 2, 999)])), vocab
        )
    healing = None
    if chance.random() < 0.15:
        healing = Healing(_prefixes(vocab), [chance.randrange(vocab)])
    prompt = [chance.randrange(vocab) for _ in range(6)]
    held = chance.sample(range(vocab), 2)
    seed = chance.randrange(-(2**63), 2**63)
    row = SamplingRow(SamplingParams(**params), seed, prompt, held, healing, rule)
    if healing is None:
        for _ in range(chance.choice([0, 2, 5])):
            row.advance(chance.randrange(vocab))
    if rule is not None:
        row.prepare()
    return row


def request_of(row: SamplingRow) -> Request:
    return Request(np.array([1, 2, 3], np.int32), on_done=lambda *_: None, row=row)


class Steps:
    """A sampler, and the table that its ids go to."""

    def __init__(self, vocab: int, places: int, device: torch.device, kernels: Any = None) -> None:
        self.sampler = DeviceSampler(vocab, places, device, kernels)
        self.last_ids = torch.full((places,), -7, dtype=torch.int64, device=device)

    def start(
        self,
        logits: torch.Tensor,
        requests: Sequence[Request],
        at: Sequence[int] | None = None,
        places: Sequence[int] | None = None,
        recording: Any = (),
        scoring: Any = (),
    ) -> Any:
        at = range(len(requests)) if at is None else at
        places = list(at) if places is None else places
        args = (logits, requests, at, recording, scoring, self.last_ids, places)
        return self.sampler.start(*args)


def close(one: float, other: float, bound: float = 2e-5) -> bool:
    if isnan(other):
        return isnan(one)
    return one == other or abs(one - other) <= bound * max(1.0, abs(other))


def check_logprobs(found: TokenLogprobs, expected: TokenLogprobs) -> None:
    assert close(found.logprob, expected.logprob), (found, expected)
    assert len(found.top) == len(expected.top)
    for (_, x), (_, y) in zip(found.top, expected.top):
        assert close(x, y)
    assert {i for i, _ in found.top} == {i for i, _ in expected.top}


def check_as_on_the_host(
    results: Results, logits: torch.Tensor, rows: Sequence[SamplingRow]
) -> None:
    """Everything but what was drawn is as the host's sampler has it.

    Args:
        logits: `[rows, vocab]`, those of the model.
    """
    host = choose(logits.cpu().clone(), rows)
    for i, row in enumerate(rows):
        if row.params.greedy or host.ids[i] < 0:
            assert results.ids[i] == host.ids[i], i
    expected = host.logprobs(results.ids)
    assert results.logprobs.keys() == expected.keys()
    for i, found in results.logprobs.items():
        check_logprobs(found, expected[i])
    assert results.shares.keys() == host.shares.keys()
    for i, share in results.shares.items():
        assert close(share, host.shares[i]), (share, host.shares[i])
