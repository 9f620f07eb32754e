"""The compiled operations under the signatures of their references in torch."""

from __future__ import annotations

import torch

from sgc_kernels.activation import silu_mul
from sgc_kernels.compiled.machine_code import MachineCode
from sgc_kernels.norm import add_rms_norm, rms_norm

# Rows up to which one thread of compiled code beats torch's calls.
_FEW_ROWS = 64

Table = tuple[torch.Tensor, torch.Tensor]


class CompiledOperations:
    """Norms, activation and rotary turn of a model. Where rows are many or a width does not
    divide into vectors, the references are used."""

    def __init__(self, code: MachineCode) -> None:
        self._norm, self._add_norm = code.call["norm"], code.call["add_norm"]
        self._silu_mul, self._turn_store = code.call["silu_mul"], code.call["turn_store"]

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """As `sgc_kernels.norm.rms_norm`."""
        if not _fits(x):
            return rms_norm(x, weight, eps)
        out, width = torch.empty_like(x), x.shape[-1]
        stride = width * x.element_size()
        self._norm(
            x.data_ptr(), stride, weight.data_ptr(), out.data_ptr(), x.numel() // width, width, eps
        )
        return out

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """As `sgc_kernels.norm.add_rms_norm`."""
        if not _fits(x) or not residual.is_contiguous():
            return add_rms_norm(x, residual, weight, eps)
        out, width = torch.empty_like(x), x.shape[-1]
        self._add_norm(
            x.data_ptr(),
            residual.data_ptr(),
            weight.data_ptr(),
            out.data_ptr(),
            x.numel() // width,
            width,
            eps,
        )
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """As `sgc_kernels.activation.silu_mul`."""
        rows, width = gate_up.shape[0], gate_up.shape[-1] // 2
        if not _fits(gate_up) or width % 16:
            return silu_mul(gate_up)
        out = gate_up.new_empty((rows, width))
        self._silu_mul(gate_up.data_ptr(), out.data_ptr(), rows, width)
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
        self._turn_store(
            qkv.data_ptr(),
            table[0].data_ptr(),
            table[1].data_ptr(),
            slots.data_ptr(),
            q.data_ptr(),
            k_cache.data_ptr(),
            v_cache.data_ptr(),
            tokens,
            q_heads,
            kv_heads,
        )
        return q


def _fits(x: torch.Tensor) -> bool:
    width = x.shape[-1]
    return width % 16 == 0 and x.numel() <= _FEW_ROWS * width and x.is_contiguous()
