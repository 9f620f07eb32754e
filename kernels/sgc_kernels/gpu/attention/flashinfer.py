"""Attention by flashinfer's paged kernels, an alternative to Triton's; imported on demand."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch

from sgc_kernels.attention.spec import AttentionMeta, AttentionPlan, AttentionShape
from sgc_kernels.gpu.attention.tables import upload_tables

_HEAD_DIMS = (64, 128, 256)
_DTYPES = (torch.float16, torch.bfloat16)
_WORKSPACE_BYTES = 256 << 20  # for results of split contexts; flashinfer's advice is 128 MB or more
_TURNS = 2  # plans whose host memory may be on its way to the device at a time


def load_flashinfer() -> ModuleType:
    """The package.

    Raises:
        ImportError: it is not installed, or does not fit this machine.
    """
    try:
        return importlib.import_module("flashinfer")
    except (ImportError, OSError, RuntimeError) as error:
        raise ImportError(
            f"attention by flashinfer cannot be loaded ({error}): install flashinfer-python, which "
            "is part of sgc[gpu], or choose the attention triton",
            name="flashinfer",
        ) from error


class FlashInferAttention:
    """The backend for one device. A plan is void once the next but one is made.

    Kernels are compiled at their first use, which takes a minute or more; flashinfer keeps them
    in its own cache directory.

    Raises:
        ImportError: flashinfer is not there.
    """

    name = "flashinfer"

    def __init__(self, device: torch.device) -> None:
        self._flashinfer = load_flashinfer()
        self._workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
        self._wrappers: dict[tuple[Any, ...], Any] = {}
        self._turn = 0

    def plan(self, meta: AttentionMeta, shape: AttentionShape) -> AttentionPlan:
        """See `AttentionBackend`.

        Raises:
            ValueError: flashinfer has no kernels for the number format or head size.
        """
        _check(shape)
        self._turn = (self._turn + 1) % _TURNS
        return _FlashInferPlan(self, self._turn, _batch(meta), shape)

    def wrapper(self, turn: int, decode: bool, group: int, window: int | None) -> Any:
        """The planner and launcher of flashinfer for these layers, made once."""
        key = (turn, decode, group, window)
        if key not in self._wrappers:
            if decode:
                # Its kernels without matrix units were slower with 4 query heads a key head (201
                # against 133 us at 64 rows of 2,048 tokens on an H200).
                made = self._flashinfer.BatchDecodeWithPagedKVCacheWrapper(
                    self._workspace, "NHD", use_tensor_cores=group > 1
                )
            else:
                made = self._flashinfer.BatchPrefillWithPagedKVCacheWrapper(self._workspace, "NHD")
            self._wrappers[key] = made
        return self._wrappers[key]


@dataclass(frozen=True, slots=True)
class _Batch:
    """The sequences of a step that have queries, their slots without gaps."""

    qo_indptr: torch.Tensor  # [B+1] int32, CPU
    kv_indptr: torch.Tensor  # [B+1] int32, CPU
    slots: torch.Tensor  # int32, device
    decode: bool  # each has one query


class _FlashInferPlan:
    def __init__(
        self, backend: FlashInferAttention, turn: int, batch: _Batch, shape: AttentionShape
    ) -> None:
        self._backend = backend
        self._turn = turn
        self._batch = batch
        self._shape = shape
        self._planned: dict[int | None, Any] = {}

    def run(
        self,
        q: torch.Tensor,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        window: int | None = None,
    ) -> torch.Tensor:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        if not q.shape[0]:
            return out
        if window not in self._planned:
            self._planned[window] = self._plan(window)
        # A slot is a page of one token.
        pages = k_cache.unsqueeze(1), v_cache.unsqueeze(1)
        self._planned[window].run(q.contiguous(), pages, out=out)
        return out

    def _plan(self, window: int | None) -> Any:
        batch, shape = self._batch, self._shape
        group = shape.num_heads // shape.num_kv_heads
        wrapper = self._backend.wrapper(self._turn, batch.decode, group, window)
        last_page = torch.ones(len(batch.kv_indptr) - 1, dtype=torch.int32)
        sizes = (shape.num_heads, shape.num_kv_heads, shape.head_dim, 1)
        options = {
            "window_left": -1 if window is None else window - 1,
            "q_data_type": shape.dtype,
            "kv_data_type": shape.kept,
            "sm_scale": shape.scale,
        }
        if batch.decode:
            wrapper.plan(batch.kv_indptr, batch.slots, last_page, *sizes, **options)
        else:
            indptrs = batch.qo_indptr, batch.kv_indptr
            wrapper.plan(*indptrs, batch.slots, last_page, *sizes, causal=True, **options)
        return wrapper


def _check(shape: AttentionShape) -> None:
    if shape.dtype not in _DTYPES:
        raise ValueError(
            f"flashinfer has no attention in {shape.dtype}: load the model in bfloat16 or float16, "
            "or choose the attention triton"
        )
    if shape.head_dim not in _HEAD_DIMS:
        raise ValueError(
            f"flashinfer has no attention for heads of {shape.head_dim} numbers, only of "
            f"{', '.join(map(str, _HEAD_DIMS))}: choose the attention triton"
        )


def _batch(meta: AttentionMeta) -> _Batch:
    qo, kv = meta.qo_indptr.numpy(), meta.kv_indptr.numpy()
    queries, length = np.diff(qo), meta.ends.numpy() - kv[:-1]
    some = np.flatnonzero(queries > 0)
    queries, starts, length = queries[some], kv[:-1][some], length[some]
    slots = _packed(meta.kv_slots, starts, length)
    return _Batch(_indptr(queries), _indptr(length), slots, bool((queries == 1).all()))


def _packed(slots: torch.Tensor, starts: Any, length: Any) -> torch.Tensor:
    """The slots of all sequences without gaps, int32. Those that have some are closed up on the
    device, which gets two numbers a sequence; nobody waits."""
    before = np.cumsum(length) - length
    total = int(length.sum())
    if np.array_equal(starts, before):
        return slots[:total].int()
    shift, repeats = upload_tables([starts - before, length], slots.device)
    places = torch.repeat_interleave(shift, repeats, output_size=total)
    places += torch.arange(total, dtype=torch.int32, device=slots.device)
    return slots.index_select(0, places).int()


def _indptr(lengths: Any) -> torch.Tensor:
    indptr = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=indptr[1:])
    return torch.from_numpy(indptr)
