"""The programs of the gallery, and their rows."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import sgc

PROGRAMS = Path(__file__).parent.parent.parent / "programs"
NAMES = tuple(sorted(path.stem for path in PROGRAMS.glob("*.py")))
_DATA = {  # named otherwise than its program
    "essay_judge": "essays",
    "character_json": "characters",
    "character_schema": "characters",
}


def rows_file(name: str) -> Path:
    """The file with the rows of program `name`."""
    return PROGRAMS / "data" / f"{_DATA.get(name, name)}.jsonl"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of program `name`."""
    return [json.loads(line) for line in rows_file(name).read_text("utf-8").splitlines()]


def load_program(name: str) -> sgc.Program:
    """The program of a gallery file: the function named like its file."""
    spec = importlib.util.spec_from_file_location(f"gallery_{name}", PROGRAMS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    program = getattr(module, name)
    assert isinstance(program, sgc.Program)
    return program
