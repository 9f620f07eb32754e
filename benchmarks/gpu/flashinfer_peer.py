"""flashinfer's kernels on the cases of `gpu_kernels`, pages of 16 tokens as its users have them.

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


class FlatDecode:
    """Each row reads its whole context.

    Args:
        tensor_cores: the form that is faster where several query heads share a key head.
    """

    def __init__(self, batch: Batch, tensor_cores: bool) -> None:
        shape, device = batch.shape, batch.device
        self._batch = batch
        counts = [-(-n // PAGE) for n in batch.lens]
        self._pages = sum(counts)
        order = torch.randperm(self._pages, dtype=torch.int32)
        lasts = [n - PAGE * (count - 1) for n, count in zip(batch.lens, counts, strict=True)]
        self._wrapper = _flashinfer().BatchDecodeWithPagedKVCacheWrapper(
            _workspace(device), "NHD", use_tensor_cores=tensor_cores
        )
        self._wrapper.plan(
            _indptr(counts, device),
            order.to(device),
            _ints(lasts, device),
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            PAGE,
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
        self._batch = batch
        shared = batch.tree.levels[0][1]
        counts = [[-(-shared // PAGE)], [-(-n // PAGE) for n in batch.tree.own]]
        lengths = [[shared], list(batch.tree.own)]
        self._pages = sum(map(sum, counts))
        order = torch.randperm(self._pages, dtype=torch.int32).to(device)
        lasts = [
            _ints([n - PAGE * (c - 1) for n, c in zip(ns, cs, strict=True)], device)
            for ns, cs in zip(lengths, counts, strict=True)
        ]
        self._wrapper = _flashinfer().MultiLevelCascadeAttentionWrapper(
            2, _workspace(device), "NHD"
        )
        self._wrapper.plan(
            [_ints([0, rows], device), _ints(list(range(rows + 1)), device)],
            [_indptr(cs, device) for cs in counts],
            list(torch.split(order, [sum(cs) for cs in counts])),
            lasts,
            shape.num_heads,
            shape.num_kv_heads,
            shape.head_dim,
            PAGE,
            causal=False,
            q_data_type=shape.dtype,
            kv_data_type=shape.dtype,
        )

    def works(self) -> list[Work]:
        """A call for each layer."""
        return _decode_works(self._wrapper, self._batch, self._pages)


def _decode_works(wrapper: Any, batch: Batch, num_pages: int) -> list[Work]:
    pools = [_pages(num_pages, batch.shape, batch.device) for _ in batch.queries]
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
        pools = [_pages(self._pages, prompts.shape, prompts.device) for _ in prompts.queries]
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
    """Build a module by a small call of what needs it."""
    from benchmarks.gpu.kernels_decode import Batch, Tree
    from benchmarks.gpu.kernels_prefill import Prompts
    from sgc_kernels.attention.spec import AttentionShape

    device = torch.device("cuda")
    shape = AttentionShape(32, 8, 128, 128**-0.5, torch.bfloat16)
    tree = Tree((32,) * 2, ((2, 32),))
    works: dict[str, Callable[[], Any]] = {
        "decode": lambda: FlatDecode(Batch(tree, shape, device), False).works()[0](),
        "fa2": lambda: PagedPrefill(Prompts(1, 32, 32, shape, device), "fa2").works()[0](),
        "fa3": lambda: PagedPrefill(Prompts(1, 32, 32, shape, device), "fa3").works()[0](),
        "sampling": lambda: sample_top(torch.full((2, 64), 1 / 64, device=device), 8, 0.9),
        "cascade": lambda: _merge(device),
    }
    works[name]()
    torch.cuda.synchronize()


def _merge(device: torch.device) -> None:
    values = torch.zeros(2, 32, 128, dtype=torch.bfloat16, device=device)
    sums = torch.zeros(2, 32, device=device)
    _flashinfer().merge_state(values, sums, values, sums)


def _flashinfer() -> Any:
    return import_module("flashinfer")


def _workspace(device: torch.device) -> torch.Tensor:
    return torch.zeros(_WORKSPACE, dtype=torch.uint8, device=device)


def _ints(numbers: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


def _indptr(counts: list[int], device: torch.device) -> torch.Tensor:
    return torch.tensor([0, *counts], device=device).cumsum(0).to(torch.int32)


def _pages(number: int, shape: Any, device: torch.device) -> torch.Tensor:
    size = (number, 2, PAGE, shape.num_kv_heads, shape.head_dim)
    return torch.randn(size, device=device, dtype=shape.dtype)


def main() -> None:
    for name in sys.argv[1:]:
        begin = time.perf_counter()
        build(name)
        print(f"built {name} in {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
