"""The picture in the README is what the command beside it draws."""

from __future__ import annotations

from pathlib import Path

from support.gallery import load_program

from sgc_ir.render import render

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_picture_is_the_program_s() -> None:
    program = load_program("essay_judge").compile().graph
    drawn = (ROOT / "docs" / "essay_judge.svg").read_text("utf-8")
    assert drawn.strip() == render(program, "svg").strip()
