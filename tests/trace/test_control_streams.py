"""Branches, loops and exits around forks, joins and sub-programs: equal on every path."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc


@sgc.function
def forks_with_ifs(s):
    s += "root" + sgc.gen("r")
    f = s.fork(3)
    for i, b in enumerate(f):
        b += f"b{i}" + sgc.gen("v", max_tokens=1 + i)
        if b["v"] == "yes":
            b += "more" + sgc.gen("w")
        else:
            b.set("w", "none")
    f.join()
    s += "".join(s["w"]) + sgc.gen("z")
    return s["v"], s["w"]


@sgc.function
def fork_in_one_arm(s):
    s += "x" + sgc.gen("r")
    got = "none"
    if s["r"] == "yes":
        f = s.fork(2)
        for b in f:
            b += "in" + sgc.gen("v")
        f.join("append")
        got = f[0]["v"]
    else:
        s += "out" + sgc.gen("q")
    f2 = s.fork(1)
    f2[0].extend(sgc.gen("last"))
    return got, f2[0]["last"]


@sgc.function
def judged(s, text):
    s += "judge " + text + sgc.gen("ok")
    if s["ok"] == "yes":
        return "fine"
    s += sgc.gen("why", max_tokens=2)
    return s["why"]


@sgc.function
def sub_in_one_arm(s):
    s += "s" + sgc.gen("v")
    if s["v"] == "yes":
        h = judged(s["v"])
        s += h.value
    elif s["v"] == "no":
        s.call(judged, "inline")
    else:
        s += "no sub"
    h = judged("after")
    return h.value, h["ok"]


@sgc.function
def deeper(s, depth: int):
    s += f"d{depth}" + sgc.gen("v")
    if depth > 0 and s["v"] != "yes":
        return deeper(depth - 1).value + "+"
    return s["v"]


@sgc.function
def branches_of_run_time_number(s, items: list[str]):
    s += "r"
    forks = s.fork_each(items)
    for f in forks:
        f += f.item + sgc.gen("v", max_tokens=1)
        if f["v"] == "yes":
            f += "more" + sgc.gen("w")
        else:
            f.set("w", "none")
        f += "end" + sgc.gen("x")
    return [f["w"] + f["x"] for f in forks]


@sgc.function
def list_argument(s, items: list[str]):
    names = [i + "!" if i != "no" else "none" for i in items]
    hs = [judged(i) for i in items]
    return names, [h.value for h in hs]


@sgc.function
def best_branch(s):
    s += "start"
    forks = s.fork(3)
    for i, f in enumerate(forks):
        f += f"idea {i}" + sgc.gen("idea", max_tokens=1)
        f += "score" + sgc.gen("score", dtype=int)
    b = max(forks, key=lambda f: f["score"])
    b += "go on" + sgc.gen("more", max_tokens=2)
    s += b["idea"] + b["more"]
    return b["score"], b["more"], b.text()


@sgc.function
def beam(s):
    s += "start"
    branches = list(s.fork(4))
    for i, f in enumerate(branches):
        f += f"idea {i}" + sgc.gen("idea", max_tokens=1)
        if f["idea"] == "yes":
            f += "extra" + sgc.gen("extra", max_tokens=1)
        f += "score" + sgc.gen("score", dtype=int)
    branches.sort(key=lambda f: -f["score"])
    kept = branches[:2]
    for f in kept:
        f += "deeper" + sgc.gen("deep", max_tokens=1)
        for g in f.fork(2):
            g += "x" + sgc.gen("leaf", max_tokens=1)
    return [f["deep"] for f in kept], [f["idea"] for f in kept]


@sgc.function
def handle_of_one_arm(s):
    s += "h" + sgc.gen("v")
    h = judged("first")
    if s["v"] == "yes":
        h = judged("second")
    elif s["v"] == "no":
        h = judged(s["v"])
    return h["ok"], h.value, h.text()


CASES: list[tuple[sgc.Program, list[dict[str, Any]]]] = [
    (forks_with_ifs, [{}]),
    (fork_in_one_arm, [{}]),
    (sub_in_one_arm, [{}]),
    (branches_of_run_time_number, [{"items": ["a", "b", "c"]}, {"items": []}]),
    (list_argument, [{"items": ["a", "no"]}]),
    (best_branch, [{}]),
    (beam, [{}]),
    (handle_of_one_arm, [{}]),
]


@pytest.mark.parametrize(("program", "rows"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_equal_on_every_path(program: sgc.Program, rows: list[dict[str, Any]]) -> None:
    assert len(assert_equal_on_paths(program, *rows, scripts=8)) > 1


def test_a_recursion_of_known_depth_is_equal_on_every_path() -> None:
    assert len(assert_equal_on_paths(deeper.bind(depth=2), {}, scripts=8)) > 1
