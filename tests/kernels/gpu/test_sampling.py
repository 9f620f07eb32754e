"""Sampling kernels against 64-bit references: sets, thresholds, distributions, determinism."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytest.importorskip("triton")

from sgc_ir.params import SamplingParams
from sgc_kernels.gpu.sampling import reference
from sgc_kernels.gpu.sampling.draw import draw
from sgc_kernels.gpu.sampling.greedy import greedy
from sgc_kernels.gpu.sampling.logprobs import logprobs_of
from sgc_kernels.gpu.sampling.params import RowParams, TokenList, TokenMasks, Workspace
from sgc_kernels.gpu.sampling.penalties import Adjustments, adjust, restore
from sgc_runtime.sampling.filters import filter_probs
from sgc_runtime.sampling.uniform import uniform

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
VOCAB = 8_500  # 67 chunks: not all of them are held at once
INF = math.inf


def random_masks(rows: int, vocab: int, rng: torch.Generator) -> TokenMasks:
    """Mask 0 allows half of all, 1 a few, 2 nothing; some rows have none. One word is missing."""
    words = torch.randint(-(2**31), 2**31, (3, vocab // 32 - 1), generator=rng)
    words[1] &= 1 << torch.randint(0, 500, words[1].shape, generator=rng).clamp(max=40)
    words[2] = 0
    index = torch.randint(-1, 2, (rows,), generator=rng)
    return TokenMasks(words.to(torch.int32).to(DEVICE), index.to(torch.int32).to(DEVICE))


def strange_logits(vocab: int, rng: torch.Generator) -> torch.Tensor:
    x = torch.randn(12, vocab, generator=rng) * 3
    x[1] = x[1].round()  # ties
    x[2] = 1.5
    x[3, 70] = math.nan
    x[4] = -INF
    x[5, : vocab // 2] = -INF
    x[6] *= 1e37
    x[7, 5] = INF
    x[8] = x[8].bfloat16().float()
    x[9] = 0.0
    x[9, 3::2] = -0.0
    x[10] = -3e38
    x[11, 11] = 3e38
    return x.to(DEVICE)


def numbers(rows: int, temperature: float, top_k: int, top_p: float, min_p: float) -> RowParams:
    params = RowParams.empty(rows, DEVICE)
    params.temperature.fill_(temperature)
    params.top_k.fill_(top_k)
    params.top_p.fill_(top_p)
    params.min_p.fill_(min_p)
    params.seed.copy_(torch.arange(rows) * 7919 - 3)
    params.step.copy_(torch.arange(rows) % 5)
    return params


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab", [96, 5_000])
def test_greedy_takes_the_first_of_the_largest(vocab: int, dtype: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(1)
    logits = strange_logits(vocab, rng).to(dtype)
    logits[0, torch.randint(0, vocab, (9,), generator=rng)] = 40.0
    work = Workspace(len(logits), vocab, DEVICE)
    masks = random_masks(len(logits), vocab, rng)
    masks.rows[0], masks.rows[1] = -1, 2
    for given in (None, masks):
        found = greedy(logits, work, given).tokens
        assert found.tolist() == reference.greedy(logits, given).tolist()
    assert not work.done.any()


def test_logprobs_are_those_of_the_unmasked_model() -> None:
    rng = torch.Generator().manual_seed(2)
    logits = (torch.randn(6, VOCAB, generator=rng) * 4).to(DEVICE)
    logits[5, 1:] -= 120.0  # the mask rules out what holds nearly everything
    work, masks = Workspace(6, VOCAB, DEVICE), random_masks(6, VOCAB, rng)
    masks.rows.copy_(torch.tensor([-1, 0, 1, 0, -1, 0]))
    masks.words[0, 0] &= -2
    params = numbers(6, 1.0, -1, 1.0, 0.0)
    params.temperature.copy_(torch.tensor([1.0, 1.0, 0.5, 2.0, 0.0, 0.7]))
    for out in (
        greedy(logits, work, masks, logprobs=True),
        draw(logits, params, work, masks, filters=False, logprobs=True),
    ):
        own, shares = reference.log_probabilities(logits, out.tokens, masks)
        assert out.logprobs is not None
        assert out.shares is not None
        torch.testing.assert_close(out.logprobs.cpu(), own, atol=2e-6, rtol=1e-5)
        torch.testing.assert_close(out.shares.cpu(), shares, atol=2e-6, rtol=1e-5)
        assert out.shares[0] == 0.0


FILTERS = [
    (1.0, 5, 1.0, 0.0),
    (0.9, 10, 0.8, 0.05),
    (0.7, 64, 0.6, 0.0),
    (1.0, 1, 1.0, 0.0),
    (1.0, 300, 0.7, 0.01),
    (0.4, -1, 0.5, 0.0),
    (1.5, -1, 0.97, 0.0),
    (1.0, -1, 0.0, 0.0),
    (1.0, -1, 1.0, 0.2),
    (3.0, -1, 0.9, 0.3),
    (1e-5, -1, 0.9, 0.0),
    (1e38, 40, 1.0, 1.0),
]


@pytest.mark.parametrize("cuts", FILTERS)
def test_only_what_the_filters_keep_is_drawn(cuts: tuple[float, int, float, float]) -> None:
    _, top_k, top_p, _ = cuts
    rng = torch.Generator().manual_seed(top_k + 2)
    logits = strange_logits(VOCAB, rng)
    if DEVICE.type == "cpu":  # the interpreter is slow
        logits = logits[[0, 1, 5]] if top_k > 64 else logits[FILTERS.index(cuts) % 2 :: 2]
    params = numbers(len(logits), *cuts)
    masks = random_masks(len(logits), VOCAB, rng)
    masks.rows[0], masks.rows[1] = 0, 2
    found = draw(logits, params, Workspace(len(logits), VOCAB, DEVICE), masks).tokens.cpu()
    sets, _ = reference.kept(logits, params, masks)
    expected = reference.draw(logits, params, masks).tokens
    assert ((found < 0) == (expected < 0)).all()
    known = found >= 0
    assert sets[known, found[known]].all()
    if top_k > 0 or top_p == 0.0:  # noise is that of the tokens
        assert (found == expected).all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("rows", "vocab", "dtype"),
    [(64, 49_152, torch.float32), (40, 128_256, torch.bfloat16), (9, 151_936, torch.float32)],
)
@pytest.mark.parametrize("seed", range(3))
def test_random_steps(seed: int, rows: int, vocab: int, dtype: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, vocab, generator=rng) * 2.5).to(dtype).to(DEVICE)
    masks = random_masks(rows, vocab, rng)
    pick = torch.randint(0, len(FILTERS), (rows,), generator=rng)
    params = numbers(rows, 1.0, -1, 1.0, 0.0)
    cuts = [torch.tensor(column) for column in zip(*FILTERS)]
    for tensor, column in zip((params.temperature, params.top_k, params.top_p, params.min_p), cuts):
        tensor.copy_(column[pick])
    work = Workspace(rows, vocab, DEVICE)
    out = draw(logits, params, work, masks, logprobs=True)
    tokens = out.tokens.cpu()
    sets, _ = reference.kept(logits, params, masks)
    # Sums of float32 may take in or leave out what lies on the border of a nucleus.
    outside = ~sets[torch.arange(rows), tokens]
    assert outside.sum() <= 1
    assert (tokens >= 0).all()
    own, shares = reference.log_probabilities(logits, tokens, masks)
    assert out.logprobs is not None
    assert out.shares is not None
    torch.testing.assert_close(out.logprobs.cpu(), own, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(out.shares.cpu(), shares, atol=1e-5, rtol=1e-5)
    assert greedy(logits, work, masks).tokens.tolist() == reference.greedy(logits, masks).tolist()


def test_the_reference_keeps_what_the_sampler_of_the_product_keeps() -> None:
    rng = torch.Generator().manual_seed(5)
    logits = torch.randn(len(FILTERS), 400, generator=rng) * 2
    logits[::3] = logits[::3].round()
    params = numbers(len(logits), 1.0, -1, 1.0, 0.0)
    mild = [(min(max(t, 0.1), 9.0), k, p, m) for t, k, p, m in FILTERS]
    rows = [SamplingParams(temperature=t, top_k=k, top_p=p, min_p=m) for t, k, p, m in mild]
    for tensor, column in zip(
        (params.temperature, params.top_k, params.top_p, params.min_p), zip(*mild)
    ):
        tensor.copy_(torch.tensor(column))
    probs = (logits / params.temperature.cpu()[:, None]).softmax(-1)
    filter_probs(probs, rows)
    sets, _ = reference.kept(logits, params)
    assert ((probs > 0) == sets).all()


def two_steps(logits: torch.Tensor, temperature: float, seed: int, step: int) -> int:
    """The token that a draw by chunks takes, from `uniform`'s numbers."""
    padded = -(-len(logits) // 4096) * 4096
    noise = -np.log1p(-uniform([seed], [step], padded + padded // 128)[0])
    scores = np.full(padded, -INF)
    scores[: len(logits)] = logits.double().cpu().numpy() / temperature
    chunks = scores.reshape(-1, 128)
    sums = np.logaddexp.reduce(chunks, axis=1)
    chunk = int((sums - np.log(noise[padded:])).argmax())
    own = noise[:padded].reshape(-1, 128)[chunk]
    return chunk * 128 + int((chunks[chunk] - np.log(own)).argmax())


def test_a_draw_by_temperature_follows_its_noise() -> None:
    rng = torch.Generator().manual_seed(3)
    logits = (torch.randn(16, VOCAB, generator=rng) * 2).to(DEVICE)
    params = numbers(16, 0.8, -1, 1.0, 0.0)
    found = draw(logits, params, Workspace(16, VOCAB, DEVICE), filters=False).tokens
    seeds, steps = params.seed.tolist(), params.step.tolist()
    expected = [two_steps(x, 0.8, s, i) for x, s, i in zip(logits, seeds, steps)]
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("top_k", "top_p"), [(-1, 1.0), pytest.param(6, 0.9, marks=pytest.mark.gpu)]
)
def test_draws_are_distributed_as_the_probabilities(top_k: int, top_p: float) -> None:
    rows = 20_000 if DEVICE.type == "cuda" else 80
    ids = torch.arange(8) * 37  # in three chunks
    row = torch.full((300,), -INF)
    row[ids] = torch.tensor([0.0, -0.5, 0.4, -1.0, -2.0, 0.1, -0.2, -1.5])
    logits = row.repeat(rows, 1).to(DEVICE)
    params = numbers(rows, 1.3, top_k, top_p, 0.0)
    params.step.copy_(torch.arange(rows) // 20)
    params.seed.copy_(torch.arange(rows) % 20)
    work = Workspace(rows, 300, DEVICE)
    tokens = draw(logits, params, work, filters=top_k > 0).tokens.cpu()
    _, probs = reference.kept(logits[:1], params)
    expected = rows * probs[0, ids]
    seen = torch.bincount(tokens, minlength=300)[ids].double()
    assert seen.sum() == rows
    inside = expected > 0
    assert seen[~inside].sum() == 0
    chi = float(((seen - expected)[inside] ** 2 / expected[inside]).sum())
    assert chi < 26.0, chi  # 7 degrees of freedom: 1 in 2,000


def test_a_row_does_not_depend_on_the_others() -> None:
    rng = torch.Generator().manual_seed(4)
    logits = (torch.randn(5, VOCAB, generator=rng) * 2).to(DEVICE)
    params = numbers(5, 1.0, -1, 1.0, 0.0)
    params.top_k.copy_(torch.tensor([-1, 20, -1, 100, 3]))
    params.top_p.copy_(torch.tensor([1.0, 0.9, 0.95, 1.0, 1.0]))
    work = Workspace(5, VOCAB, DEVICE)
    together = draw(logits, params, work).tokens.tolist()
    order = [3, 0, 4, 2, 1]
    fields = ("temperature", "top_k", "top_p", "min_p", "seed", "step")
    moved = RowParams(*(getattr(params, name)[order].contiguous() for name in fields))
    assert draw(logits[order], moved, work).tokens.tolist() == [together[i] for i in order]
    alone = RowParams(*(getattr(params, name)[2:3].contiguous() for name in fields))
    assert draw(logits[2:3], alone, work).tokens.tolist() == [together[2]]


def test_excluded_tokens_count_but_are_not_drawn() -> None:
    row = torch.full((6, 300), -9.0)
    row[:, [10, 140, 299]] = torch.tensor([2.0, 1.5, 1.0])
    logits = row.to(DEVICE)
    params = numbers(6, 1.0, 3, 1.0, 0.0)
    params.temperature[4:] = 0.0
    params.top_k[3] = -1
    params.top_p[3] = 0.8
    ids = torch.tensor([[10, 140], [10, 299], [140, 299], [10, 140], [10, 140], [0, 0]])
    counts = torch.tensor([2, 2, 2, 2, 2, 0], dtype=torch.int32)
    excluded = TokenList(ids.to(DEVICE), counts.to(DEVICE))
    work = Workspace(6, 300, DEVICE)
    found = draw(logits, params, work, excluded=excluded).tokens.tolist()
    assert found == [299, 140, 10, -1, 299, 10]
    assert draw(logits, params, work, excluded=excluded, filters=False).tokens[4:].tolist() == [
        299,
        10,
    ]


def test_penalties_and_bias_come_and_go() -> None:
    rng = torch.Generator().manual_seed(6)
    logits = (torch.randn(4, 3_000, generator=rng) * 3).to(DEVICE)
    logits[0, 1], logits[0, 2], logits[1, 2] = -INF, math.nan, 1e38
    raw = logits.clone()
    sizes = [5, 1_200, 0, 3]
    ids = torch.cat([torch.randperm(3_000, generator=rng)[:n] for n in sizes])
    ids[:2] = torch.tensor([1, 2])
    total = sum(sizes)
    bias = torch.randn(total, generator=rng)
    bias[3] = -INF
    changes = Adjustments(
        starts=torch.tensor([0, 5, 1_205, 1_205, 1_208], dtype=torch.int32),
        ids=ids.to(torch.int32),
        seen=torch.randint(0, 2, (total,), generator=rng, dtype=torch.int32),
        counts=torch.randint(0, 4, (total,), generator=rng, dtype=torch.int32),
        bias=bias,
        repetition=torch.tensor([1.3, 0.0, 2.0, 1.0]),
        frequency=torch.tensor([0.5, -0.2, 1.0, 0.0]),
        presence=torch.tensor([0.1, 0.3, 1.0, 1.5]),
        before=torch.full((total,), math.nan),
    )
    fields = Adjustments.__dataclass_fields__
    changes = Adjustments(*(getattr(changes, name).to(DEVICE) for name in fields))
    adjust(logits, changes)
    expected = reference.adjust(raw, changes).float()
    torch.testing.assert_close(logits.cpu(), expected, equal_nan=True, atol=1e-5, rtol=1e-5)
    restore(logits, changes)
    torch.testing.assert_close(logits, raw, equal_nan=True, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probabilities_of_given_tokens(dtype: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(7)
    logits = (torch.randn(3, VOCAB, generator=rng) * 4).to(dtype).to(DEVICE)
    rows = torch.tensor([0, 0, 2, 1, 2], dtype=torch.int32).to(DEVICE)
    ids = torch.randint(0, VOCAB, (5,), generator=rng).to(DEVICE)
    found = logprobs_of(logits, rows, ids)
    expected = reference.logprobs_of(logits, rows, ids)
    torch.testing.assert_close(found.cpu(), expected, atol=2e-6, rtol=1e-5)
