"""Attention of new tokens over a cached prefix: the product's kernels beside others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from benchmarks.gpu.flashinfer_peer import PagedPrefill
from benchmarks.gpu.kernel_bench import POOLS, Case, KernelBench, attempt, relative_error
from benchmarks.gpu.shapes import causal_pairs
from sgc_kernels.attention.spec import AttentionMeta, AttentionShape
from sgc_kernels.gpu.attention.backend import TritonAttention


@dataclass(slots=True)
class Prompts:
    """Rows of `new` tokens behind the same `before` ones, several layers of them."""

    rows: int
    new: int
    before: int
    shape: AttentionShape
    device: torch.device
    slots: torch.Tensor = field(init=False)  # [rows, before + new] int64
    pools: list[tuple[torch.Tensor, torch.Tensor]] = field(init=False)
    queries: list[torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        total, shape = self.before + self.rows * self.new, self.shape
        order = torch.randperm(total, device=self.device)
        own = order[self.before :].view(self.rows, self.new)
        self.slots = torch.cat([order[: self.before].expand(self.rows, -1), own], 1)
        make = partial(torch.randn, device=self.device, dtype=shape.dtype)
        pool = (total, shape.num_kv_heads, shape.head_dim)
        self.pools = [(make(pool), make(pool)) for _ in range(POOLS)]
        query = (self.rows * self.new, shape.num_heads, shape.head_dim)
        self.queries = [make(query) for _ in range(POOLS)]

    @property
    def operations(self) -> float:
        pairs = self.rows * causal_pairs(self.new, self.before)
        return 4.0 * self.shape.num_heads * self.shape.head_dim * pairs

    def meta(self) -> AttentionMeta:
        shared = torch.full((self.rows,), self.before, dtype=torch.int32)
        shared[0] = 0
        return AttentionMeta(
            _indptr(self.rows, self.new),
            _indptr(self.rows, self.before + self.new),
            self.slots.reshape(-1),
            shared=shared,
        )

    def expected(self, row: int, number: int) -> torch.Tensor:
        """The last `number` new tokens of a row in the first layer, in float64."""
        shape, group = self.shape, self.shape.num_heads // self.shape.num_kv_heads
        k, v = (
            x[self.slots[row]].double().repeat_interleave(group, 1).transpose(0, 1)
            for x in self.pools[0]
        )
        end = (row + 1) * self.new
        q = self.queries[0][end - number : end].double().transpose(0, 1)
        hidden = torch.ones(number, k.shape[1], dtype=torch.bool, device=self.device)
        hidden = ~hidden.tril(k.shape[1] - number)
        scores = (q @ k.transpose(1, 2) * shape.scale).masked_fill(hidden, float("-inf"))
        return (scores.softmax(-1) @ v).transpose(0, 1)


def _indptr(rows: int, length: int) -> torch.Tensor:
    return torch.arange(rows + 1, dtype=torch.int32) * length


def prefill_cases(bench: KernelBench) -> Iterator[Case]:
    """Whole prompts, chunks behind a shared prefix, and short suffixes."""
    heads = (4, 2, 32) if bench.tiny else (32, 8, 128)
    shape = AttentionShape(*heads, heads[2] ** -0.5, bench.dtype)
    sizes = [(8, 1024, 2048), (4, 2048, 0), (64, 112, 1504), (16, 16, 4096)]
    for rows, new, before in bench.some([(2, 8, 16)] if bench.tiny else sizes):
        prompts = Prompts(rows, new, before, shape, bench.device)
        name = f"{rows} x {new} after {before} shared" if before else f"{rows} x {new}"
        case = Case(name, _floor_us(bench, prompts))
        case.ours = _ours(bench, prompts)
        if not bench.compile_only:
            _others(bench, prompts, case.others)
        yield case


def _floor_us(bench: KernelBench, prompts: Prompts) -> float:
    shape = prompts.shape
    keys = 2 * len(prompts.pools[0][0]) * shape.num_kv_heads
    queries = 2 * prompts.rows * prompts.new * shape.num_heads
    moved = (keys + queries) * shape.head_dim * shape.dtype.itemsize
    ceilings = bench.ceilings
    return 1e6 * max(ceilings.bytes_s(moved), ceilings.operations_s(prompts.operations))


def _ours(bench: KernelBench, prompts: Prompts) -> dict[str, Any]:
    attention = TritonAttention()
    plan = attention.plan(prompts.meta(), prompts.shape)
    number = min(16, prompts.new)
    row = prompts.rows - 1
    got = plan.run(prompts.queries[0], *prompts.pools[0])[-number:]
    works = [
        partial(plan.run, q, k, v) for q, (k, v) in zip(prompts.queries, prompts.pools, strict=True)
    ]
    us = bench.us(works)
    return {
        "us": round(us, 2),
        "tflop_s": round(prompts.operations / us / 1e6, 1),
        "error": round(relative_error(got, prompts.expected(row, number)), 6),
    }


def _others(bench: KernelBench, prompts: Prompts, into: dict[str, Any]) -> None:
    for backend in sorted(bench.flashinfer & {"fa2", "fa3"}):
        attempt(into, f"flashinfer {backend}", partial(_flashinfer, bench, prompts, backend))
    for name in ("flash", "cudnn"):
        attempt(into, f"torch {name}, contiguous", partial(_sdpa, bench, prompts, name))


def _flashinfer(bench: KernelBench, prompts: Prompts, backend: str) -> float:
    return bench.us(PagedPrefill(prompts, backend).works())


def _sdpa(bench: KernelBench, prompts: Prompts, name: str) -> float:
    """Keys and values copied together and to all query heads before."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    kind = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
    group = prompts.shape.num_heads // prompts.shape.num_kv_heads
    whole = prompts.before + prompts.new
    form = {"attn_mask": causal_lower_right(prompts.new, whole)}
    options: dict[str, Any] = form if prompts.before else {"is_causal": True}
    works = []
    for q, (k, v) in zip(prompts.queries[:2], prompts.pools[:2], strict=True):
        rows = q.view(prompts.rows, prompts.new, *q.shape[1:]).transpose(1, 2).contiguous()
        keys, values = (
            x[prompts.slots].transpose(1, 2).repeat_interleave(group, 1).contiguous()
            for x in (k, v)
        )
        attend = torch.nn.functional.scaled_dot_product_attention
        works.append(partial(attend, rows, keys, values, **options))
    with sdpa_kernel(kind):
        return bench.us(works)
