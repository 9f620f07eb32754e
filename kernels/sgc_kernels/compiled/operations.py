"""The compiled operations under the signatures of their references in torch."""

from __future__ import annotations

import ctypes
import functools
import struct

import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.compiled.job_block import JOB_WORDS
from sgc_kernels.compiled.machine_code import MachineCode
from sgc_kernels.kv_store import store_kv
from sgc_kernels.norm import add_rms_norm, rms_norm
from sgc_kernels.openmp import parallel_call
from sgc_kernels.rotary import apply_rotary

_ALONE = 16_384  # numbers below which a second thread costs more than it takes over
# Rows up to which one thread of compiled code beats torch's calls.
_FEW_ROWS = 64
_CHUNKS_A_THREAD = 4  # so that all end at about the same time

Table = tuple[torch.Tensor, torch.Tensor]
_Job = ctypes.c_int64 * JOB_WORDS


class CompiledOperations:
    """Norms, activation and rotary turn of a model. Where a width does not divide into vectors,
    and for many rows where threads cannot be shared with torch, the references are used.

    A row's result does not depend on the other rows.
    """

    def __init__(self, code: MachineCode) -> None:
        self._code = code
        self._parallel = parallel_call()

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """As `sgc_kernels.norm.rms_norm`."""
        if not self._fits(x):
            return rms_norm(x, weight, eps)
        out, width = torch.empty_like(x), x.shape[-1]
        self._run(
            "norm",
            x.numel() // width,
            width,
            x.data_ptr(),
            out.data_ptr(),
            width * x.element_size(),
            0,
            weight.data_ptr(),
            _bits(eps),
        )
        return out

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """As `sgc_kernels.norm.add_rms_norm`."""
        if not self._fits(x) or not residual.is_contiguous():
            return add_rms_norm(x, residual, weight, eps)
        out, width = torch.empty_like(x), x.shape[-1]
        self._run(
            "add_norm",
            x.numel() // width,
            width,
            x.data_ptr(),
            out.data_ptr(),
            0,
            residual.data_ptr(),
            weight.data_ptr(),
            _bits(eps),
        )
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """As `sgc_kernels.activation.silu_mul`."""
        rows, width = gate_up.shape[0], gate_up.shape[-1] // 2
        if not self._fits(gate_up) or width % 16:
            return silu_mul(gate_up)
        out = gate_up.new_empty((rows, width))
        self._run("silu_mul", rows, width, gate_up.data_ptr(), out.data_ptr())
        return out

    def turn_and_store(
        self,
        qkv: torch.Tensor,
        table: Table,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> torch.Tensor:
        """As `sgc_kernels.kv_store.turn_and_store`."""
        qkv = qkv.contiguous()
        tokens, heads, head_dim = qkv.shape
        kv_heads = k_cache.shape[1]
        q_heads = heads - 2 * kv_heads
        q = qkv.new_empty((tokens, q_heads, head_dim))
        self._run(
            "turn_store",
            tokens,
            heads * head_dim,
            qkv.data_ptr(),
            q.data_ptr(),
            *(0, 0, 0, 0),
            table[0].data_ptr(),
            table[1].data_ptr(),
            slots.data_ptr(),
            k_cache.data_ptr(),
            v_cache.data_ptr(),
            q_heads,
            kv_heads,
        )
        return q

    def norm_turn_and_store(
        self,
        qkv: torch.Tensor,
        norms: tuple[torch.Tensor, torch.Tensor],
        eps: float,
        table: Table,
        k_cache: torch.Tensor,
        v_cache: torch.Tensor,
        slots: torch.Tensor,
    ) -> torch.Tensor:
        """As `sgc_kernels.kv_store.norm_turn_and_store`."""
        kv_heads = k_cache.shape[1]
        q = self.rms_norm(qkv[:, : -2 * kv_heads], norms[0], eps)
        k = self.rms_norm(qkv[:, -2 * kv_heads : -kv_heads], norms[1], eps)
        store_kv(apply_rotary(k, table), qkv[:, -kv_heads:], k_cache, v_cache, slots)
        return apply_rotary(q, table)

    def _run(self, name: str, rows: int, width: int, *fields: int) -> None:
        """Call a kernel with a `job_block` whose fields behind the width are `fields`."""
        threads = torch.get_num_threads() if rows * width >= _ALONE else 1
        if threads == 1 or self._parallel is None:
            job = _Job(0, rows, max(1, rows), width, *fields)
            self._code.call[name](ctypes.addressof(job))
            return
        job = _Job(0, rows, -(-rows // (threads * _CHUNKS_A_THREAD)), width, *fields)
        self._parallel(self._code.address[name], ctypes.addressof(job), threads, 0)

    def _fits(self, x: torch.Tensor) -> bool:
        width = x.shape[-1]
        few = self._parallel is not None or x.numel() <= _FEW_ROWS * width
        return width % 16 == 0 and few and x.is_contiguous()


class InvariantOperations(CompiledOperations):
    """The same, with one version of each for any number of rows."""

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        return super().rms_norm(x.contiguous(), weight, eps)

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        return super().silu_mul(gate_up.contiguous())

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        assert residual.is_contiguous(), "the residual lies in one piece"
        return super().add_rms_norm(x.contiguous(), residual, weight, eps)

    def _fits(self, x: torch.Tensor) -> bool:
        return x.shape[-1] % 16 == 0


@functools.lru_cache
def _bits(value: float) -> int:
    """A float32's bits."""
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
