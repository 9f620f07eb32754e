"""Programs on which a tracer of control flow easily goes wrong without an error."""

# The programs are what a user might write, not what a linter likes.
# ruff: noqa: C416, E712
from __future__ import annotations

from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc


@sgc.function
def halves_of_an_expression(s):
    s += sgc.gen("p") + "-" + sgc.gen("q")
    p, q = s["p"] == "yes", s["q"] == "yes"
    out = "a" + ("x" if p else "y") + ("u" if q else "v")
    for c in "aab":
        if p:
            out += c
    return out


@sgc.function
def text_of_a_variable(s):
    s += sgc.gen("v")
    if f"{s['v']}!" == "yes!":
        return "yes"
    return "other"


@sgc.function
def operand_that_changes_later(s):
    a = ["x"]
    s += sgc.gen("v")
    a.append(s["v"])
    t = ",".join(a)
    a.append("z")
    s += t
    return t, a


@sgc.function
def list_of_a_spread(s):
    out: list[str] = []
    s += sgc.gen("v")
    if s["v"] == "yes":
        out.append("1")
    if not out:
        s += "empty" + sgc.gen("w")
    if out and s["v"] == "yes":
        s += "ok"
    return out, out.count("1"), "few" if 1 <= out.count("1") else "none"


@sgc.function
def key_on_some_paths(s):
    d: dict[str, Any] = {}
    s += sgc.gen("v")
    if s["v"] == "yes":
        d["k"] = 1
    first = d.get("k")
    d.setdefault("k", 0)
    return d, first, "k" in d


@sgc.function
def break_then_error(s):
    s += sgc.gen("v")
    for i in range(2):
        if s["v"] == "yes":
            break
        if i == 1:
            [][0]
    return "left"


@sgc.function
def return_inside_a_turn(s):
    s += sgc.gen("v")
    with s.user():
        s += "hi"
        if s["v"] == "yes":
            return 1
        s += "there"
    s += sgc.assistant(sgc.gen("w"))
    return 2


@sgc.function
def break_in_a_nested_arm(s):
    n = 0
    for i in range(3):
        s += f"{i}" + sgc.gen("a", max_tokens=1) + sgc.gen("b", max_tokens=2)
        if s["a"] == "yes":
            if s["b"] == "yes":
                break
            n += 1
        else:
            n += 10
        n += 100
    return n


@sgc.function
def error_of_a_trial(s):
    items: list[str] = []
    s += sgc.gen("q")
    if s["q"] == "yes" and items[-1] == "x":
        return "x"
    return "fine"


@sgc.function
def key_in_nested_loops(s, xs: list[str]):
    d = {"k": "none"}
    for x in xs:
        for y in xs:
            d["k"] = x + y
    return d.get("k")


@sgc.function
def same_name_inside(s, xs: list[str]):
    x = xs
    return [x for x in x], x


@sgc.function
def unused_number(s):
    s += sgc.gen("v")
    if s["v"] != "no":
        int(s["v"])
    return "done"


@sgc.function
def numbers_and_truths(s):
    s += sgc.gen("v")
    p = s["v"] == "yes"
    x = 1 if p else True
    y = 0.0 if p else -0.0
    return x, y, [1 if p else 1.0]


@sgc.function
def ordinals_by_path(s):
    s += sgc.gen("a")
    if s["a"] == "yes":
        s += "b" + sgc.gen("b")
        with s.copy() as t:
            t += "t" + sgc.gen("t")
    with s.copy() as u:
        u += "u" + sgc.gen("u")
    s += "c" + sgc.gen("c")
    return s["c"]


@sgc.function
def any_stops(s):
    s += "x"

    def ask(x):
        s.extend(x + sgc.gen("q", max_tokens=1))
        return s["q"] == "yes"

    first = any(ask(x) for x in ["a", "b", "c"])
    every = all(ask(x) for x in ["d", "e"])
    for h in (ask(x) for x in ["f", "g"]):
        if h:
            break
    return first, every


@sgc.function
def filters(s, xs: list[str]):
    s += sgc.gen("v")
    kept = [x + "!" for x in xs if x != s["v"]]
    some = [x for x in ["yes", "no"] if x == s["v"]]
    pairs = [x + y for x in xs if x for y in ["1", s["v"]] if y != "no"]
    return (
        kept,
        some,
        pairs,
        list(filter(None, ["", s["v"]])),
        len(kept),
        any(int(x) > 0 for x in xs),
    )


@sgc.function
def lists_of_two_paths(s):
    s += sgc.gen("v")
    if s["v"] == "yes":
        x = ["a", "b"]
    else:
        x = [s["v"]]
    x.append("end")
    y = None if s["v"] == "no" else ["data"]
    return x, x[-1], y, "none" if y is None else "some"


@sgc.function
def helper_with_exits(s):
    def walk(items):
        for i in items:
            s.extend(i + sgc.gen("w", max_tokens=1))
            if s["w"] == "yes":
                return i
            if s["w"] == "no":
                raise ValueError(i)
        return None

    return walk(["a", "b"]) or walk(["c"]) or "nobody"


@sgc.function
def negated(s, xs: list[str]):
    s += sgc.gen("v") + sgc.gen("n", dtype=bool)
    if not (s["v"] == "yes" or not s["n"]):
        return "one"
    if s["n"] == True:
        return "two"
    return "three" if xs and not s["v"] else "four"


XS = [{"xs": ["7", "yes"]}, {"xs": []}]
CASES: list[tuple[sgc.Program, list[dict[str, Any]]]] = [
    (halves_of_an_expression, [{}]),
    (text_of_a_variable, [{}]),
    (operand_that_changes_later, [{}]),
    (list_of_a_spread, [{}]),
    (key_on_some_paths, [{}]),
    (break_then_error, [{}]),
    (return_inside_a_turn, [{}]),
    (break_in_a_nested_arm, [{}]),
    (error_of_a_trial, [{}]),
    (key_in_nested_loops, XS),
    (same_name_inside, XS),
    (unused_number, [{}]),
    (numbers_and_truths, [{}]),
    (ordinals_by_path, [{}]),
    (any_stops, [{}]),
    (filters, [{"xs": ["7", "1"]}, {"xs": []}]),
    (lists_of_two_paths, [{}]),
    (helper_with_exits, [{}]),
    (negated, XS),
]


@pytest.mark.parametrize(("program", "rows"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_equal_on_every_path(program: sgc.Program, rows: list[dict[str, Any]]) -> None:
    assert len(assert_equal_on_paths(program, *rows, scripts=14)) > 1
