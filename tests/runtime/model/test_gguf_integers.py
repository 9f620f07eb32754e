"""The integers of GGUF tensors give bit for bit what the `gguf` package dequantises."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from support.gguf import write_gguf
from support.model import tiny_model

from sgc_runtime.model.config_gguf import read_gguf_config
from sgc_runtime.model.gguf_file import open_gguf
from sgc_runtime.model.gguf_integers import Kind, grouped_weight
from sgc_runtime.model.weights_gguf import GgufSource

READ = [Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0, Kind.Q4_K, Kind.Q5_K]
WITH_MIN = (Kind.Q4_1, Kind.Q5_1, Kind.Q4_K, Kind.Q5_K)
BITS = {Kind.Q4_0: 4, Kind.Q4_1: 4, Kind.Q4_K: 4}


def random_bytes(kind: Kind, seed: int, rows: int = 32) -> np.ndarray:
    """Blocks of any integers whose scales (and minimums) are usual float16."""
    random = np.random.default_rng(seed)
    columns, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows * 512 // columns, size), dtype=np.uint8)
    for start in (0, 2) if kind in WITH_MIN else (0,):
        halves = random.normal(0, 0.01, (len(blocks), 1)).astype(np.float16)
        blocks[:, start : start + 2] = halves.view(np.uint8)
    return blocks.reshape(rows, -1)


@pytest.mark.parametrize("kind", READ, ids=lambda kind: kind.name)
@pytest.mark.parametrize("seed", range(3))
def test_dequantised_bits(kind: Kind, seed: int) -> None:
    raw = random_bytes(kind, seed)
    weight = grouped_weight(raw, kind)
    assert weight is not None
    assert weight.bits == BITS.get(kind, 8)
    wanted = torch.from_numpy(gguf.quants.dequantize(raw, kind))
    assert torch.equal(weight.dequantized(), wanted)


@pytest.mark.parametrize("kind", [Kind.Q6_K, Kind.Q3_K, Kind.F16], ids=lambda kind: kind.name)
def test_other_kinds_are_left_alone(kind: Kind) -> None:
    size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.zeros((2, 512 // size[0] * size[1]), np.uint8)
    assert grouped_weight(raw, kind) is None


def test_a_minimum_that_float16_cannot_hold() -> None:
    """Q4_0 means d * (q - 8): as scale and minimum, -8 d must be a float16 too."""
    raw = random_bytes(Kind.Q4_0, 0)
    raw[0, :2] = np.array([9000], np.float16).view(np.uint8)
    assert grouped_weight(raw, Kind.Q4_0) is None


def test_a_scale_that_is_no_number() -> None:
    raw = random_bytes(Kind.Q8_0, 0)
    raw[3, :2] = np.array([np.nan], np.float16).view(np.uint8)
    assert grouped_weight(raw, Kind.Q8_0) is None


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q4_1, Kind.Q8_0], ids=lambda kind: kind.name)
def test_tensors_of_a_file_in_the_order_of_their_rows(kind: Kind, tmp_path: Path) -> None:
    """q and k are stored with the rows of a head interleaved."""
    file = open_gguf(write_gguf(tmp_path / "m.gguf", tiny_model("llama with wide layers"), kind))
    source = GgufSource(file, read_gguf_config(file, ()))
    matrices = [name for name, shape in source.shapes().items() if len(shape) == 2]
    assert len(matrices) > 20
    for name in matrices:
        weight = source.grouped(name)
        assert weight is not None
        assert torch.equal(weight.dequantized(), source.load(name))
    assert source.grouped("model.norm.weight") is None
