"""The one place where the version of every operation is chosen."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sgc_kernels.attention.rows import RowAttention
from sgc_kernels.attention.spec import AttentionBackend, AttentionShape
from sgc_kernels.linear import Linear
from sgc_kernels.moe import Experts
from sgc_kernels.step import StepTensors
from sgc_kernels.weights.grouped import PackedWeight

Table = tuple[torch.Tensor, torch.Tensor]

_ON_GPU = ("triton", "flashinfer")
ATTENTIONS = ("auto", "torch", *_ON_GPU)

_LOG = logging.getLogger("sgc")


@dataclass(frozen=True, slots=True)
class SingleKernels:
    """What steps of one token need besides; see `gpu.attention.single` and `gpu.gemv`."""

    attention: Callable[[AttentionShape, torch.device], Any]
    can_attend: Callable[[AttentionShape], bool]
    split_for: Callable[[int], Any | None]
    fused_linear: Callable[..., torch.Tensor]
    fused_gated_linear: Callable[..., torch.Tensor]
    fits: Callable[[int], bool]  # whether products take inputs of a width
    pdl: bool  # whether a kernel may start while the one before it is running


@dataclass(frozen=True, slots=True)
class RowKernels:
    """What steps over a slot table need besides; see `sgc_kernels.step`, `attention.rows`."""

    # By the model's shape, most rows of a step, device and window. None: the attention that was
    # asked for has no such form.
    attention: Callable[[AttentionShape, int, torch.device, int | None], RowAttention] | None
    prepare_step: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, StepTensors], None]
    fill_table: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], None]
    single: SingleKernels | None = None


@dataclass(frozen=True, slots=True)
class PreparedKernels:
    """Launches that are prepared once a step for all layers; see `gpu.norm`, `gpu.activation` and
    `gpu.rotary`. What they give is called with what differs by layer."""

    add_rms_norm: Callable[..., Callable[..., None]]
    silu_mul: Callable[..., Callable[..., None]]
    turn_and_store: Callable[..., Callable[..., None]]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The operations of a model, each in one version; signatures stand beside the references."""

    attention: AttentionBackend
    linear: Callable[[torch.Tensor, torch.Tensor | None], Linear]
    # Products with integer weights and a bias, which give float32 if that is asked for; None:
    # there are none here.
    grouped: Callable[[PackedWeight, torch.Tensor | None, bool], Linear] | None
    rms_norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
    add_rms_norm: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]
    rotary_table: Callable[[torch.Tensor, torch.Tensor, float, torch.dtype], Table]
    silu_mul: Callable[[torch.Tensor], torch.Tensor]
    moe: Callable[[torch.Tensor, Experts], torch.Tensor]
    turn_and_store: Callable[
        [torch.Tensor, Table, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor
    ]
    norm_turn_and_store: Callable[
        [torch.Tensor, Table, float, Table, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor
    ]
    rows: RowKernels
    prepared: PreparedKernels | None = None
    deterministic: bool = False


def select_kernels(
    device: torch.device,
    dtype: torch.dtype,
    head_dim: int = 0,
    group: int = 1,
    attention: str = "auto",
    deterministic: bool = False,
) -> Kernels:
    """The versions for weights and activations of `dtype` on `device`.

    Args:
        head_dim: size of a head; 0 where no model is meant: references only.
        group: query heads a key head.
        attention: one of `ATTENTIONS`; `auto`: the device's own, `torch`: the reference.
        deterministic: the result for a token depends on the tokens before it alone, bit by bit,
            not on what is computed together. With a model only.

    Raises:
        ValueError: there is no such attention for the device, or none that is deterministic.
        ImportError: the attention that was asked for is not installed.
    """
    if attention not in ATTENTIONS:
        raise ValueError(f"attention={attention!r}: give one of {', '.join(ATTENTIONS)}")
    if attention in _ON_GPU and device.type != "cuda":
        raise ValueError(f"attention={attention} needs a CUDA device, not {device}: give auto")
    kernels = _select_plain(device, dtype)
    if not head_dim:
        return kernels
    reference = kernels.attention
    if device.type == "cuda":
        kernels = _with_triton(kernels, device, dtype, attention)
    elif device.type == "cpu":
        kernels = _with_compiled(kernels, dtype, head_dim, group, deterministic)
    if attention == "torch":
        kernels = replace(kernels, attention=reference)
    if device.type == "cuda" and attention in ("torch", "flashinfer"):
        kernels = replace(kernels, rows=replace(kernels.rows, attention=None))
    return _with_invariant(kernels, device, attention) if deterministic else kernels


def _with_triton(
    plain: Kernels, device: torch.device, dtype: torch.dtype, attention: str
) -> Kernels:
    try:
        from sgc_kernels.gpu.activation import prepared_silu_mul, silu_mul
        from sgc_kernels.gpu.attention.decode import DecodeAttention
        from sgc_kernels.gpu.launcher import launch_directly
        from sgc_kernels.gpu.moe.run import moe
        from sgc_kernels.gpu.norm import add_rms_norm, prepared_add_rms_norm, rms_norm
        from sgc_kernels.gpu.rotary import norm_turn_and_store, turn_and_store
        from sgc_kernels.gpu.rotary import prepared_turn_and_store as prepared_turn
        from sgc_kernels.gpu.step import fill_table, prepare_step, rotary_table
    except ImportError as error:
        if attention in _ON_GPU:
            raise
        _LOG.warning("no Triton here (%s): attention and norms run in torch", error)
        # The reference of attention over rows reads numbers on the host, which no graph can hold.
        return replace(plain, rows=replace(plain.rows, attention=None))
    launch_directly(device)
    return replace(
        plain,
        attention=_attention_on_gpu(device, attention),
        moe=moe,
        rms_norm=rms_norm,
        add_rms_norm=add_rms_norm,
        rotary_table=rotary_table,
        silu_mul=silu_mul,
        turn_and_store=turn_and_store,
        norm_turn_and_store=norm_turn_and_store,
        rows=RowKernels(DecodeAttention, prepare_step, fill_table, _single(device, dtype)),
        prepared=PreparedKernels(prepared_add_rms_norm, prepared_silu_mul, prepared_turn),
    )


def _single(device: torch.device, dtype: torch.dtype) -> SingleKernels | None:
    if dtype == torch.float32:  # the reference: no norm is moved behind a sum there
        return None
    from sgc_kernels.gpu import gemv
    from sgc_kernels.gpu.attention import single
    from sgc_kernels.gpu.device import has_pdl

    return SingleKernels(
        attention=single.SingleAttention,
        can_attend=single.can_attend,
        split_for=single.split_for,
        fused_linear=gemv.fused_linear,
        fused_gated_linear=gemv.fused_gated_linear,
        fits=lambda width: gemv.fits(1, width),
        pdl=has_pdl(device),
    )


def _attention_on_gpu(device: torch.device, attention: str) -> AttentionBackend:
    if attention == "flashinfer":
        from sgc_kernels.gpu.attention.flashinfer import FlashInferAttention

        return FlashInferAttention(device)
    from sgc_kernels.gpu.attention.backend import TritonAttention

    return TritonAttention()


def _with_invariant(kernels: Kernels, device: torch.device, attention: str) -> Kernels:
    """Norms and the other small operations compute each row by itself anyway."""
    if attention not in ("auto", "triton"):
        raise ValueError(
            f"deterministic=True needs attention=auto, not {attention}: leave out one of them"
        )
    if device.type == "cuda":
        from sgc_kernels.gpu.attention.invariant import InvariantAttention, InvariantRows
        from sgc_kernels.gpu.invariant_linear import InvariantLinear
        from sgc_kernels.gpu.moe.run import invariant_moe

        return replace(
            kernels,
            attention=InvariantAttention(),
            linear=InvariantLinear,
            moe=invariant_moe,
            rows=replace(kernels.rows, attention=InvariantRows, single=None),
            deterministic=True,
        )
    return _with_invariant_on_cpu(kernels)


def _with_invariant_on_cpu(kernels: Kernels) -> Kernels:
    from sgc_kernels.attention.compiled import CompiledAttention
    from sgc_kernels.attention.invariant import InvariantAttention
    from sgc_kernels.linear import FixedRowsLinear
    from sgc_kernels.moe import invariant_moe

    if not isinstance(kernels.attention, CompiledAttention):
        raise ValueError(
            "deterministic=True needs kernels compiled for this CPU (x86-64 with AVX2, heads of a "
            "multiple of 32 up to 256): leave it out, or use a GPU"
        )
    linear = kernels.linear
    return replace(
        kernels,
        attention=InvariantAttention(),
        linear=lambda weight, bias: FixedRowsLinear(linear(weight, bias)),
        moe=invariant_moe,
        deterministic=True,
    )


def _with_compiled(
    plain: Kernels, dtype: torch.dtype, head_dim: int, group: int, deterministic: bool
) -> Kernels:
    from sgc_kernels.attention.compiled import CompiledAttention, can_attend
    from sgc_kernels.compiled.machine_code import load_machine_code
    from sgc_kernels.compiled.operations import CompiledOperations, InvariantOperations
    from sgc_kernels.compiled.target import host_target

    if not can_attend(dtype, head_dim, group):
        return plain
    try:
        code = load_machine_code(dtype, head_dim, group, host_target())
    except (ImportError, OSError, RuntimeError) as error:
        _LOG.warning("no compiled kernels here (%s): attention and norms run in torch", error)
        return plain
    operations = InvariantOperations(code) if deterministic else CompiledOperations(code)
    return replace(
        plain,
        attention=CompiledAttention(),
        rms_norm=operations.rms_norm,
        add_rms_norm=operations.add_rms_norm,
        silu_mul=operations.silu_mul,
        turn_and_store=operations.turn_and_store,
        norm_turn_and_store=operations.norm_turn_and_store,
    )


def _select_plain(device: torch.device, dtype: torch.dtype) -> Kernels:
    from sgc_kernels.activation import silu_mul
    from sgc_kernels.attention.rows import TorchRows
    from sgc_kernels.attention.torch_ref import TorchAttention
    from sgc_kernels.kv_store import norm_turn_and_store, turn_and_store
    from sgc_kernels.linear import PackedLinear, PlainLinear, can_pack
    from sgc_kernels.moe import moe
    from sgc_kernels.norm import add_rms_norm, rms_norm
    from sgc_kernels.rotary import rotary_table
    from sgc_kernels.step import fill_table, prepare_step
    from sgc_kernels.weights.grouped import GroupedLinear, can_group

    return Kernels(
        attention=TorchAttention(),
        linear=PackedLinear if can_pack(device, dtype) else PlainLinear,
        grouped=GroupedLinear if can_group(device, dtype) else None,
        rms_norm=rms_norm,
        add_rms_norm=add_rms_norm,
        rotary_table=rotary_table,
        silu_mul=silu_mul,
        moe=moe,
        turn_and_store=turn_and_store,
        norm_turn_and_store=norm_turn_and_store,
        rows=RowKernels(TorchRows, prepare_step, fill_table),
    )
