"""Decode attention: the product's kernels with its own plans, beside flashinfer's and torch's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.flashinfer_peer import FlatDecode, LevelsDecode
from benchmarks.gpu.kernel_bench import POOLS, Case, KernelBench, attempt, relative_error
from sgc_kernels.attention.spec import AttentionShape
from sgc_kernels.gpu.attention.decode import DecodeAttention
from sgc_kernels.gpu.attention.shared import neighbour_lcp

GOALS = {"A": 2.0}  # times the floor of unique bytes
_ROOM = 16  # tokens that rows may grow while the plan holds
_CHECKED = 5  # rows that are compared with float64


@dataclass(frozen=True, slots=True)
class Tree:
    """A batch: for each level how many rows share how many tokens; then each row's own tokens."""

    own: tuple[int, ...]
    levels: tuple[tuple[int, int], ...] = ()  # (rows a node, tokens), from the root on

    @property
    def rows(self) -> int:
        return len(self.own)

    @property
    def unique(self) -> int:
        """Distinct tokens."""
        return sum(self.own) + sum(-(-self.rows // some) * n for some, n in self.levels)


def trees(tiny: bool) -> dict[str, Tree]:
    """The cases of the kernel study, and small batches."""
    if tiny:
        return {"A": Tree((20,) * 4, ((4, 40),))}
    mixed = random.Random(0)
    return {
        "A: 256 rows, 1504 shared + 112": Tree((112,) * 256, ((256, 1504),)),
        "B: 256 rows, 1504 + 256 per 32 + 64": Tree((64,) * 256, ((256, 1504), (32, 256))),
        "C: 64 rows x 2048": Tree((2048,) * 64),
        "D: 256 rows, 512 per 16 + 128 per 4 + 48": Tree((48,) * 256, ((16, 512), (4, 128))),
        "E: 128 rows, 3000 shared + 200..454": Tree(
            tuple(mixed.randint(200, 454) for _ in range(128)), ((128, 3000),)
        ),
        "16 rows, 1504 shared + 112": Tree((112,) * 16, ((16, 1504),)),
        "1 row x 2048": Tree((2048,)),
        "8 rows x 2048": Tree((2048,) * 8),
    }


@dataclass(slots=True)
class Batch:
    """Tensors of a step, several layers of them; slots lie anywhere in the pool."""

    tree: Tree
    shape: AttentionShape
    device: torch.device
    contexts: list[torch.Tensor] = field(init=False)  # slots of each row, room included
    nodes: list[list[torch.Tensor]] = field(init=False)  # slots of each node, level by level
    pools: list[tuple[torch.Tensor, torch.Tensor]] = field(init=False)
    queries: list[torch.Tensor] = field(init=False)

    def __post_init__(self) -> None:
        tree, shape = self.tree, self.shape
        total = tree.unique + _ROOM * tree.rows
        order = torch.randperm(total, generator=torch.Generator().manual_seed(1)).to(torch.int32)
        lengths = [[n] * -(-tree.rows // some) for some, n in tree.levels]
        lengths.append([own + _ROOM for own in tree.own])
        parts = iter(torch.split(order, [n for level in lengths for n in level]))
        self.nodes = [[next(parts) for _ in level] for level in lengths]
        sizes = [*(some for some, _ in tree.levels), 1]
        self.contexts = [
            torch.cat([level[b // some] for level, some in zip(self.nodes, sizes, strict=True)])
            for b in range(tree.rows)
        ]
        pool = (total, shape.num_kv_heads, shape.head_dim)
        query = (tree.rows, shape.num_heads, shape.head_dim)
        make = partial(torch.randn, device=self.device, dtype=shape.dtype)
        self.pools = [(make(pool), make(pool)) for _ in range(POOLS)]
        self.queries = [make(query) for _ in range(POOLS)]

    @property
    def lens(self) -> list[int]:
        return [len(context) - _ROOM for context in self.contexts]

    def expected(self, row: int) -> torch.Tensor:
        """A row of the first layer in float64."""
        shape = self.shape
        k, v = (
            x[self.contexts[row][: self.lens[row]].long().to(self.device)].double()
            for x in self.pools[0]
        )
        group = shape.num_heads // shape.num_kv_heads
        q = self.queries[0][row].double().view(shape.num_kv_heads, group, -1)
        weights = (torch.einsum("hgd,thd->hgt", q, k) * shape.scale).softmax(-1)
        return torch.einsum("hgt,thd->hgd", weights, v).reshape(shape.num_heads, -1)


def decode_cases(bench: KernelBench) -> Iterator[Case]:
    """Each tree, one after another."""
    heads = (4, 2, 32) if bench.tiny else (32, 8, 128)
    shape = AttentionShape(*heads, heads[2] ** -0.5, bench.dtype)
    for name, tree in bench.some(trees(bench.tiny).items()):
        batch = Batch(tree, shape, bench.device)
        case = Case(name, 1e6 * bench.ceilings.bytes_s(_bytes(tree, shape)))
        case.ours = _ours(bench, batch)
        goal = GOALS.get(name[0])
        if goal is not None and not bench.compile_only:
            case.ours |= {"goal": goal, "met": case.ours["us"] <= goal * case.floor_us}
        if not bench.compile_only:
            _others(bench, batch, case.others)
        yield case


def _bytes(tree: Tree, shape: AttentionShape) -> int:
    numbers = 2 * tree.unique * shape.num_kv_heads + 2 * tree.rows * shape.num_heads
    return numbers * shape.head_dim * shape.dtype.itemsize


def _ours(bench: KernelBench, batch: Batch) -> dict[str, Any]:
    lens = np.array(batch.lens, np.int32)
    ends = np.cumsum([len(context) for context in batch.contexts])
    starts_host = np.concatenate([[0], ends[:-1]])
    slots_host = torch.cat(batch.contexts).numpy()
    attention = DecodeAttention(batch.shape, batch.tree.rows, bench.device)
    lcp = neighbour_lcp(slots_host, starts_host, lens)
    plan = attention.plan(lcp, lens, _ROOM)
    attention.load(plan)
    slots, starts, lengths = (
        torch.from_numpy(x).to(bench.device) for x in (slots_host, starts_host, lens)
    )
    out = torch.full_like(batch.queries[0], float("nan"))
    works = [
        partial(attention.run, q, k, v, slots, starts, lengths, out)
        for q, (k, v) in zip(batch.queries, batch.pools, strict=True)
    ]
    works[0]()
    checked = sorted({round(i * (batch.tree.rows - 1) / _CHECKED) for i in range(_CHECKED + 1)})
    error = max(relative_error(out[row], batch.expected(row)) for row in checked)
    return {
        "us": round(bench.us(works), 2),
        "error": round(error, 6),
        "plan_host_us": round(bench.host_us(lambda: attention.plan(lcp, lens, _ROOM)), 1),
        "launch": str(plan.launch),
    }


def _others(bench: KernelBench, batch: Batch, into: dict[str, Any]) -> None:
    if "fa2" in bench.flashinfer:
        attempt(into, "flashinfer fa2", lambda: bench.us(FlatDecode(batch, True).works()))
    if "decode" in bench.flashinfer:
        attempt(into, "flashinfer cuda cores", lambda: bench.us(FlatDecode(batch, False).works()))
    if {"fa2", "cascade"} <= bench.flashinfer and len(batch.tree.levels) == 1:
        attempt(into, "flashinfer cascade", lambda: bench.us(LevelsDecode(batch).works()))
    if len(set(batch.lens)) == 1:
        for name in ("flash", "cudnn"):
            attempt(into, f"torch {name}, contiguous", partial(_sdpa, bench, batch, name))


def _sdpa(bench: KernelBench, batch: Batch, name: str) -> float:
    """Keys and values copied together before: torch has no paged attention."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kind = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name]
    index = torch.stack([c[:n] for c, n in zip(batch.contexts, batch.lens, strict=True)])
    index = index.long().to(bench.device)
    works = []
    for q, (k, v) in zip(batch.queries[:2], batch.pools[:2], strict=True):
        keys, values = (x[index].transpose(1, 2).contiguous() for x in (k, v))
        attend = partial(torch.nn.functional.scaled_dot_product_attention, enable_gqa=True)
        works.append(partial(attend, q[:, :, None], keys, values))
    with sdpa_kernel(kind):
        return bench.us(works)
