"""Masks and sampling: one read of the logits, beside torch's and flashinfer's ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.flashinfer_peer import sample_logits, sample_top
from benchmarks.gpu.kernel_bench import POOLS, Case, KernelBench, attempt
from sgc_kernels.gpu.sampling.draw import draw
from sgc_kernels.gpu.sampling.greedy import greedy
from sgc_kernels.gpu.sampling.params import RowParams, Sampled, TokenMasks, Workspace

TOP_K, TOP_P = 50, 0.95
_SPREAD = 2.5  # standard deviation of the logits
_MASKS = 8  # distinct ones
_ALLOWED = 0.3  # share of the tokens

Of = Callable[[int], Any]  # the work on the n-th of the logits in rotation


def sampling_cases(bench: KernelBench) -> Iterator[Case]:
    """By size and number format, each way of choosing."""
    sizes = [
        (64, 49_152, torch.float32),
        (128, 49_152, torch.bfloat16),
        (256, 128_256, torch.float32),
    ]
    for rows, vocab, dtype in bench.some([(2, 900, torch.float32)] if bench.tiny else sizes):
        logits = [
            (_SPREAD * torch.randn(rows, vocab, device=bench.device)).to(dtype)
            for _ in range(POOLS)
        ]
        size = f"[{rows} x {vocab}] {str(dtype).removeprefix('torch.')}"
        floor_us = 1e6 * bench.ceilings.bytes_s(rows * vocab * dtype.itemsize)
        for name, (own, others) in _ways(bench, logits).items():
            case = Case(f"{name} {size}", floor_us)
            case.ours["us"] = round(bench.us([partial(own, i) for i in range(POOLS)]), 2)
            if name == "greedy, masked":
                case.ours["wrong_rows"] = _wrong(logits[0], own(0).tokens, masks_of(bench, logits))
            for peer, work in {} if bench.compile_only else others:
                works = [partial(work, i) for i in range(POOLS)]
                attempt(case.others, peer, partial(bench.us, works))
            yield case


def masks_of(bench: KernelBench, logits: list[torch.Tensor]) -> TokenMasks:
    """Random ones, the same each time."""
    rows, vocab = logits[0].shape
    bits = torch.rand(_MASKS, -(-vocab // 32), 32, generator=torch.Generator().manual_seed(2))
    words = ((bits < _ALLOWED).long() << torch.arange(32)).sum(-1)
    signed = torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)
    places = torch.arange(rows, dtype=torch.int32) % _MASKS
    return TokenMasks(signed.to(bench.device), places.to(bench.device))


def _wrong(logits: torch.Tensor, tokens: torch.Tensor, masks: TokenMasks) -> int:
    """Rows whose token is not torch's."""
    expected = logits.masked_fill(~_allowed(masks, logits.shape[1]), float("-inf")).argmax(-1)
    return int((tokens != expected).sum())


def _allowed(masks: TokenMasks, vocab: int) -> torch.Tensor:
    """The masks of all rows as booleans."""
    shifts = torch.arange(32, device=masks.words.device)
    bits = (masks.words[:, :, None] >> shifts & 1).bool()
    return bits.flatten(1)[:, :vocab][masks.rows.long()]


def _ways(
    bench: KernelBench, logits: list[torch.Tensor]
) -> dict[str, tuple[Of, list[tuple[str, Of]]]]:
    """Ours, and others' names and works, for each way of choosing."""
    rows, vocab = logits[0].shape
    work = Workspace(rows, vocab, bench.device)
    out = Sampled.empty(rows, bench.device, False)
    masks = masks_of(bench, logits)
    hot, top = _params(bench, rows, 0.7), _params(bench, rows, 1.0, TOP_K, TOP_P)
    probabilities = [x.float().softmax(-1) for x in logits]
    tops: list[tuple[str, Of]] = [("torch topk + multinomial's race", partial(_torch_top, logits))]
    plain: list[tuple[str, Of]] = [("torch softmax + race", partial(_torch_draw, logits))]
    if "sampling" in bench.flashinfer:
        tops += [
            (
                "flashinfer, probabilities ready",
                lambda i: sample_top(probabilities[i], TOP_K, TOP_P),
            ),
            ("flashinfer with softmax", lambda i: _softmax_top(logits[i])),
        ]
        plain.append(("flashinfer", lambda i: sample_logits(logits[i].float())))
    masked: list[tuple[str, Of]] = [
        ("torch unpack + fill + argmax", partial(_torch_mask, logits, masks))
    ]
    return {
        "greedy": (
            lambda i: greedy(logits[i], work, out=out),
            [("torch argmax", lambda i: logits[i].argmax(-1))],
        ),
        "greedy, masked": (lambda i: greedy(logits[i], work, masks, out=out), masked),
        "temperature": (lambda i: draw(logits[i], hot, work, filters=False, out=out), plain),
        "top-k 50, top-p 0.95": (lambda i: draw(logits[i], top, work, out=out), tops),
        "top-k 50, top-p 0.95, masked": (lambda i: draw(logits[i], top, work, masks, out=out), []),
    }


def _params(
    bench: KernelBench, rows: int, temperature: float, top_k: int = -1, top_p: float = 1.0
) -> RowParams:
    params = RowParams.empty(rows, bench.device)
    params.temperature.fill_(temperature)
    params.top_k.fill_(top_k)
    params.top_p.fill_(top_p)
    params.seed.copy_(torch.arange(rows) * 7919)
    return params


def _race(probabilities: torch.Tensor) -> torch.Tensor:
    """What `multinomial` does for one draw, without its synchronisation."""
    noise = torch.empty_like(probabilities).exponential_()
    return (probabilities / noise).argmax(-1)


def _torch_draw(logits: list[torch.Tensor], i: int) -> torch.Tensor:
    return _race((logits[i].float() / 0.7).softmax(-1))


def _torch_top(logits: list[torch.Tensor], i: int) -> torch.Tensor:
    top = logits[i].topk(TOP_K, -1)
    probabilities = top.values.float().softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    kept = probabilities.masked_fill(before > TOP_P, 0.0)
    return top.indices.gather(1, _race(kept)[:, None])


def _torch_mask(logits: list[torch.Tensor], masks: TokenMasks, i: int) -> torch.Tensor:
    x = logits[i]
    return x.masked_fill(~_allowed(masks, x.shape[1]), float("-inf")).argmax(-1)


def _softmax_top(logits: torch.Tensor) -> torch.Tensor:
    return sample_top(logits.float().softmax(-1), TOP_K, TOP_P)
