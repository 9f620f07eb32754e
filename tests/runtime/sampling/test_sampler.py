"""Sampling against a plain float64 reference, one row at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.params import SamplingParams
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import NO_TOKEN, sample
from sgc_runtime.sampling.uniform import uniform

VOCAB = 40
LOGITS = torch.randn(VOCAB, generator=torch.Generator().manual_seed(5)) * 2


def adjusted(
    logits: np.ndarray, p: SamplingParams, prompt: list[int], out: list[int]
) -> np.ndarray:
    x = logits.astype(np.float64).copy()
    for t in {*prompt, *out}:
        x[t] = x[t] / p.repetition_penalty if x[t] > 0 else x[t] * p.repetition_penalty
    for t in set(out):
        x[t] -= p.frequency_penalty * out.count(t) + p.presence_penalty
    for key, bias in (p.logit_bias or {}).items():
        x[int(key)] += bias
    return x


def distribution(logits: np.ndarray, p: SamplingParams) -> np.ndarray:
    """Temperature, then top-k, top-p on what is left, min-p against the best."""
    scores = logits / p.temperature
    probs = np.exp(scores - scores.max())
    probs /= probs.sum()
    order = np.argsort(-probs, kind="stable")
    kept = order[: p.top_k] if p.top_k > 0 else order
    mass, nucleus = 0.0, []
    for t in kept:
        if mass >= p.top_p * probs[kept].sum() and nucleus:
            break
        nucleus.append(t)
        mass += probs[t]
    final = np.zeros_like(probs)
    for t in nucleus:
        if probs[t] >= p.min_p * probs.max():
            final[t] = probs[t]
    return final / final.sum()


def draw(params: SamplingParams, num: int, prompt: list[int], out: list[int]) -> np.ndarray:
    ids: list[int] = []
    for start in range(0, num, 2000):
        rows = [SamplingRow(params, seed, prompt) for seed in range(start, start + 2000)]
        for row in rows:
            for token in out:
                row.advance(token)
        ids += sample(LOGITS.repeat(len(rows), 1), rows).ids
    return np.bincount(ids, minlength=VOCAB)


CASES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.5},
    {"top_k": 5},
    {"top_p": 0.7},
    {"min_p": 0.1},
    {"top_k": 10, "top_p": 0.8, "min_p": 0.05, "temperature": 1.3},
    {"top_p": 1e-9},
    {"frequency_penalty": 0.7, "presence_penalty": 0.4},
    {"repetition_penalty": 1.5, "logit_bias": {"3": 4.0, "7": -100.0}},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_distribution_equals_reference(case: dict[str, Any]) -> None:
    params = SamplingParams(**case)
    prompt, out = [1, 2, 2], [2, 5, 5, 9]
    num = 20_000
    counts = draw(params, num, prompt, out)
    expected = distribution(adjusted(LOGITS.numpy(), params, prompt, out), params) * num
    assert counts[expected == 0].sum() == 0
    likely = expected > 5
    rest_seen, rest_expected = counts[~likely].sum(), expected[~likely].sum()
    chi2 = ((counts - expected)[likely] ** 2 / expected[likely]).sum()
    chi2 += (rest_seen - rest_expected) ** 2 / max(rest_expected, 5)
    freedom = int(likely.sum())
    # Wilson-Hilferty: 5 standard deviations of a chi-square variable.
    bound = freedom * (1 - 2 / (9 * freedom) + 5 * math.sqrt(2 / (9 * freedom))) ** 3
    assert chi2 < bound


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "temperature": st.sampled_from([0.0, 0.3, 1.0, 1.7]),
                "top_k": st.sampled_from([-1, 1, 4]),
                "top_p": st.sampled_from([1.0, 0.6]),
                "min_p": st.sampled_from([0.0, 0.2]),
                "frequency_penalty": st.sampled_from([0.0, 0.5]),
                "repetition_penalty": st.sampled_from([1.0, 1.3]),
            }
        ),
        min_size=2,
        max_size=6,
    ),
    st.integers(0, 2**63 - 1),
)
@settings(max_examples=60, deadline=None)
def test_a_row_does_not_see_the_others(cases: list[dict[str, Any]], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed % 1000)
    logits = torch.randn(len(cases), VOCAB, generator=generator)

    def row(i: int) -> SamplingRow:
        made = SamplingRow(SamplingParams(**cases[i]), seed - i, [3])
        made.advance(7)
        return made

    together = sample(logits.clone(), [row(i) for i in range(len(cases))]).ids
    alone = [sample(logits[i : i + 1].clone(), [row(i)]).ids[0] for i in range(len(cases))]
    assert together == alone


def test_seed_and_step_decide() -> None:
    seeds = [1, 2**62 + 5, 1, 3]
    first = uniform(seeds, [0, 0, 1, 0], 3)
    assert first.shape == (4, 3)
    assert len(set(first.ravel().tolist())) == 12
    assert uniform([1], [0], 2).tolist() == first[:1, :2].tolist()
    for many in (
        uniform(range(100_000), [0] * 100_000, 1)[:, 0],
        uniform([42] * 100_000, range(100_000), 1)[:, 0],
        uniform([7], [3], 100_000)[0],
    ):
        assert abs(many.mean() - 0.5) < 0.005
        assert 0.0 <= many.min() < 1e-3
        assert 0.999 < many.max() < 1.0
        assert abs(np.corrcoef(many[:-1], many[1:])[0, 1]) < 0.015


def test_greedy_takes_the_first_of_equals_and_ignores_seed() -> None:
    logits = torch.zeros(2, VOCAB)
    logits[:, [4, 9]] = 3.0
    params = SamplingParams(temperature=1e-7)
    assert sample(logits, [SamplingRow(params, 1), SamplingRow(params, 2)]).ids == [4, 4]


def test_tiny_temperature_does_not_overflow() -> None:
    row = SamplingRow(SamplingParams(temperature=2e-6), 1)
    assert sample(LOGITS[None] * 1e4, [row]).ids == [int(LOGITS.argmax())]


@pytest.mark.parametrize("temperature", [0.0, 1.0, 1e39, 1e300])
@pytest.mark.parametrize("penalty", [1.0, 1e-300, 1e-40, 1e-5, 1e40, 1e300])
def test_extreme_numbers_rule_no_id_in_or_out(temperature: float, penalty: float) -> None:
    logits = torch.cat([LOGITS, torch.zeros(1)])
    bias = {"7": 100.0}
    params = SamplingParams(
        temperature=temperature, repetition_penalty=penalty, min_tokens=1, logit_bias=bias
    )
    held_back = [t for t in range(VOCAB + 1) if t not in (7, 9, VOCAB)]
    prompt = [7, 9, VOCAB]
    drawn = [
        sample(logits[None].clone(), [SamplingRow(params, seed, prompt, held_back)]).ids[0]
        for seed in range(40)
    ]
    assert set(drawn) <= {7, 9, VOCAB}
    if temperature > 1e38:
        assert len(set(drawn)) > 1


def test_held_back_ids_come_only_after_min_tokens() -> None:
    logits = torch.zeros(1, VOCAB)
    logits[0, 3] = 50.0
    row = SamplingRow(SamplingParams(temperature=0, min_tokens=2), 0, held_back=[3])
    seen = []
    for _ in range(3):
        token = sample(logits.clone(), [row]).ids[0]
        row.advance(token)
        seen.append(token)
    assert seen[2] == 3
    assert 3 not in seen[:2]


def test_logprobs_are_the_models_own() -> None:
    params = SamplingParams(temperature=0.5, top_k=2, logprobs=True, top_logprobs=3, seed=1)
    biased = SamplingParams(temperature=0, logit_bias={"0": 100.0}, top_logprobs=1)
    plain = SamplingParams()
    rows = [SamplingRow(p, 3) for p in (params, plain, biased)]
    found = sample(LOGITS.repeat(3, 1), rows)
    expected = LOGITS.double().log_softmax(0)
    assert set(found.logprobs) == {0, 2}
    assert found.ids[2] == 0
    for i, n in ((0, 3), (2, 1)):
        entry = found.logprobs[i]
        assert entry.logprob == pytest.approx(float(expected[found.ids[i]]), abs=1e-5)
        best = expected.topk(n)
        assert [t for t, _ in entry.top] == best.indices.tolist()
        assert [x for _, x in entry.top] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_told(temperature: float) -> None:
    logits = LOGITS.repeat(3, 1)
    logits[1, 5] = torch.nan
    logits[2] = -torch.inf
    rows = [SamplingRow(SamplingParams(temperature=temperature), i) for i in range(3)]
    ids = sample(logits, rows).ids
    assert ids[0] != NO_TOKEN
    assert ids[1:] == [NO_TOKEN, NO_TOKEN]


def test_wide_nucleus_sorts_everything() -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, 5000) * 0.1  # flat: no thousand ids hold 90 % of the mass
    rows = [SamplingRow(SamplingParams(top_p=0.9), seed) for seed in range(500)]
    ids = sample(logits.repeat(500, 1), rows).ids
    allowed = distribution(logits[0].numpy().astype(np.float64), SamplingParams(top_p=0.9)) > 0
    assert 4000 < allowed.sum() < 5000
    assert all(allowed[ids])
