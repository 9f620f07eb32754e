"""flashinfer's kernels on the cases of `gpu_kernels`, on pages of 16 tokens where that can be.

    python -m benchmarks.gpu.flashinfer_peer fa2 sampling ...

builds those of its modules, which takes minutes the first time; each prints a line when it is done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.gpu.clock import Work

if TYPE_CHECKING:
    from benchmarks.gpu.kernels_decode import Batch
    from benchmarks.gpu.kernels_prefill import Prompts

PAGE = 16
_WORKSPACE = 256 << 20  # bytes; flashinfer's advice is 128 MB or more


class Pages:
    """A batch's contexts as pages: of 16 tokens where all its spans are whole pages, else of one.

    Attributes:
        size: tokens of a page.
        nodes: pages of each node, level by level; rows that share a node share its pages.
        rows: pages of each row.
    """

    def __init__(self, batch: Batch) -> None:
        tree = batch.tree
        spans = [*(n for _, n in tree.levels), *tree.own]
        self.size = PAGE if all(n % PAGE == 0 for n in spans) else 1
        lengths = [[n] * -(-tree.rows // some) for some, n in tree.levels]
        lengths.append(list(tree.own))
        counts = [n // self.size for level in lengths for n in level]
        self.number = sum(counts)
        parts = iter(torch.split(torch.randperm(self.number, dtype=torch.int32), counts))
        self.nodes = [[next(parts) for _ in level] for level in lengths]
        sizes = [*(some for some, _ in tree.levels), 1]
        self.rows = [
            torch.cat([level[b // some] for level, some in zip(self.nodes, sizes, strict=True)])
            for b in range(tree.rows)
        ]


class FlatDecode:
    """Each row reads its whole context.

    Args:
        tensor_cores: the form that is faster where several query heads share a key head.
    """

    def __init__(self, batch: Batch, tensor_cores: bool) -> None:
        shape, device = batch.shape, batch.device
        self._batch, self._pages = batch, Pages(batch)
        self._wrapper = _flashinfer().BatchDecodeWithPagedKVCacheWrapper(
            _workspace(device), "NHD", use_tensor_cores=tensor_cores
        )
        self._wrapper.plan(
            _indptr([len(pages) for pages in self._pages.rows], device),
            torch.cat(self._pages.rows).to(device),
            _ints([self._pages.size] * batch.tree.rows, device),
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            self._pages.size,
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
        )

    def works(self) -> list[Work]:
        """A call for each layer."""
        return _decode_works(self._wrapper, self._batch, self._pages)


class LevelsDecode:
    """One shared prefix by its wrapper for several levels."""

    def __init__(self, batch: Batch) -> None:
        shape, device, rows = batch.shape, batch.device, batch.tree.rows
        self._batch, self._pages = batch, Pages(batch)
        size, levels = self._pages.size, self._pages.nodes
        self._wrapper = _flashinfer().MultiLevelCascadeAttentionWrapper(
            2, _workspace(device), "NHD"
        )
        self._wrapper.plan(
            [_ints([0, rows], device), _ints(list(range(rows + 1)), device)],
            [_indptr([len(pages) for pages in level], device) for level in levels],
            [torch.cat(level).to(device) for level in levels],
            [_ints([size] * len(level), device) for level in levels],
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            size,
            causal=False,
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
        )

    def works(self) -> list[Work]:
        """A call for each layer."""
        return _decode_works(self._wrapper, self._batch, self._pages)


def _decode_works(wrapper: Any, batch: Batch, pages: Pages) -> list[Work]:
    pools = [_pool(pages.number, pages.size, batch.shape, batch.device) for _ in batch.queries]
    return [partial(wrapper.run, q, pool) for q, pool in zip(batch.queries, pools, strict=True)]


class PagedPrefill:
    """New tokens behind cached ones; `backend` is `fa2` or `fa3`."""

    def __init__(self, prompts: Prompts, backend: str) -> None:
        shape, device = prompts.shape, prompts.device
        self._prompts = prompts
        rows, new, before = prompts.rows, prompts.new, prompts.before
        assert new % PAGE == before % PAGE == 0, "whole pages"
        shared, own = before // PAGE, new // PAGE
        self._pages = shared + rows * own
        order = torch.randperm(self._pages, dtype=torch.int32)
        own_pages = order[shared:].view(rows, own)
        index = torch.cat([torch.cat([order[:shared], own_pages[b]]) for b in range(rows)])
        self._wrapper = _flashinfer().BatchPrefillWithPagedKVCacheWrapper(
            _workspace(device), "NHD", backend=backend
        )
        self._wrapper.plan(
            _indptr([new] * rows, device),
            _indptr([shared + own] * rows, device),
            index.to(device),
            _ints([PAGE] * rows, device),
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            PAGE,
            causal=True,
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
        )

    def works(self) -> list[Work]:
        """A call for each layer."""
        prompts = self._prompts
        pools = [_pool(self._pages, PAGE, prompts.shape, prompts.device) for _ in prompts.queries]
        return [
            partial(self._wrapper.run, q, pool)
            for q, pool in zip(prompts.queries, pools, strict=True)
        ]


def sample_top(probabilities: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Draw by top-k and top-p from ready probabilities."""
    drawn: torch.Tensor = _flashinfer().sampling.top_k_top_p_sampling_from_probs(
        probabilities, top_k, top_p
    )
    return drawn


def sample_logits(logits: torch.Tensor) -> torch.Tensor:
    """Draw without filters."""
    drawn: torch.Tensor = _flashinfer().sampling.sampling_from_logits(logits)
    return drawn


def build(name: str) -> None:
    """Build a module by a small call of all that needs it."""
    from benchmarks.gpu.kernels_decode import Batch, Tree
    from benchmarks.gpu.kernels_prefill import Prompts
    from sgc_kernels.attention.spec import AttentionShape

    device = torch.device("cuda")
    shape = AttentionShape(32, 8, 128, 128**-0.5, torch.bfloat16)
    tree = Tree((32,) * 2, ((2, 32),))
    works: dict[str, Callable[[], Any]] = {
        "decode": lambda: FlatDecode(Batch(tree, shape, device), False).works()[0](),
        "fa2": lambda: (
            PagedPrefill(Prompts(1, 32, 32, shape, device), "fa2").works()[0](),
            FlatDecode(Batch(tree, shape, device), True).works()[0](),
        ),
        "fa3": lambda: PagedPrefill(Prompts(1, 32, 32, shape, device), "fa3").works()[0](),
        "sampling": lambda: sample_top(torch.full((2, 64), 1 / 64, device=device), 8, 0.9),
        "cascade": lambda: LevelsDecode(Batch(tree, shape, device)).works()[0](),
        "norm": lambda: _norm(device),
    }
    works[name]()
    torch.cuda.synchronize()


def _norm(device: torch.device) -> None:
    """SGLang's norms are flashinfer's."""
    x, residual = torch.ones(2, 2, 4096, dtype=torch.bfloat16, device=device)
    norm: Any = import_module("flashinfer.norm")
    norm.fused_add_rmsnorm(x, residual, torch.ones_like(x[0]), 1e-5)
    norm.rmsnorm(x, torch.ones_like(x[0]))


def _flashinfer() -> Any:
    return import_module("flashinfer")


def _workspace(device: torch.device) -> torch.Tensor:
    return torch.zeros(_WORKSPACE, dtype=torch.uint8, device=device)


def _ints(numbers: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def _indptr(counts: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor([0, *counts], device=device).cumsum(0).to(torch.int32)


def _pool(number: int, page: int, shape: Any, device: torch.device) -> torch.Tensor:
    size = (number, 2, page, shape.num_kv_heads, shape.head_dim)
    return torch.randn(size, device=device, dtype=shape.dtype)


def main() -> None:
    for name in sys.argv[1:]:
        begin = time.perf_counter()
        build(name)
        print(f"built {name} in {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
