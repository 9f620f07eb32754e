"""`sgc inspect --hints` and `sgc run --no-hints`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cli import Sgc

import sgc_runtime.backends.engine_backend as module

TWO = """
import sgc

@sgc.function
def two(s, q: str):
    s += "Question: " + q
    s += sgc.gen("a", max_tokens=9)
    s += sgc.gen("b", max_tokens=5)

@sgc.function
def plain(s, q: str):
    s += "Question: " + q
    return s.text()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "two.py"
    path.write_text(TWO)
    return path


def test_hints_are_shown(sgc_cli: Sgc, program: Path) -> None:
    shown = sgc_cli("inspect", f"{program}:two", "--hints")
    assert shown.code == 0
    assert shown.out.splitlines()[0] == (
        "two begins with 'Question: ' (10); it generates 0 to 14 tokens"
    )
    assert "g0    a         0 to 9  1              at once" in shown.out


@pytest.mark.parametrize("more", [["--forced"], ["--format", "dot"]])
def test_hints_are_shown_alone(sgc_cli: Sgc, program: Path, more: list[str]) -> None:
    refused = sgc_cli("inspect", f"{program}:two", "--hints", *more)
    assert refused.code == 2
    assert "--hints" in refused.err


def test_a_run_without_hints_gives_the_same(sgc_cli: Sgc, program: Path) -> None:
    arguments = ["run", f"{program}:plain", "--arg", "q=why?", "--quiet"]
    on, off = sgc_cli(*arguments), sgc_cli(*arguments, "--no-hints")
    assert (on.code, off.code) == (0, 0)
    assert on.out == off.out


@pytest.mark.parametrize("flags", [[], ["--no-hints"]])
def test_the_engine_is_told_that_no_hints_come(
    sgc_cli: Sgc, program: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    """Else it still lets rows pause, by bounds that nobody has told it."""
    made: list[Any] = []

    def make(**options: Any) -> Any:
        made.append(engine_backend(**options))
        return made[0]

    engine_backend = module.engine_backend
    monkeypatch.setattr(module, "engine_backend", make)
    ran = sgc_cli("run", f"{program}:plain", "--arg=q=why?", "--backend=local", "--quiet", *flags)
    assert ran.code == 0
    assert made[0].takes_hints == (not flags)
