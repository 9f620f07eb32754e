"""The programs of the gallery as shapes, on the first rows of their data."""

from __future__ import annotations

from shapes.catalog import SHAPES, Shape
from support.gallery import NAMES, load_program, rows_of

ROWS = 3

SHAPES.extend(Shape(name, load_program(name), rows_of(name)[:ROWS]) for name in NAMES)
