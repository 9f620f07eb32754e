"""The figures of `benchmarks.kv_formats`, from a tiny model."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from support.model import saved, tiny_model

from benchmarks.kv_formats import greedy_agreement, logit_errors, model_with


def test_both_parts(tmp_path: Path) -> None:
    saved(tiny_model("llama"), tmp_path)

    def load(dtype: str, kind: str) -> object:
        return model_with(tmp_path, dtype, torch.device("cpu"), kind)

    found = logit_errors(load, "bfloat16", [3, 9, 27, 81, 50, 7, 21])
    assert found["16 bits"]["bytes_a_token"] == 2 * found["fp8"]["bytes_a_token"]
    assert found["16 bits"]["to 16 bits"]["max"] == 0
    assert 0 < found["16 bits"]["to float32"]["mean"] < found["fp8"]["to float32"]["mean"]

    agreement = partial(greedy_agreement, load, "bfloat16", [[3, 9, 27], [50, 7, 2, 8]])
    few, many = agreement(1), agreement(12)
    for kind, figures in few.items():
        if isinstance(figures, dict):
            longer = many[kind]["equal_tokens_before_the_first_other"]
            assert figures["equal_tokens_before_the_first_other"] <= longer <= 12
