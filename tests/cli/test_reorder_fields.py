"""`sgc compile --reorder --reorder-rows`: fields of a record in the order in which they differ."""

from __future__ import annotations

import csv
from pathlib import Path

from support.cli import Sgc

from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.function
def film(s, title: str, studio: str, year: int):
    s += f"Rate the film.\\nTitle: {title}\\nStudio: {studio}\\nYear: {year}\\n"
    s += sgc.gen("rating", max_tokens=4)
"""
STUDIO = "a studio that is known for many films about the sea"


def test_rows_say_which_field_comes_first(
    sgc_cli: Sgc, tmp_path: Path, scripted: ScriptedBackend
) -> None:
    program, table, graph = tmp_path / "film.py", tmp_path / "films.csv", tmp_path / "film.sgc"
    program.write_text(PROGRAM)
    rows = [{"title": f"Film {i}", "studio": STUDIO, "year": 1990 + i % 2} for i in range(8)]
    with table.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    given = ("compile", program, "-o", graph, "--reorder", "--explain-passes")
    assert "fields in the order" not in sgc_cli(*given).out
    made = sgc_cli(*given, "--reorder-rows", table)
    assert made.code == 0
    assert "fields in the order studio, year, title" in made.out
    assert "the outputs of 8 rows" in made.err
    scripted.calls.clear()
    prompts = []
    for options in [], ["--no-reorder"]:
        found = sgc_cli("run", graph, "--inputs", table, *options)
        assert [row["error"] for row in found.rows] == [None] * 8
        prompts.append(scripted.calls[0]["prompt"])
        scripted.calls.clear()
    assert prompts[0] == f"Rate the film.\nStudio: {STUDIO}\nYear: 1990\nTitle: Film 0\n"
    assert prompts[1] == f"Rate the film.\nTitle: Film 0\nStudio: {STUDIO}\nYear: 1990\n"
