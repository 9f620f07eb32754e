"""All breaks of a program are found without running it."""

from __future__ import annotations

import pytest
from support.broken_programs import ROWS
from support.random_programs import load_text

import sgc
from sgc.breaks.look import find_breaks

PROGRAM = """
import re, json, sgc

@sgc.function
def child(s, x):
    s += x + sgc.gen("m")
    y = re.sub("a", "b", s["m"])
    s += y
    return json.loads(s["m"])

@sgc.function
def fine(s, x):
    s += x + sgc.gen("m")
    return s["m"]

@sgc.function
def program(s, q: str, n: int):
    s += q + sgc.gen("a")
    try:
        v = json.loads(s["a"])
    except ValueError:
        v = open("no such file").read() + s["a"]
    for i in range(n):
        if re.search("x", s["a"]):
            s += sgc.gen("b")
            print(s["b"])
    w = s["b"]
    while len(s["a"]) > 3:
        s += "x"
    h = child(q)
    s += str(h.value) + w + v + fine(q).value
    return sorted([w, v], key=lambda t: re.sub("a", "", t))
"""

APPENDED = """
import random

import sgc


@sgc.function
def program(s, q: str):
    s += random.choice([q])
    s += sgc.gen("a")
    forks = s.fork(2)
    forks += random.choice([q])
    forks += sgc.gen("b")
    for w in random.sample(["a", "b"], 2):
        s += w + sgc.gen("c")
        s += "."
    s += s["a"]
"""


def test_every_break_is_listed_once_and_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    program = load_text(PROGRAM)
    found = find_breaks(program.spec)
    lines = PROGRAM.splitlines()
    shown = [lines[one.line - 1].strip() for one in found]
    assert shown == [
        'y = re.sub("a", "b", s["m"])',
        'return json.loads(s["m"])',
        'v = json.loads(s["a"])',
        'v = open("no such file").read() + s["a"]',
        'if re.search("x", s["a"]):',
        'print(s["b"])',
        'while len(s["a"]) > 3:',
        'return sorted([w, v], key=lambda t: re.sub("a", "", t))',
    ]
    assert all(one.reason and one.count == 0 for one in found)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("program", ROWS, ids=lambda program: program.name)
def test_the_break_that_a_run_meets_is_found_before(program: sgc.Program) -> None:
    (found,) = find_breaks(program.spec)
    with pytest.raises(sgc.CompileError) as refused:
        program.compile()
    assert (found.file, found.line) == (refused.value.file, refused.value.line)


def test_a_program_that_compiles_has_none() -> None:
    fine = load_text(PROGRAM).spec.fn.__globals__["fine"]
    assert find_breaks(fine.spec) == []


def test_what_is_appended_to_a_stream_by_python_leaves_it_a_stream() -> None:
    program = load_text(APPENDED)
    lines = APPENDED.splitlines()
    shown = [lines[one.line - 1].strip() for one in find_breaks(program.spec)]
    assert shown == [
        "s += random.choice([q])",
        "forks += random.choice([q])",
        'for w in random.sample(["a", "b"], 2):',
    ]
