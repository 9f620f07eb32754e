"""Keys and values in 8 bits: kernels beside the reference, over the same pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from kernels.gpu.decode_cases import Step, Tree

from sgc_kernels import kv_store
from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.attention.torch_ref import TorchAttention
from sgc_kernels.kv_store import EIGHT_BITS, LARGEST

pytest.importorskip("triton")

from sgc_kernels.gpu import rotary
from sgc_kernels.gpu.attention.backend import TritonAttention
from sgc_kernels.gpu.attention.decode import DecodeAttention
from sgc_kernels.gpu.attention.invariant import InvariantAttention, InvariantRows
from sgc_kernels.gpu.attention.shared import depth_first_order, neighbour_lcp
from sgc_kernels.gpu.attention.single import SingleAttention, Split

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
BOUND = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
Size = tuple[int, int, int]  # heads, key heads, size of a head
MODELS = [
    ((8, 2, 32), torch.bfloat16),
    ((3, 1, 24), torch.float32),
    *(
        pytest.param(size, dtype, marks=pytest.mark.gpu)
        for size in ((9, 3, 64), (32, 8, 128), (5, 1, 96), (4, 2, 256))
        for dtype in DTYPES
    ),
]
LARGE_TREE = Tree(((12, 40), (3, 33)), (5, 17, 1, 90, 2, 30, 8, 8, 21, 300, 1, 64))
TREE = LARGE_TREE if ON_GPU else Tree(((6, 40), (2, 20)), (1, 5, 30, 2, 18, 9))


@pytest.fixture(autouse=True)
def _right_conversions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the interpreter round to e4m3 as a GPU does: its own conversion loses the carry into
    the exponent (1.97 becomes 1) and knows no NaN."""
    if ON_GPU:
        return
    import triton.language as tl
    from triton.runtime import interpreter

    before = interpreter.InterpreterBuilder.create_fp_to_fp

    def convert(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        kinds = src.dtype.scalar, dst_type.scalar
        if kinds == (tl.float32, tl.float8e4nv):
            data = torch.from_numpy(src.data.copy()).to(EIGHT_BITS).view(torch.uint8).numpy()
        elif kinds[0] == tl.float8e4nv and kinds[1] in (tl.float16, tl.float32):
            wide = {tl.float16: torch.float16, tl.float32: torch.float32}[kinds[1]]
            data = torch.from_numpy(src.data.copy()).view(EIGHT_BITS).to(wide).numpy()
        else:
            return before(self, src, dst_type, rounding_mode)
        return interpreter.TensorHandle(data, dst_type.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_fp_to_fp", convert)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def pool(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers of all sizes that the format has."""
    sizes = 2.0 ** torch.randint(-9, 3, shape, generator=torch.Generator().manual_seed(seed))
    return (random(*shape, seed=seed) * sizes).to(EIGHT_BITS).to(DEVICE)


def pools(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values."""
    return pool(*shape), pool(*shape, seed=1)


def shape_of(size: Size, dtype: torch.dtype) -> AttentionShape:
    return AttentionShape(*size, size[2] ** -0.5, dtype, EIGHT_BITS)


def check(found: torch.Tensor, expected: torch.Tensor) -> None:
    error = (found.double().cpu() - expected.double().cpu()).norm() / expected.double().norm().cpu()
    assert error < BOUND[found.dtype], f"error {float(error):.2e}"


def bits(cache: torch.Tensor) -> torch.Tensor:
    return cache.view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normed", [False, True])
def test_keys_and_values_are_stored_as_by_the_reference(dtype: torch.dtype, normed: bool) -> None:
    tokens, dim = 24, 32
    sizes = torch.logspace(-5, 3, tokens)[:, None, None]
    qkv = (random(tokens, 8, dim) * sizes).to(DEVICE, dtype)
    angle = random(tokens, 1, dim)
    table = angle.cos().to(DEVICE, dtype), angle.sin().to(DEVICE, dtype)
    norms = (random(dim).to(DEVICE, dtype), 200 * random(dim, seed=1).to(DEVICE, dtype))
    slots = torch.randperm(30, generator=torch.Generator().manual_seed(0))[:tokens].to(DEVICE)
    mine, expected = pools(30, 2, dim), pools(30, 2, dim)
    if normed:
        q = rotary.norm_turn_and_store(qkv, norms, 1e-6, table, *mine, slots)
        right = kv_store.norm_turn_and_store(qkv, norms, 1e-6, table, *expected, slots)
    else:
        q = rotary.turn_and_store(qkv, table, *mine, slots)
        right = kv_store.turn_and_store(qkv, table, *expected, slots)
    check(q, right)
    assert torch.equal(bits(mine[1]), bits(expected[1]))  # values are not computed with
    # A key that lies between two numbers may go to either: its sum is rounded otherwise.
    keys, right = mine[0].float(), expected[0].float()
    assert float((keys != right).float().mean()) < (0.2 if dtype == torch.bfloat16 else 0.01)
    assert float((keys - right).norm() / right.norm()) < 0.05


@pytest.mark.filterwarnings("ignore:invalid value")  # infinity times zero, in what is not stored
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_too_large_is_the_largest_number(dtype: torch.dtype) -> None:
    numbers = [447.0, 449.0, 470.0, 3e4, -3e4, float("inf"), float("-inf"), float("nan")]
    qkv = torch.full((1, 4, 8), 449.0, dtype=dtype, device=DEVICE)
    qkv[0, -1] = torch.tensor(numbers).to(DEVICE, dtype)
    table = torch.ones(1, 1, 8).to(DEVICE, dtype), torch.zeros(1, 1, 8).to(DEVICE, dtype)
    slots = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    for store in (rotary.turn_and_store, kv_store.turn_and_store):
        k, v = pool(3, 1, 8), pool(3, 1, 8)
        store(qkv, table, k, v, slots)
        found = v[0, 0].float().cpu()
        assert found[:-1].tolist() == [LARGEST] * 4 + [-LARGEST, LARGEST, -LARGEST]
        assert bool(found[-1].isnan())
        assert bool((k[0].float() == LARGEST).all())


@pytest.mark.parametrize("kind", [DecodeAttention, InvariantRows])
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize(("size", "dtype"), MODELS)
def test_decode(
    size: Size, dtype: torch.dtype, window: int | None, kind: Callable[..., Any]
) -> None:
    step = Step(TREE, shape_of(size, dtype), device=str(DEVICE))
    used = torch.zeros(len(step.k), dtype=torch.bool, device=DEVICE)
    for start, n in zip(step.starts.tolist(), step.lens.tolist(), strict=True):
        used[step.slots[start : start + n].long()] = True
    caches = pools(*step.k.shape)
    for cache in caches:
        bits(cache)[~used] = 0x7F  # NaN
    step.k, step.v = (cache.to(torch.float64) for cache in caches)
    attention = kind(step.shape, 16, DEVICE, window)
    starts, lens, slots = (x.cpu().numpy() for x in (step.starts, step.lens, step.slots))
    order = depth_first_order(slots, starts, lens)
    plan = attention.plan(neighbour_lcp(slots, starts[order], lens[order]), lens[order], 0, order)
    attention.load(plan)
    out = torch.full_like(step.q, float("nan"))
    attention.run(step.q, *caches, step.slots, step.starts, step.lens, out)
    check(out, step.expected(window))


@pytest.mark.parametrize("backend", [TritonAttention, InvariantAttention])
@pytest.mark.parametrize("window", [None, 9])
@pytest.mark.parametrize(("size", "dtype"), MODELS)
def test_new_tokens(
    size: Size, dtype: torch.dtype, window: int | None, backend: Callable[[], Any]
) -> None:
    queries, lengths = [20, 1, 0, 33], [70, 17, 5, 33]
    k, v = pools(sum(lengths) + 9, *size[1:])
    order = torch.randperm(len(k), generator=torch.Generator().manual_seed(3))
    for cache in (k, v):
        bits(cache)[order[sum(lengths) :].to(DEVICE)] = 0x7F
    indptrs = [torch.tensor([0, *n]).cumsum(0).to(torch.int32) for n in (queries, lengths)]
    meta = AttentionMeta(*indptrs, order[: sum(lengths)].to(DEVICE))
    q = random(sum(queries), size[0], size[2]).to(DEVICE, dtype)
    found = backend().plan(meta, shape_of(size, dtype)).run(q, k, v, window)
    plan = TorchAttention().plan(meta, shape_of(size, torch.float64))
    check(found, plan.run(q.double(), k, v, window))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [(6, 2, 64), pytest.param((32, 8, 128), marks=pytest.mark.gpu)])
def test_one_token_with_its_store(size: Size, dtype: torch.dtype) -> None:
    heads, kv_heads, dim = size
    length = 90
    mine, expected = pools(120, kv_heads, dim), pools(120, kv_heads, dim)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    out_slot = order[length - 1 : length]
    qkv = random(1, heads + 2 * kv_heads, dim).to(DEVICE, dtype)
    angle = random(1, 1, dim)
    table = angle.cos().to(DEVICE, dtype), angle.sin().to(DEVICE, dtype)
    numbers = (
        torch.zeros(1, dtype=torch.int64, device=DEVICE),
        torch.tensor([length], dtype=torch.int32, device=DEVICE),
    )
    found = SingleAttention(shape_of(size, dtype), DEVICE).run(
        qkv.view(1, -1), None, 0.0, table, *mine, order.int(), *numbers, out_slot, Split(4, 16)
    )
    q = kv_store.turn_and_store(qkv, table, *expected, out_slot)
    ends = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([0, length], dtype=torch.int32)
    plan = TorchAttention().plan(AttentionMeta(*ends, order), shape_of(size, torch.float64))
    check(found.view(1, heads, dim), plan.run(q.double(), *expected))
    assert torch.equal(bits(mine[1]), bits(expected[1]))
    assert int((bits(mine[0]) != bits(expected[0])).sum()) <= kv_heads * dim // 10


def test_queries_beyond_float16_give_numbers() -> None:
    """Products with 8-bit keys run in float16."""
    size = (2, 1, 64)
    k, v = pools(40, 1, 64)
    ends = torch.tensor([0, 2], dtype=torch.int32), torch.tensor([0, 40], dtype=torch.int32)
    meta = AttentionMeta(*ends, torch.arange(40, device=DEVICE))
    q = torch.full((2, 2, 64), 1e6, dtype=torch.bfloat16, device=DEVICE)
    found = TritonAttention().plan(meta, shape_of(size, torch.bfloat16)).run(q, k, v)
    assert bool(found.isfinite().all())
