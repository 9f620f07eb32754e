"""Attributes that are deleted, and dicts that make their missing items, on some paths only."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc
from sgc_ir.errors import CompileError


class Box:
    def __init__(self) -> None:
        self.a: Any = 1
        self.b = "x"

    @property
    def half(self) -> Any:
        return self.a

    @half.deleter
    def half(self) -> None:
        self.a = "none"


@sgc.function
def deleted_in_one_arm(s):
    box, other = Box(), Box()
    s += "box" + sgc.gen("v")
    if s["v"] == "yes":
        box.a = 2
        del box.b, other.half
        box.b = "new"
    else:
        box.a = 3
    return box.b, box.a, other.a


@sgc.function
def never_read_again(s):
    box = Box()
    s += "box" + sgc.gen("v")
    if s["v"] == "yes":
        del box.a
    else:
        box.a = 3
    return box.b


@sgc.function
def made_in_each_arm(s):
    found, counts = defaultdict(list), defaultdict(lambda: [s["v"]])
    s += "made" + sgc.gen("v")
    if s["v"] == "yes":
        found["a"].append("x")
        found["b"] += ["y"]
    else:
        found["a"].append(s["v"])
        found["b"]
    counts["k"].append("q")
    s += f"{found['a']} {'c' in found} {len(found)}" + sgc.gen("w")
    return dict(found), counts["k"]


@pytest.mark.parametrize("program", [deleted_in_one_arm, never_read_again, made_in_each_arm])
def test_equal_on_every_path(program: sgc.Program) -> None:
    assert_equal_on_paths(program, scripts=16)


@sgc.function
def read_where_it_may_be_deleted(s):
    box = Box()
    s += sgc.gen("v")
    if s["v"] == "yes":
        del box.a
    s += f"{box.a}"


@sgc.function
def other_keys_on_each_path(s):
    found = defaultdict(int)
    s += sgc.gen("v")
    if s["v"] == "yes":
        found["a"] += 1
    else:
        found["b"]
    return found


@sgc.function
def deleted_of_a_class(s):
    del Box.half


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (read_where_it_may_be_deleted, "attribute a is not set on every path"),
        (other_keys_on_each_path, "a defaultdict has other keys"),
        (deleted_of_a_class, "`Box.half` is deleted, which is state of the whole process"),
    ],
)
def test_refused_by_name(program: sgc.Program, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        program.compile()
