"""Attention of one new token in one launch, against the small operations and a dense formula."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported
pytest.importorskip("triton", reason="triton is not installed")

from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.single import SPLITS, SingleAttention, Split, split_for
from sgc_kernels.kv_store import norm_turn_and_store, turn_and_store
from sgc_kernels.rotary import rotary_table

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def attend(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    """`[heads, head_dim]` float64."""
    grouped = q.double().view(keys.shape[1], -1, keys.shape[2])
    shares = (torch.einsum("hgd,thd->hgt", grouped, keys.double()) * scale).softmax(-1)
    return torch.einsum("hgt,thd->hgd", shares, values.double()).reshape(q.shape)


@pytest.mark.parametrize(
    ("dtype", "heads", "length", "window", "normed"),
    [
        (torch.float32, (8, 2), 200, None, False),
        (torch.float32, (3, 1), 1, None, True),
        (torch.float32, (4, 4), 90, 33, False),
        (torch.float16, (8, 2), 17, None, True),
        (torch.float16, (3, 1), 130, 50, False),
        (torch.float16, (16, 1), 65, None, False),
    ],
)
def test_one_token(
    dtype: torch.dtype, heads: tuple[int, int], length: int, window: int | None, normed: bool
) -> None:
    check(dtype, heads, 64, length, window, normed, Split(4, 16))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("heads", "dim"), [((32, 8), 128), ((9, 3), 64), ((16, 16), 256)])
@pytest.mark.parametrize("length", [1, 2, 33, 513, 1024, 1025, 3000, 4096, 9000])
def test_one_token_of_real_models(
    dtype: torch.dtype, heads: tuple[int, int], dim: int, length: int
) -> None:
    split = split_for(length) or SPLITS[-1][1]
    for window, normed in ((None, False), (900, True)):
        check(dtype, heads, dim, length, window, normed, split)


def check(
    dtype: torch.dtype,
    heads: tuple[int, int],
    dim: int,
    length: int,
    window: int | None,
    normed: bool,
    split: Split,
) -> None:
    """One token, twice, against the operations one by one; slots of others hold NaN."""
    generator = torch.Generator().manual_seed(length + heads[0])

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE, dtype)

    slots_in_all = length + 100
    shape = AttentionShape(*heads, dim, dim**-0.5, dtype)
    k, v = random(slots_in_all, heads[1], dim), random(slots_in_all, heads[1], dim)
    order = torch.randperm(slots_in_all, generator=generator)
    k[order[length - 1 :].to(DEVICE)] = float("nan")  # not written yet, or not the row's
    v[order[length - 1 :].to(DEVICE)] = float("nan")
    slots = torch.cat([torch.full((5,), 1 << 30), order]).int().to(DEVICE)
    qkv = random(1, (heads[0] + 2 * heads[1]) * dim)
    norms = (random(dim), random(dim)) if normed else None
    positions = torch.tensor([length - 1], device=DEVICE)
    inv_freq = (1e4 ** -(torch.arange(0, dim, 2) / dim)).to(DEVICE)
    table = rotary_table(positions, inv_freq, 1.0, dtype)
    out_slot = order[length - 1 : length].to(DEVICE)

    k_here, v_here = k.clone(), v.clone()
    parts = qkv.view(1, -1, dim)
    if norms is None:
        q = turn_and_store(parts, table, k_here, v_here, out_slot)
    else:
        q = norm_turn_and_store(parts, norms, 1e-6, table, k_here, v_here, out_slot)
    seen = order[max(0, length - (window or length)) : length].to(DEVICE)
    expected = attend(q[0], k_here[seen], v_here[seen], shape.scale)

    single = SingleAttention(shape, DEVICE)
    numbers = (
        torch.tensor([5], device=DEVICE),
        torch.tensor([length], dtype=torch.int32, device=DEVICE),
    )
    for _ in range(2):  # counters are put back
        out = single.run(qkv, norms, 1e-6, table, k, v, slots, *numbers, out_slot, split, window)
        error = (out.view(expected.shape).double() - expected).norm() / expected.norm()
        assert (
            float(error) < {torch.float32: 1e-5, torch.float16: 3e-3, torch.bfloat16: 1e-2}[dtype]
        )
    # Two roundings of the format.
    relative = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    tolerance = {"rtol": relative, "atol": relative}
    torch.testing.assert_close(k[out_slot], k_here[out_slot], **tolerance)
    assert torch.equal(v[out_slot], v_here[out_slot])
