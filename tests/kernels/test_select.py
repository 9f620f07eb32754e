"""Which version of an operation is chosen for a device."""

from __future__ import annotations

import importlib.util
import sys

import pytest
import torch

from sgc_kernels import activation, kv_store, norm
from sgc_kernels.linear import PlainLinear
from sgc_kernels.select import ATTENTIONS, select_kernels

CPU, CUDA = torch.device("cpu"), torch.device("cuda")  # its kernels are chosen without one


def test_without_a_model_all_are_references() -> None:
    for device in (CPU, CUDA):
        kernels = select_kernels(device, torch.float32)
        assert kernels.attention.name == "torch"
        assert kernels.rms_norm is norm.rms_norm
        assert kernels.silu_mul is activation.silu_mul
        assert kernels.norm_turn_and_store is kv_store.norm_turn_and_store


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_a_gpu_has_kernels_in_triton_and_products_in_torch() -> None:
    kernels = select_kernels(CUDA, torch.bfloat16, head_dim=64, group=3)
    assert kernels.attention.name == "triton"
    assert kernels.linear is PlainLinear
    assert kernels.grouped is None
    chosen = (
        kernels.rms_norm,
        kernels.add_rms_norm,
        kernels.silu_mul,
        kernels.turn_and_store,
        kernels.norm_turn_and_store,
    )
    assert {kernel.__module__.split(".")[1] for kernel in chosen} == {"gpu"}
    torch_attention = select_kernels(CUDA, torch.bfloat16, 64, 3, "torch")
    assert torch_attention.attention.name == "torch"
    assert torch_attention.rms_norm is kernels.rms_norm


def test_a_gpu_without_triton_has_references_and_no_rows_to_record(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sgc_kernels.gpu.activation", None)
    with caplog.at_level("WARNING", "sgc"):
        kernels = select_kernels(CUDA, torch.bfloat16, 64, 3)
    assert "no Triton here" in caplog.text
    assert (kernels.attention.name, kernels.rows.attention) == ("torch", None)
    with pytest.raises(ImportError):
        select_kernels(CUDA, torch.bfloat16, 64, 3, "triton")


def test_the_reference_of_attention_can_be_had_on_a_cpu() -> None:
    assert select_kernels(CPU, torch.float32, 64, 1, "torch").attention.name == "torch"


@pytest.mark.parametrize("attention", [a for a in ATTENTIONS if a not in ("auto", "torch")])
def test_attention_that_a_cpu_does_not_have_is_an_error(attention: str) -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        select_kernels(CPU, torch.float32, 64, 1, attention)


def test_an_unknown_attention_is_an_error() -> None:
    with pytest.raises(ValueError, match="auto, torch, triton, flashinfer"):
        select_kernels(CPU, torch.float32, 64, 1, "flash")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_deterministic_kernels_of_a_gpu() -> None:
    kernels = select_kernels(CUDA, torch.float32, 64, 3, deterministic=True)
    assert kernels.attention.name == "invariant"
    assert kernels.linear.__name__ == "InvariantLinear"
    assert kernels.moe.__name__ == "invariant_moe"
    assert kernels.rows.attention.__name__ == "InvariantRows"
    assert kernels.rows.single is None


def test_attention_that_is_not_deterministic_is_an_error() -> None:
    with pytest.raises(ValueError, match="deterministic=True needs attention=auto, not torch"):
        select_kernels(CPU, torch.float32, 64, 1, "torch", deterministic=True)
