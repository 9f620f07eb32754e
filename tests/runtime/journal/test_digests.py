"""Digests are equal for equal questions, in every process, and for no others."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from sgc_ir.params import SamplingParams
from sgc_runtime.journal.digests import call_digest, digest, tool_digest

OTHERS: dict[str, Any] = {
    "stop": ("x",),
    "stop_token_ids": (1,),
    "stop_regex": ("x",),
    "logit_bias": {"1": 2.0},
    "ignore_eos": True,
    "logprobs": True,
    "heal": True,
    "seed": 5,
    "regex": "a",
    "json_schema": {"type": "object"},
    "json_style": "compact",
    "grammar": "start: 'a'",
    "choices": ("a", "b"),
    "method": "greedy_token_selection",
    "distribution": "exact",
    "dtype": "int",
}


@pytest.mark.parametrize("name", [f.name for f in fields(SamplingParams)])
def test_every_parameter_counts(name: str) -> None:
    plain = SamplingParams()
    value = OTHERS[name] if name in OTHERS else getattr(plain, name) + 1
    other = SamplingParams(**{name: value})
    assert call_digest(plain, "p", (1,), False) != call_digest(other, "p", (1,), False)


def test_prompt_seeds_and_end_of_turn_count() -> None:
    params = SamplingParams()
    found = [
        call_digest(params, "p", (1,), False),
        call_digest(params, "q", (1,), False),
        call_digest(params, "p", (2,), False),
        call_digest(params, "p", (1, 2), False),
        call_digest(params, "p", (1,), True),
    ]
    assert len(set(found)) == len(found)
    assert found[0] == call_digest(SamplingParams(), "p", (1,), False)


def test_tools_differ_by_name_and_arguments() -> None:
    found = [
        tool_digest("a", (1,), {}),
        tool_digest("b", (1,), {}),
        tool_digest("a", (True,), {}),
        tool_digest("a", (1.0,), {}),
        tool_digest("a", ("1",), {}),
        tool_digest("a", (), {"x": 1}),
        tool_digest("a", (2**80,), {}),
        tool_digest("a", (-(2**80),), {}),
    ]
    assert len(set(found)) == len(found)


def test_of_objects_only_the_type_counts() -> None:
    class Box:
        pass

    assert digest([Box(), "\ud800"]) == digest([Box(), "\ud800"])
    assert digest([Box()]) != digest([object()])


def test_equal_in_another_process() -> None:
    code = "from sgc_runtime.journal.digests import digest; print(digest(['a', 1.5, None]).hex())"
    path = ":".join(sys.path)
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": path}
    )
    assert other.stdout.strip() == digest(["a", 1.5, None]).hex()
