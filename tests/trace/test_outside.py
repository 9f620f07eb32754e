"""What a program takes from outside while it is traced: sources, globals, clocks, files."""

from __future__ import annotations

import importlib.util
import linecache
import logging
import os
import random
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sgc
from sgc_ir.errors import CompileError

SEEN: list[str] = []
TABLE = {"n": 0}


class Holder:
    items: list[str] = []  # noqa: RUF012


def load(path: Path, text: str) -> ModuleType:
    path.write_text(text)
    name = f"outside_{path.stem}_{abs(hash(str(path)))}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


HELPER = "def helper(s, q):\n    s += 'old ' + q\n"


def test_helper_that_changed_on_disk_after_it_was_loaded_is_refused(tmp_path: Path) -> None:
    module = load(tmp_path / "changed.py", HELPER)
    helper = module.helper
    later = time.time() + 5
    (tmp_path / "changed.py").write_text(HELPER.replace("old", "new"))
    os.utime(tmp_path / "changed.py", (later, later))

    @sgc.function
    def program(s, q):
        helper(s, q)

    with pytest.raises(CompileError, match=r"changed\.py changed on disk after helper was loaded"):
        program.compile()


def test_helper_in_a_file_that_only_moved_its_time_compiles(tmp_path: Path) -> None:
    module = load(tmp_path / "touched.py", HELPER)
    os.utime(tmp_path / "touched.py", (time.time() + 5, time.time() + 5))
    helper = module.helper

    @sgc.function
    def program(s, q):
        helper(s, q)

    assert program.run("x", mode="compiled").text() == "old x"


def test_program_keeps_its_text_from_when_it_was_decorated(tmp_path: Path) -> None:
    text = "import sgc\n\n@sgc.function\ndef program(s, q):\n    s += 'old ' + q\n"
    module = load(tmp_path / "kept.py", text)
    (tmp_path / "kept.py").write_text(text.replace("old", "new"))
    linecache.checkcache()
    assert module.program.compile().run("x").text() == "old x"


def test_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def helper(s):\n    s += 'x'\n", scope)
    helper = scope["helper"]

    @sgc.function
    def program(s):
        helper(s)

    with pytest.raises(CompileError, match=r"exec\.<locals>|helper"):
        program.compile()


def test_program_from_a_notebook_cell_compiles() -> None:
    name, text = "<cell 7>", "import sgc\n@sgc.function\ndef program(s, q):\n    s += q\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), scope)
    assert scope["program"].compile().run("x").text() == "x"


@sgc.function
def appends_to_a_global(s):
    SEEN.append("x")


@sgc.function
def counts_in_a_global(s):
    TABLE["n"] += 1
    s += "same text"


@sgc.function
def appends_to_a_class(s):
    Holder.items.append("x")


@pytest.mark.parametrize("program", [appends_to_a_global, counts_in_a_global, appends_to_a_class])
def test_change_of_a_global_is_refused_and_undone(program: sgc.Program) -> None:
    with pytest.raises(CompileError, match="from outside while it is traced"):
        program.compile()
    assert SEEN == []
    assert TABLE == {"n": 0}
    assert Holder.items == []


class Words(list):
    tone = "plain"


WORDS = Words()
TONE = "plain"


@sgc.function
def names_a_global(s, q: str):
    globals()["TONE"] = q
    s += q


@sgc.function
def updates_globals(s, q: str):
    globals().update(TONE=q)
    s += q


@sgc.function
def changes_an_attribute_beside_items(s, q: str):
    WORDS.tone = q
    s += q


@sgc.function
def chooses_an_attribute_beside_items(s, q: str):
    words = Words()
    if q == "x":
        words.tone = "warm"
    else:
        words.tone = "cold"
    s += words.tone
    return words.tone


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (names_a_global, "globals of .* are changed"),
        (updates_globals, "globals of .* are changed"),
        (changes_an_attribute_beside_items, "attribute tone of a Words"),
        (chooses_an_attribute_beside_items, "attribute tone of a Words"),
    ],
)
def test_a_change_beside_what_is_followed_is_refused(program: sgc.Program, reason: str) -> None:
    with pytest.raises(CompileError, match=reason):
        program.compile()
    assert (TONE, WORDS.tone) == ("plain", "plain")
    try:
        states = program.run_batch([{"q": "x"}, {"q": "y"}], parallel=1)
        values = [state.value for state in states]
        assert values == (["warm", "cold"] if "chooses" in program.name else [None, None])
        assert [type(value) for value in (TONE, WORDS.tone)] == [str, str]
    finally:
        globals()["TONE"] = WORDS.tone = "plain"


def test_random_text_is_refused_as_not_deterministic() -> None:
    @sgc.function
    def program(s):
        s += str(random.random())

    with pytest.raises(CompileError, match="different things when traced twice"):
        program.compile()


def test_structure_that_depends_on_a_hidden_counter_is_refused() -> None:
    numbers = iter(range(10))

    @sgc.function
    def program(s):
        for _ in range(next(numbers)):
            s += "x"

    with pytest.raises(CompileError, match="different things when traced twice"):
        program.compile()


def test_clock_whose_value_is_the_same_twice_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    @sgc.function
    def program(s):
        s += "late" if time.time() > 0 else "early"

    with caplog.at_level(logging.WARNING, logger="sgc"):
        graph = program.compile().graph
    (warning,) = graph.notes["warnings"]
    assert "time.time is called once, when compiling" in warning
    assert f"test_outside.py:{program.spec.first_line + 2}" in warning
    assert warning in caplog.text


def test_file_that_is_read_while_tracing_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "facts.txt"
    path.write_text("a fact")

    @sgc.function
    def program(s):
        with open(path) as file:
            s += file.read()

    graph = program.compile().graph
    assert "opens a file while it is compiled" in graph.notes["warnings"][0]
    assert program.compile().run().text() == "a fact"


def test_program_that_reads_nothing_from_outside_has_no_warnings() -> None:
    @sgc.function
    def program(s, q):
        import json

        s += json.dumps({"a": 1}) + q

    assert "warnings" not in program.compile().graph.notes


def test_usual_program_is_traced_in_far_less_than_100_ms() -> None:
    @sgc.function
    def program(s, essay: str, dims: list[str]):
        s += sgc.system("You grade essays.")
        forks = s.fork(len(dims))
        for f, d in zip(forks, dims, strict=False):
            f += sgc.user(f"Judge its {d}.") + sgc.assistant(sgc.gen("judgment"))
        s += sgc.user("\n".join(f["judgment"] for f in forks))

    program.compile()
    begin = time.perf_counter()
    program.compile()
    assert time.perf_counter() - begin < 0.1
