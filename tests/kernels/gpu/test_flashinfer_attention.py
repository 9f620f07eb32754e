"""Attention by flashinfer: what its wrappers are asked for; on a GPU, what they answer."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.attention.torch_ref import TorchAttention
from sgc_kernels.gpu.attention import flashinfer
from sgc_kernels.gpu.attention.tables import upload_tables

CPU = torch.device("cpu")
DTYPE = torch.bfloat16


class Wrapper:
    """flashinfer's wrappers as their manual has them: what `plan` names is computed in torch."""

    def __init__(self, decode: bool, workspace: torch.Tensor, layout: str, **options: Any) -> None:
        assert layout == "NHD"
        self.decode, self.options = decode, options

    def plan(self, *args: Any, **options: Any) -> None:
        if self.decode:
            indptr, slots, last_page, *sizes = args
            qo_indptr = torch.arange(len(indptr), dtype=torch.int32)
        else:
            qo_indptr, indptr, slots, last_page, *sizes = args
            assert options["causal"]
        heads, kv_heads, head_dim, page_size = sizes
        assert page_size == 1
        assert last_page.tolist() == [1] * (len(indptr) - 1)
        assert int(indptr[-1]) == len(slots)
        assert slots.dtype == qo_indptr.dtype == indptr.dtype == torch.int32
        assert options["q_data_type"] == options["kv_data_type"] == DTYPE
        shape = AttentionShape(heads, kv_heads, head_dim, options["sm_scale"], DTYPE)
        self.left = options["window_left"]
        self.planned = TorchAttention().plan(AttentionMeta(qo_indptr, indptr, slots.long()), shape)

    def run(
        self, q: torch.Tensor, pages: tuple[torch.Tensor, torch.Tensor], out: torch.Tensor
    ) -> torch.Tensor:
        keys, values = (page.squeeze(1) for page in pages)
        window = None if self.left < 0 else self.left + 1
        return out.copy_(self.planned.run(q, keys, values, window))


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> flashinfer.FlashInferAttention:
    module = SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=lambda *a, **b: Wrapper(True, *a, **b),
        BatchPrefillWithPagedKVCacheWrapper=lambda *a, **b: Wrapper(False, *a, **b),
    )
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    return flashinfer.FlashInferAttention(CPU)


def step(
    lengths: list[tuple[int, int]], room: int, device: torch.device
) -> tuple[AttentionMeta, AttentionShape, tuple[torch.Tensor, ...]]:
    """(queries, context) of sequences; `room` unused places behind each sequence's slots."""
    generator = torch.Generator().manual_seed(0)
    queries, context = (torch.tensor(numbers) for numbers in zip(*lengths))
    count = int((context + room).sum())
    kv_indptr = torch.nn.functional.pad((context + room).cumsum(0), (1, 0)).int()
    meta = AttentionMeta(
        qo_indptr=torch.nn.functional.pad(queries.cumsum(0), (1, 0)).int(),
        kv_indptr=kv_indptr,
        kv_slots=torch.randperm(count, generator=generator).to(device),
        kv_ends=kv_indptr[:-1] + context.int() if room else None,
    )
    sizes = (int(queries.sum()), 4, 64), (count, 2, 64), (count, 2, 64)
    tensors = (torch.randn(size, generator=generator).to(device, DTYPE) for size in sizes)
    return meta, AttentionShape(4, 2, 64, 0.125, DTYPE), tuple(tensors)


LENGTHS = [
    [(1, 9), (1, 1), (1, 30)],
    [(3, 9), (1, 12), (7, 7)],
    [(0, 9), (2, 12), (0, 4), (1, 7)],
    [(0, 9), (1, 12), (1, 7)],
]


@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_what_is_asked_for(
    backend: flashinfer.FlashInferAttention, lengths: list[tuple[int, int]], room: int
) -> None:
    meta, shape, tensors = step(lengths, room, CPU)
    plan, right = backend.plan(meta, shape), TorchAttention().plan(meta, shape)
    other = backend.plan(*step([(2, 5)], 0, CPU)[:2])
    for window in (None, 1, 6, None):
        torch.testing.assert_close(plan.run(*tensors, window), right.run(*tensors, window))
    assert other.run(*step([(2, 5)], 0, CPU)[2]).shape == (2, 4, 64)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_slots_are_closed_up_where_they_lie(
    monkeypatch: pytest.MonkeyPatch, lengths: list[tuple[int, int]]
) -> None:
    sent = []

    def upload(tables: Any, device: torch.device) -> tuple[torch.Tensor, ...]:
        sent.append(sum(table.size for table in tables))
        return upload_tables(tables, device)

    monkeypatch.setattr(flashinfer, "upload_tables", upload)
    for room in (0, 5):
        meta, *_ = step(lengths, room, CPU)
        table = meta.kv_slots.int()  # as a device's table has them
        found = flashinfer._batch(replace(meta, kv_slots=table)).slots
        rows = zip(lengths, meta.kv_indptr.tolist())
        parts = [meta.kv_slots[at : at + seen] for (new, seen), at in rows if new]
        assert found.dtype == torch.int32
        assert found.tolist() == torch.cat(parts).tolist()
    # Two numbers a sequence, whatever its context.
    assert all(count <= 2 * len(lengths) for count in sent)


@pytest.mark.gpu
def test_a_plan_waits_for_nothing() -> None:
    meta, *_ = step(LENGTHS[1], 5, torch.device("cuda"))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = flashinfer._batch(meta).slots
    finally:
        torch.cuda.set_sync_debug_mode("default")
    host = replace(meta, kv_slots=meta.kv_slots.cpu())
    assert found.tolist() == flashinfer._batch(host).slots.tolist()


def test_a_step_without_queries(backend: flashinfer.FlashInferAttention) -> None:
    meta, shape, tensors = step([(0, 9), (0, 3)], 0, CPU)
    assert backend.plan(meta, shape).run(*tensors).shape == (0, 4, 64)


def test_what_flashinfer_lacks(backend: flashinfer.FlashInferAttention) -> None:
    meta, *_ = step([(1, 9)], 0, CPU)
    with pytest.raises(ValueError, match=r"float32: load .* choose the attention triton"):
        backend.plan(meta, AttentionShape(4, 2, 64, 1.0, torch.float32))
    with pytest.raises(ValueError, match=r"heads of 96 numbers, .* choose the attention triton"):
        backend.plan(meta, AttentionShape(4, 2, 96, 1.0, DTYPE))


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(ImportError, match=r"cannot be loaded .* install flashinfer-python"):
        flashinfer.FlashInferAttention(CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("room", [0, 5])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_on_the_gpu(lengths: list[tuple[int, int]], room: int) -> None:
    pytest.importorskip("flashinfer", reason="flashinfer is not installed")
    device = torch.device("cuda")
    meta, shape, tensors = step(lengths, room, device)
    plan = flashinfer.FlashInferAttention(device).plan(meta, shape)
    exact = AttentionShape(4, 2, 64, 0.125, torch.float64)
    doubles = tuple(tensor.double() for tensor in tensors)
    for window in (None, 6):
        right = TorchAttention().plan(meta, exact).run(*doubles, window)
        error = (plan.run(*tensors, window).double() - right).norm() / right.norm()
        assert error < 1e-2
