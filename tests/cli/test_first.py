"""Programs with a race on the command line: resumed, traced, explained, drawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc

import sgc
from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.function
def ask(s, kind: str):
    s += f"{kind}?" + sgc.gen("answer", max_tokens=3)
    return s["answer"]

@sgc.function
def race(s, name: str):
    [found] = sgc.first(1, [ask("left " + name), ask("right " + name)])
    s += found + " then:" + sgc.gen("last", max_tokens=3)
    return found
"""


class Sides:
    """A backend on which one side takes twenty seconds, and prompts can be made to fail."""

    def __init__(self) -> None:
        self.slow, self.broken = "left", ""
        self.backend = ScriptedBackend(
            lambda prompt, _: " of " + prompt[:5],
            delay=lambda prompt: 20.0 if prompt.startswith(self.slow) else 0.0,
            fail=lambda prompt: sgc.BackendError("cut") if self.broken in prompt else None,
        )
        self.broken = "nothing"
        sgc.set_default_backend(self.backend)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "race.py"
    path.write_text(PROGRAM)
    (tmp_path / "rows.jsonl").write_text('{"name": "a"}\n{"name": "b"}\n')
    return path


def results(path: Path) -> list[object]:
    return [json.loads(line)["value"] for line in path.read_text().splitlines()]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_a_resumed_run_keeps_who_was_first(sgc_cli: Sgc, program: Path, mode: str) -> None:
    sides, out = Sides(), program.parent / "out.jsonl"
    rows = program.parent / "rows.jsonl"
    command = ("run", program, "--inputs", rows, "-o", out, "--mode", mode)
    sides.broken = "then:"
    assert sgc_cli(*command).code == 1
    sides.broken, sides.slow = "nothing", "right"
    sides.backend.calls.clear()
    assert sgc_cli(*command, "--resume").code == 0
    assert results(out) == [" of right", " of right"]
    answered = [c["prompt"] for c in sides.backend.calls if c["result"] is not None]
    assert all(prompt.startswith("left") or prompt.endswith(" then:") for prompt in answered)
    assert sum(prompt.endswith(" then:") for prompt in answered) == 2


def test_a_trace_tells_who_was_cancelled(sgc_cli: Sgc, program: Path) -> None:
    Sides()
    trace = program.parent / "t.json"
    done = sgc_cli("run", program, "--arg", "name=a", "--trace", trace, "--quiet")
    assert done.code == 0
    text = trace.read_text()
    json.loads(text)
    assert "cancelled" in text
    assert "sgc.first" in text


def test_it_is_explained_and_drawn(sgc_cli: Sgc, program: Path) -> None:
    Sides()
    graph = program.parent / "race.sgc"
    assert sgc_cli("compile", program, "-o", graph, "--merge").code == 0
    explained = sgc_cli("explain", graph, "--inputs", program.parent / "rows.jsonl")
    assert explained.code == 0, explained.err
    assert "c0/g0" in explained.out
    for form in ("text", "mermaid", "dot", "svg", "json"):
        drawn = sgc_cli("inspect", graph, "--format", form)
        assert drawn.code == 0
    assert "first 1 of ask" in sgc_cli("inspect", graph, "--format", "mermaid").out
