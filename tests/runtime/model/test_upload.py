"""Tensors arrive as they are, whatever their number format, shape and the size of the blocks."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
import transformers
from support.model import SIZES, saved

from sgc_runtime.model.loader import load_model
from sgc_runtime.model.upload import Upload

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SHAPES = ([(7, 5)], [(3, 8), (1, 8), (130, 8)], [(11,), (2,)], [(2, 3, 4), (5, 3, 4)])


def check_stacked(device: torch.device) -> None:
    torch.manual_seed(0)
    upload = Upload(device, block_bytes=64)
    for shapes in SHAPES:
        for kept in DTYPES:
            sources = [torch.randn(shape).to(kept) for shape in shapes]
            # columns in another order than in memory, as after a transposition
            sources = [s.transpose(0, -1).contiguous().transpose(0, -1) for s in sources]
            for dtype in DTYPES:
                found = upload.stacked(sources, dtype)
                single = upload.tensor(sources[0], dtype)
                assert found.device.type == device.type
                assert torch.equal(found.cpu(), torch.cat(sources).to(dtype))
                assert torch.equal(single.cpu(), sources[0].to(dtype))


def test_stacked_on_the_cpu() -> None:
    check_stacked(torch.device("cpu"))


def test_a_tensor_that_is_right_already_is_not_copied() -> None:
    tensor = torch.randn(3, 4)
    assert Upload(torch.device("cpu")).tensor(tensor, torch.float32) is tensor


@pytest.mark.gpu
def test_stacked_on_a_gpu() -> None:
    check_stacked(torch.device("cuda", 0))


@pytest.mark.gpu
@pytest.mark.parametrize("tied", [False, True])
def test_a_model_on_a_gpu_is_loaded_without_holding_a_weight_twice(
    tied: bool, tmp_path: Path
) -> None:
    """The peak stays below the weights and one tensor."""
    sizes = {"hidden_size": 512, "intermediate_size": 2048, "vocab_size": 32_000}
    config = transformers.LlamaConfig(**{**SIZES, **sizes}, tie_word_embeddings=tied)
    model = transformers.LlamaForCausalLM(config)
    weights = 2 * sum(parameter.numel() for parameter in model.parameters())
    device = torch.device("cuda", 0)
    gc.collect()  # what earlier tests have left would go away in between
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    loaded = load_model(saved(model, tmp_path / "model"), "bfloat16", device)
    peak = torch.cuda.max_memory_allocated(device) - before
    kept = torch.cuda.memory_allocated(device) - before
    largest = 2 * 32_000 * 512
    assert loaded.model.device == device
    assert weights <= kept < weights + (4 << 20)  # with the allocator's rounding
    assert peak < kept + largest
