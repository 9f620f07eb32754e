"""The programs of the gallery as shapes, on the first rows of their data."""

from __future__ import annotations

import json
from pathlib import Path

from shapes.catalog import SHAPES, Shape
from tests_support import load_program

PROGRAMS = Path(__file__).parent.parent.parent / "programs"
ROWS = 3
DATA = {"essay_judge": "essays"}


def _shape(path: Path) -> Shape:
    rows = (PROGRAMS / "data" / f"{DATA.get(path.stem, path.stem)}.jsonl").read_text("utf-8")
    lines = rows.splitlines()[:ROWS]
    return Shape(path.stem, load_program(path), [json.loads(line) for line in lines])


SHAPES.extend(_shape(path) for path in sorted(PROGRAMS.glob("*.py")))
