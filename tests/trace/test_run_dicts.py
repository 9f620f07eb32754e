"""Dicts whose keys a run decides: compiled equals interpreted; other names of values: refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc

PROGRAMS: list[Callable[..., Any]] = []
ROWS = (
    {"q": "q", "xs": ["a", "b", "yes"], "made": {"ab": 1, "cd": [2]}, "pairs": [["x", 1]]},
    {"q": "", "xs": [], "made": {}, "pairs": {"xy": 1}},
)


def case(fn: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS.append(fn)
    return fn


@case
def dict_keys(s, xs: list[str]):
    d = {}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        d[x] = s["v"]
    return d


@case
def dict_keys_static(s, xs: list[str]):
    d = {}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        if s["v"] == "yes":
            d["yes"] = x
        else:
            d["no"] = d.get("no", 0) + 1
    return d


@case
def counting(s, xs: list[str]):
    c = {}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        c[s["v"]] = c.get(s["v"], 0) + 1
    return c


@case
def table(s, q: str):
    names = {"yes": "Yes", "no": "No", "a": "A"}
    s += q + sgc.gen("v", max_tokens=1)
    n = names.get(s["v"], "other")
    if s["v"] in names:
        n += names[s["v"]]
    return n


@case
def dict_uses(s, xs: list[str]):
    d = {"start": 0}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        d[s["v"]] = d.get(s["v"], 0) + 1
        if "yes" in d:
            s += "seen"
    out = []
    for k in d:
        out.append(k)
    for k, v in d.items():
        out.append(f"{k}={v}")
    s += f"{d} {len(d)} {sorted(d)}" + sgc.gen("w")
    if d:
        out.append(list(d.values()))
    best = max(d, key=d.get)
    return d, out, best, list(d), d.copy(), [k for k in d if d[k] == 1]


@case
def dict_keys_arms(s, q: str):
    d = {}
    s += q + sgc.gen("v", max_tokens=1)
    if s["v"] == "yes":
        d["x"] = 1
        d["y"] = 2
    else:
        d["y"] = 3
        d["x"] = 4
    d["z"] = 1
    return d, d["x"]


@case
def dict_break(s, xs: list[str]):
    d = {}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        if s["v"] == "no":
            break
        d[x] = s["v"]
    else:
        d["all"] = "yes"
    s += str(d) + sgc.gen("e")
    return d


@case
def dict_missing(s, q: str):
    d = {"yes": 1}
    s += q + sgc.gen("v", max_tokens=1)
    return d[s["v"]]


@case
def dict_try(s, q: str):
    d = {"yes": 1}
    s += q + sgc.gen("v", max_tokens=1)
    try:
        return d[s["v"]]
    except KeyError:
        return -1


@case
def nested_loops_and_setdefault(s, xs: list[str]):
    d = {"first": "none"}
    for x in xs:
        for y in ("u", "v"):
            s += x + y + sgc.gen("v", max_tokens=1)
            d.setdefault(s["v"], x + y)
    e = dict_of(d)
    return d, e, "first" in d, d.get("nothing")


@case
def comprehensions(s, xs: list[str]):
    forks = s.fork_each(xs)
    for f in forks:
        f += f.item + sgc.gen("v", max_tokens=1)
    d = {f.item: f["v"] for f in forks}
    e = {x: len(x) for x in xs if x != "b"}
    g = dict(zip(xs, [f["v"] for f in forks]))
    s += str(d) + sgc.gen("w", max_tokens=1)
    h = {x: d[x] for x in d if d[x] != s["w"]}
    return d, e, g, h, {k: v for v, k in d.items()}


@case
def filled_before_and_in_a_loop(s, xs: list[str]):
    s += sgc.gen("v", max_tokens=1)
    d = {"k": 0}
    d[s["v"]] = 1
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        if s["v"] in d:
            d[s["v"]] += 1
        else:
            d[x] = d.get("yes", 5)
    return d


@case
def copies(s, q: str, made: dict[str, Any], pairs: Any):
    s += q + sgc.gen("v", max_tokens=1)
    meta = dict(s.meta("v"))
    d = dict(made)
    d[q] = s["v"]
    return d, dict(pairs), meta["finish_reason"], dict(d), made


@case
def lists_by_what_was_said(s, xs: list[str]):
    d, e = {}, {}
    for x in xs:
        s += x + sgc.gen("v", max_tokens=1)
        d.setdefault(s["v"], []).append(x)
    for i in range(3):
        s += f"{i}" + sgc.gen("v", max_tokens=1)
        e.setdefault(s["v"], []).append(len(e))
        if s["v"] == "yes":
            e.setdefault("k", []).extend([s["v"], i])
    s += str(d) + sgc.gen("w", max_tokens=1)
    return d, e, [len(v) for v in e.values()]


@case
def appended_to_what_is_no_list(s):
    d = {}
    s += "x" + sgc.gen("v", max_tokens=1)
    d[s["v"]] = "text"
    d.setdefault("yes", []).append(1)
    return d


def filled(s):
    d = {}
    for key in ("x", "y"):
        s += key + sgc.gen("v", max_tokens=1)
        if s["v"] in ("yes", "a"):
            d[key] = s["v"]
    return d


@case
def all_keys_of_what_some_paths_set(s):
    d, e = filled(s), filled(s)
    s += f"{sorted(d)} {len(d)}"
    for k, v in e.items():
        s += f"{k}={v};" + sgc.gen("w", max_tokens=1)
    e["new"] = "n"
    if len(d) > 1:
        s += "many" + sgc.gen("m", max_tokens=1)
    return (
        d,
        e,
        list(d),
        ",".join(e.values()),
        max(d, default="none"),
        {k: v * 2 for k, v in d.items()},
    )


@case
def all_keys_in_one_arm(s):
    d = filled(s)
    n = len(d) if s["v"] == "yes" else d.get("x")
    d["z"] = "again"
    return n, d, list(d)


def dict_of(d):
    e = d.copy()
    e["more"] = len(d)
    return e


@pytest.mark.parametrize("fn", PROGRAMS, ids=[fn.__name__ for fn in PROGRAMS])
@pytest.mark.parametrize("failing", [0, 4])
def test_equal_on_all_paths(fn: Callable[..., Any], failing: int) -> None:
    program = sgc.function(fn)
    names = [param.name for param in program.spec.params]
    rows = [{name: row[name] for name in names} for row in ROWS]
    assert len(assert_equal_on_paths(program, *rows, scripts=12, failing=failing)) > 1


def stored_list(s, x: str):
    items = ["a"]
    d = {}
    d[x] = items  # here
    items.append("b")
    return d


def list_in_a_list(s, x: str):
    items = ["a"]
    d = {}
    d.setdefault(x, []).append(items)  # here
    items.append("b")
    return d


def looked_up_list(s, x: str):
    items = ["a"]
    d = {"a": items}
    y = d[x]  # here
    items.append("b")
    return y


def arms_with_a_list(s, x: str):
    items = ["a"]
    d = {}
    if x == "a":  # here
        d["k"], d["l"] = items, 1
    else:
        d["l"], d["k"] = 1, items
    items.append("b")
    return d


def removed(s, x: str):
    d = {"a": 1}
    del d[x]  # here
    return d


def popped(s, x: str):
    d = {"a": 1}
    return d.pop(x)  # here


def spread_out(s, x: str):
    d = {}
    d[x] = 1
    return {**d, "more": 2}  # here


@pytest.mark.parametrize(
    "fn",
    [stored_list, list_in_a_list, looked_up_list, arms_with_a_list, removed, popped, spread_out],
)
def test_what_would_lose_a_name_or_is_not_compiled_is_refused(fn: Callable[..., Any]) -> None:
    source, first = inspect.getsourcelines(fn)
    expected = next(first + i for i, line in enumerate(source) if line.rstrip().endswith("# here"))
    with pytest.raises(sgc.CompileError) as caught:
        sgc.function(fn).compile()
    assert caught.value.line == expected, str(caught.value)
