"""Order of a record's fields: what comes first, what stays, and the way back."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import echo, prompts, run_graph
from support.templates import graph_of

import sgc
from sgc.compile import compile_spec
from sgc.testing import ScriptedBackend
from sgc_ir.graph import Program
from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import run_passes
from sgc_ir.passes.reorder import restore

PLOT = "a long summary of what all films of this studio have in common, in many words " * 2
ROWS = [
    {"title": f"Film {i}", "plot": f"{PLOT}{i}", "studio": f"{PLOT}Studio {i % 2}", "year": 1990}
    for i in range(8)
]
RECORD = "Rate the film.\n\nTitle: {title}\nStudio: {studio}\nPlot: {plot}.\nIs it for children?"
ORDERED = "Rate the film.\n\nStudio: {studio}\nTitle: {title}\nPlot: {plot}.\nIs it for children?"


def template(prompt: str, form: str = "chat") -> dict[str, Any]:
    return {"name": "film", "form": form, "prompt": prompt}


def ordered(program: Program, rows: Any = ROWS, **context: Any) -> Program:
    return run_passes(program, ["reorder"], Context(rows=rows, **context), check=True)[0]


def asked(program: Program, **args: Any) -> dict[str, str]:
    backend = ScriptedBackend(echo)
    run_graph(program, backend, args)
    return prompts(backend)


@pytest.mark.parametrize("form", ["chat", "raw"])
def test_what_differs_least_comes_first(form: str) -> None:
    before = graph_of(template(RECORD, form))
    after = ordered(before)
    args = {"title": "T", "studio": "S", "plot": "P"}
    assert asked(after, **args) == asked(graph_of(template(ORDERED, form)), **args)
    (move,) = after.notes["reorder"]["moves"]
    assert (move["before"], move["after"]) == (RECORD, ORDERED)
    assert move["gain"] >= 8
    assert restore(after) == before
    assert ordered(before, rows=()) is before
    assert ordered(before, refused=frozenset([RECORD])) is before


@sgc.function
def film(s, title: str, studio: str, year: int, plot: str):
    s += sgc.user(f"Title: {title}\nStudio: {studio}\nYear: {year}\nPlot: {plot}\nAnything else?")
    s += sgc.assistant(sgc.gen("rating", max_tokens=4))


def test_texts_put_together_are_edited() -> None:
    program = compile_spec(film.spec).graph
    after = ordered(program)
    args = {"title": "T", "studio": "S", "year": 7, "plot": "P"}
    found = next(iter(asked(after, **args).values()))
    assert "Year: 7\nStudio: S\nTitle: T\nPlot: P\nAnything else?" in found
    assert restore(after) == program


@pytest.mark.parametrize(
    "prompt",
    [
        RECORD.replace("Rate the film.", "The first line is the title. Rate the film."),
        RECORD.replace("Is it for children?", "Repeat the fields in order."),
        RECORD.replace("Title:", "Question:"),
        RECORD.replace("Title:", "Studio:"),
        RECORD.replace("Title: {title}\n", "Title: {title}, a film\n"),
        RECORD.replace("Title: {title}\n", "Title: {title}\n\n"),
        RECORD.replace("Title:", "Part 1:"),
        RECORD.replace("Title:", "- Title:"),
        ORDERED,
    ],
)
def test_what_may_not_move_stays(prompt: str) -> None:
    program = graph_of(template(prompt))
    assert ordered(program) is program


def test_few_tokens_are_not_worth_another_prompt() -> None:
    rows = [{"title": f"Film {i}", "studio": "S", "plot": f"{i}"} for i in range(8)]
    program = graph_of(template(RECORD))
    assert ordered(program, rows) is program
    assert ordered(program, [{"title": "T", "studio": "S"}]) is program, "a column is missing"


def test_instructions_move_as_well() -> None:
    rules = "Grade strictly from A to D. Reply with a single letter, and leave out any explanation."
    prompt = RECORD.replace("Is it for children?", f"\n{rules}")
    after = ordered(graph_of(template(prompt)))
    moves = after.notes["reorder"]["moves"]
    assert [move["after"].index("Studio:") < move["after"].index("Title:") for move in moves] == [
        True,
        True,
    ]
    assert moves[1]["after"].index(rules) < moves[1]["after"].index("Studio:")
    assert restore(after) == graph_of(template(prompt))
