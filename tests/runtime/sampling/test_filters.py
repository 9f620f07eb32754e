"""The filters on a CPU, which sort little, keep what a whole sorted vocabulary keeps."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.params import SamplingParams
from sgc_runtime.sampling.filters import filter_probs, rank_thresholds, rank_thresholds_on_cpu

CUTS = ((0, 0.9), (0, 1e-6), (5, 1.0), (2000, 1.0), (40, 0.5))


@pytest.mark.parametrize("vocab", [7, 1500, 49_152])
@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 6.0])
@pytest.mark.parametrize(("top_k", "top_p"), CUTS)
def test_both_ways_keep_the_same(vocab: int, spread: float, top_k: int, top_p: float) -> None:
    made = torch.Generator().manual_seed(vocab)
    probs = (spread * torch.randn(3, vocab, generator=made)).softmax(-1)
    params = [SamplingParams(top_k=top_k, top_p=top_p)] * 3
    assert torch.equal(rank_thresholds_on_cpu(probs, params), rank_thresholds(probs, params))


def test_top_k_alone_keeps_k_however_unlikely() -> None:
    probs = (20 * torch.randn(2, 5000, generator=torch.Generator().manual_seed(0))).softmax(-1)
    expected = probs.sort(descending=True).values[:, 1999]
    kept = probs.clone()
    filter_probs(kept, [SamplingParams(top_k=2000)] * 2)
    assert torch.equal(kept, torch.where(probs >= expected[:, None], probs, 0.0))


def test_what_is_not_a_number_stays() -> None:
    probs = torch.tensor([[0.5, 0.3, 0.2], [torch.nan] * 3])
    filter_probs(probs, [SamplingParams(top_p=0.4, min_p=0.1)] * 2)
    assert probs[0].tolist() == [0.5, 0.0, 0.0]
    assert probs[1].isnan().all()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    spread=st.floats(0.0, 5.0),
    top_p=st.floats(0.01, 0.9999),
    shape=st.sampled_from(["mixed", "sorted", "few values", "one likely"]),
)
def test_what_a_sample_tells_changes_nothing(
    seed: int, spread: float, top_p: float, shape: str
) -> None:
    logits = spread * torch.randn(2, 20_000, generator=torch.Generator().manual_seed(seed))
    if shape == "sorted":  # the sample is a regular one
        logits = logits.sort(-1).values
    elif shape == "few values":
        logits = logits.round()
    elif shape == "one likely":
        logits[:, 32] += 9.0
    probs = logits.softmax(-1)
    params = [SamplingParams(top_p=top_p)] * 2
    assert torch.equal(rank_thresholds_on_cpu(probs, params), rank_thresholds(probs, params))
