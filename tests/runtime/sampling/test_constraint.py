"""Sampling under masks: the draw of the legal ids, as if no others had been there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.params import SamplingParams
from sgc_runtime.sampling.constraint import MAX_REJECTED, allowed_shares, stacked_masks
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import NO_TOKEN, sample

VOCAB = 70
EOS = 3


@dataclass
class Rule:
    """Allows a fixed set, of which some are not canonical."""

    allowed: frozenset[int]
    odd: frozenset[int] = frozenset()
    end_allowed: bool = False
    asked: list[int] = field(default_factory=list)

    def mask(self) -> np.ndarray:
        bits = np.zeros(96, np.uint8)
        bits[list(self.allowed)] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def is_canonical(self, token: int) -> bool | None:
        self.asked.append(token)
        return token not in self.odd


def row(rule: Rule, seed: int = 0, **params: object) -> SamplingRow:
    made = SamplingRow(SamplingParams(**params), seed, rule=rule, end_ids=(EOS,))  # type: ignore[arg-type]
    made.prepare()
    return made


def logits(seed: int = 0, rows: int = 1) -> torch.Tensor:
    found = np.random.default_rng(seed).standard_normal((rows, VOCAB)) * 2
    return torch.from_numpy(found.astype(np.float32))


SETS = st.frozensets(st.integers(0, VOCAB - 1), min_size=1, max_size=20)


@settings(max_examples=60, deadline=None)
@given(SETS, SETS, st.booleans(), st.integers(0, 99))
def test_greedy_takes_the_best_canonical_id(
    allowed: frozenset[int], odd: frozenset[int], ends: bool, seed: int
) -> None:
    scores = logits(seed)[0]
    legal = (allowed - {EOS}) | ({EOS} if ends else set())
    found = sample(scores[None].clone(), [row(Rule(allowed - {EOS}, odd, ends), temperature=0)])
    if not legal:
        assert found.ids == [NO_TOKEN]
        return
    canonical = [t for t in legal if t not in odd or t == EOS]
    assert found.ids == [max(canonical or legal, key=lambda t: float(scores[t]))]


@pytest.mark.parametrize("filters", [{}, {"top_p": 0.9}, {"top_k": 6}])
def test_draws_follow_the_probabilities_of_canonical_ids(filters: dict[str, float]) -> None:
    allowed, odd = frozenset(range(5, 25)), frozenset(range(5, 25, 3))
    scores, count = logits(4)[0], 6000
    kept = scores.double().softmax(-1)
    kept[[t for t in range(VOCAB) if t not in allowed]] = 0
    order = kept.argsort(descending=True)
    if "top_k" in filters:
        kept[order[6:]] = 0
    if "top_p" in filters:
        before = kept[order].cumsum(0) - kept[order]
        kept[order[before >= 0.9 * kept.sum()]] = 0
    kept[list(odd)] = 0
    expected = kept / kept.sum()
    rows = [row(Rule(allowed, odd), seed, **filters) for seed in range(count)]
    found = Counter(sample(scores.repeat(count, 1), rows).ids)
    shares = torch.tensor([found[t] / count for t in range(VOCAB)])
    assert float((shares - expected).abs().sum()) / 2 < 0.03
    assert not set(found) & odd


def test_filters_give_way_where_they_leave_nothing_canonical() -> None:
    scores = logits(1)[0]
    first, second = sorted(range(10), key=lambda t: -float(scores[t]))[:2]
    rule = Rule(frozenset(range(10)), frozenset({first}))
    assert sample(scores[None].clone(), [row(rule, top_k=1)]).ids == [second]


def test_the_best_is_taken_where_none_is_canonical() -> None:
    everything = frozenset(range(10, 70))
    for params in ({"temperature": 0}, {"temperature": 1.0}):
        rule = Rule(everything, everything)
        (token,) = sample(logits(2), [row(rule, **params)]).ids
        assert token == rule.asked[0]
        assert len(rule.asked) == MAX_REJECTED


def test_a_choice_depends_on_its_own_row_alone() -> None:
    sets = [frozenset(range(i, i + 12)) for i in range(0, 40, 5)]
    kinds = [{"temperature": 0}, {"temperature": 1.0}, {"temperature": 0.7, "top_p": 0.8}]

    def made(i: int) -> SamplingRow:
        if i % 4 == 3:
            return SamplingRow(SamplingParams(**kinds[i % 3]), i)
        return row(Rule(sets[i], frozenset(range(0, 70, 3))), i, **kinds[i % 3])

    scores = logits(3, len(sets))
    together = sample(scores.clone(), [made(i) for i in range(len(sets))]).ids
    single = [sample(scores[i : i + 1].clone(), [made(i)]).ids[0] for i in range(len(sets))]
    assert together == single


@given(SETS, st.integers(0, 99), st.sampled_from([1.0, 60.0]))
@settings(max_examples=50, deadline=None)
def test_shares_are_those_of_the_model(allowed: frozenset[int], seed: int, spread: float) -> None:
    scores = logits(seed, 2) * spread
    (found,) = allowed_shares(scores, stacked_masks([row(Rule(allowed))]), [1])
    logp = scores[1].double().log_softmax(-1)
    assert found == pytest.approx(float(logp[list(allowed)].logsumexp(-1)), rel=1e-4, abs=1e-5)


def test_a_share_is_counted_once_a_sampling() -> None:
    made = row(Rule(frozenset(range(VOCAB))), temperature=0)
    sample(logits(5), [made])
    sample(logits(6), [made])
    assert made.num_masked == 2
    assert made.allowed_mass == pytest.approx(0.0, abs=1e-5)


def test_what_is_taken_back_was_never_counted() -> None:
    params = SamplingParams(frequency_penalty=0.5, repetition_penalty=1.3)
    twice, once = (SamplingRow(params, 0, [1, 2]) for _ in range(2))
    for token in (4, 5, 4, 2, 9):
        twice.advance(token)
    twice.take_back([4, 2, 9])
    for token in (4, 5):
        once.advance(token)
    scores = logits(7)
    assert sample(scores.clone(), [twice]).ids == sample(scores.clone(), [once]).ids
    for counts in ("counts", "seen"):
        pairs = [
            dict(zip(c.ids.tolist(), c.counts.tolist(), strict=True))
            for c in (getattr(twice, counts), getattr(once, counts))
        ]
        assert pairs[0] == pairs[1]
