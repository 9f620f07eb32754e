"""Rotary frequencies against transformers' own functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from sgc_ir.errors import ModelError
from sgc_runtime.model.config import RopeConfig
from sgc_runtime.model.rope import rope_frequencies

_FIELDS = {
    "factor": "factor",
    "original_max_positions": "original_max_position_embeddings",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "truncate": "truncate",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "attention_factor": "attention_factor",
}


def expected(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    parameters: dict[str, Any] = {"rope_type": rope.kind, "rope_theta": rope.theta}
    for ours, theirs in _FIELDS.items():
        parameters[theirs] = getattr(rope, ours)
    config = transformers.LlamaConfig(
        head_dim=head_dim, max_position_embeddings=512, rope_parameters=parameters
    )
    return ROPE_INIT_FUNCTIONS[rope.kind](config, torch.device("cpu"))


@st.composite
def ropes(draw: st.DrawFn) -> RopeConfig:
    low = draw(st.floats(0.5, 2.0))
    mscale = draw(st.sampled_from((0.0, 0.707, 1.0)))
    return RopeConfig(
        kind=draw(st.sampled_from(("linear", "dynamic", "llama3", "yarn"))),
        theta=draw(st.sampled_from((1e4, 5e5, 1e6))),
        factor=draw(st.floats(1.0, 32.0)),
        original_max_positions=draw(st.sampled_from((64, 2048, 8192))),
        low_freq_factor=low,
        high_freq_factor=low + draw(st.floats(0.5, 4.0)),
        beta_fast=draw(st.floats(8.0, 40.0)),
        beta_slow=draw(st.floats(0.5, 4.0)),
        truncate=draw(st.booleans()),
        mscale=mscale,
        mscale_all_dim=draw(st.sampled_from((0.0, mscale, 0.8))),
        attention_factor=draw(st.sampled_from((None, 1.25))),
    )


@settings(max_examples=120, deadline=None)
@given(ropes(), st.sampled_from((16, 64, 128)))
def test_equals_transformers(rope: RopeConfig, head_dim: int) -> None:
    frequencies, scale = rope_frequencies(rope, head_dim)
    theirs, their_scale = expected(rope, head_dim)
    assert frequencies.dtype == torch.float32
    torch.testing.assert_close(frequencies, theirs, rtol=2e-6, atol=0)
    assert scale == pytest.approx(their_scale)


def test_default_and_divided() -> None:
    plain, scale = rope_frequencies(RopeConfig(theta=100.0), 8)
    torch.testing.assert_close(plain, 100.0 ** -torch.tensor([0.0, 0.25, 0.5, 0.75]))
    assert scale == 1.0
    divided, _ = rope_frequencies(
        RopeConfig(kind="divided", theta=100.0, divisors=(1.0, 1.0, 2.0, 8.0)), 8
    )
    torch.testing.assert_close(divided, plain / torch.tensor([1.0, 1.0, 2.0, 8.0]))


@pytest.mark.parametrize(
    ("rope", "words"),
    [
        (RopeConfig(kind="longrope"), "'longrope' is not supported"),
        (RopeConfig(kind="divided", divisors=(1.0,)), "1 values"),
        (RopeConfig(kind="linear", factor=0.0), "no finite frequencies"),
        (RopeConfig(kind="yarn", original_max_positions=32, theta=1.0), "no finite frequencies"),
        (RopeConfig(kind="yarn", original_max_positions=32, theta=-2.0), "no finite frequencies"),
    ],
)
def test_refusals(rope: RopeConfig, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        rope_frequencies(rope, 8)
