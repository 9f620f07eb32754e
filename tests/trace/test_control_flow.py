"""Control flow on run-time values: compiled and interpreted are equal on every path."""

# The programs are what a user might write, not what a linter likes.
from __future__ import annotations

from typing import Any

import pytest
from support.paths import assert_equal_on_paths

import sgc


@sgc.function
def early_return(s, q: str = "x"):
    s += "Q:" + q + sgc.select("rel", ["yes", "no"])
    if s["rel"] == "no":
        return "unrelated"
    f = s.fork(2)
    for b in f:
        b += "go" + sgc.gen("v", max_tokens=3)
    return f[0]["v"] + f[1]["v"]


@sgc.function
def chain_of_choices(s):
    s += "A" + sgc.select("c", ["a", "b", "c", "d"])
    if s["c"] == "a":
        s += sgc.gen("x")
    elif s["c"] == "b":
        s += "B" + sgc.gen("x")
    elif s["c"] == "c":
        s += "C" + sgc.gen("x")
    elif s["c"] == "d":
        s += "D" + sgc.gen("x")
    else:
        s += sgc.gen("never")
    s += sgc.gen("after")
    return s["x"] + s["after"]


@sgc.function
def ifs_in_sequence(s):
    n = 0
    for i in range(4):
        s += f"q{i}" + sgc.gen("q", max_tokens=1)
        if s["q"] == "yes":
            s += "Y" + sgc.gen("a", max_tokens=1)
            n += 1
        else:
            s += "N" + sgc.gen("a", max_tokens=2)
        s += s["a"] + sgc.gen("b", max_tokens=1)
    return n, s["a"], s["b"]


@sgc.function
def nested(s):
    s += "1" + sgc.gen("a")
    if s["a"] == "yes":
        s += "2" + sgc.gen("b")
        if s["b"] == "yes":
            s += "3" + sgc.gen("c")
            if s["c"] != "yes":
                return "c"
            s += "4" + sgc.gen("d")
            if s["d"] == "no":
                return "d"
        elif s["b"] == "no":
            return "b"
        s += "end"
    s += "tail" + sgc.gen("e")
    return s["e"]


@sgc.function
def short_circuit(s):
    s += "1" + sgc.gen("a") + " 2" + sgc.gen("b", max_tokens=3) + " 3" + sgc.gen("c", max_tokens=9)
    if (s["a"] == "yes" and s["b"] != "no") or not s["c"].startswith("y"):
        s += "T" + sgc.gen("x")
    else:
        s += "F" + sgc.gen("x")
    v = (s["a"] == "yes" and s["b"]) or s["c"]
    w = (int(s["b"]) if s["b"].isdigit() else 0) + (1 if s["a"] == "no" else 5)
    return v, w, "good" if s["x"] == "a" else "bad"


@sgc.function
def matching(s):
    s += "m" + sgc.gen("v")
    match s["v"]:
        case "yes":
            s += "Y" + sgc.gen("x")
        case "no" | "a" as other if len(other) == 2:
            s += other
            return other
        case _:
            s += "D" + sgc.gen("x", max_tokens=2)
    return s["x"]


@sgc.function
def react(s):
    out: list[str] = []
    n = 0
    for i in range(4):
        s += f"step {i}" + sgc.gen("a")
        if s["a"] == "yes":
            break
        if s["a"] == "no":
            s += "skipped"
            continue
        out.append(s["a"])
        n += 1
    else:
        s += "none"
    s += sgc.gen("fin")
    return out, n, s["fin"]


@sgc.function
def inner_break(s):
    found = ""
    for i in range(2):
        for j in range(3):
            s += f"{i}{j}" + sgc.gen("v", max_tokens=1 + j)
            if s["v"] == "yes":
                found += f"({i}{j})"
                break
            if s["v"] == "no":
                continue
            s += "k"
        s += "|" + sgc.gen("w")
    return found


@sgc.function
def until_valid(s):
    for _ in range(3):
        s += "n:" + sgc.gen("n")
        if s["n"].strip().isdigit():
            break
    return s["n"]


@sgc.function
def bounded_loop(s):
    count = 0
    for _ in s.loop(max=5):
        s += "again" + sgc.gen("v")
        count += 1
        if s["v"] != "yes":
            break
    return count, s["v"]


@sgc.function
def counting_while(s):
    n = 0
    while n < 4:
        s += "w" + sgc.gen("v")
        n += 1 if s["v"] == "yes" else 2
    return n


@sgc.function
def one_arm_only(s):
    s += "a" + sgc.gen("a")
    if s["a"] == "yes":
        s += "b" + sgc.gen("v")
    x = s.get("v", "nothing")
    y = s["v"] + "!" if "v" in s else "?"
    s += x + sgc.gen("z")
    return x, y, s.get("z"), s.get("w", 3)


@sgc.function
def accumulating(s):
    items, text, seen = [], "", {}
    for i in range(3):
        s += f"{i}" + sgc.gen("v", max_tokens=1)
        if s["v"] == "yes":
            items.append(s["v"] + str(i))
            text += s["v"]
            seen[i] = s["v"]
        else:
            items.extend(["x", s["v"]])
            seen[i] = "none"
    s += ",".join(items) + text + str(len(items)) + sgc.gen("w")
    return items, text, seen, items[-1], items[0]


@sgc.tool(effect="irreversible")
def book(x):
    return "booked " + x


@sgc.tool(effect="pure")
def lookup(x):
    return {"found": x == "yes", "n": len(x)}


@sgc.function
def tools(s):
    s += "tool" + sgc.gen("v")
    r = sgc.call(lookup, s["v"])
    if r["found"]:
        s += sgc.call(book, s["v"])
    elif r["n"] > 2:
        s += "long"
    s += sgc.gen("z")
    return r


@sgc.function
def comparisons(s, allowed: list[str], limit: int):
    s += "c" + sgc.gen("n", dtype=int) + " " + sgc.gen("v")
    if 1 <= s["n"] < limit and s["v"] in allowed:
        return "in"
    if s["v"] in ["a", "7"] or len(s["v"]) > limit:
        s += sgc.gen("w")
        return s["w"]
    return "out" if s["n"] >= 3 else "low"


def helper(s, name):
    s += name + sgc.gen(name)
    if s[name] == "yes":
        return True
    if s[name] == "no":
        s += "was no"
    return False


@sgc.function
def helpers(s):
    if helper(s, "a") and not helper(s, "b"):
        s += "both" + sgc.gen("c")
    ok = helper(s, "d") or helper(s, "e")
    return "ok" if ok else "bad"


@sgc.function
def roles(s):
    s += sgc.system("be brief")
    with s.user():
        s += "hello"
        s += "?"
    s += sgc.assistant(sgc.gen("a"))
    if s["a"] == "yes":
        with s.user():
            s += "again"
            if s["a"] == "7":
                return "never"
        s += sgc.assistant(sgc.gen("b"))
    for i in range(2):
        with s.user():
            s += f"turn {i}"
            if s["a"] == "no":
                return "left"
        s += sgc.assistant(sgc.gen("c", max_tokens=i + 1))
    return s["c"]


@sgc.function
def failing_arms(s):
    s += "f" + sgc.gen("v")
    if s["v"] == "yes":
        raise ValueError("yes is wrong")
    if s["v"] == "no":
        s += "before"
        s += [][0]
    assert s["v"] != "7", "seven"
    n = int(s["v"]) if s["v"] == "7" else 3
    s += sgc.gen("w")
    return n


@sgc.function
def shared_lists(s):
    a: list[str] = []
    b = a
    c = ["c"]
    s += "l" + sgc.gen("v")
    if s["v"] == "yes":
        a.append("one")
        c = ["other", "list"]
    elif s["v"] == "no":
        b.append("two")
        b.append("three")
    a.append("last")
    c.append("end")
    empty = "empty" if not b else "full"
    return a, b, c, len(b), empty


class Box:
    def __init__(self) -> None:
        self.n = 0
        self.items: list[str] = []

    def hit(self, s, x):
        s += "hit" + sgc.gen("h")
        if s["h"] == "yes":
            self.n += 1
            self.items.append(x)
        elif self.n:
            self.n = 0
        return self.n


@sgc.function
def objects(s):
    box = Box()
    first = box.hit(s, "a")
    if first == 1:
        box.hit(s, "b")
    else:
        box.items.append("none")
    return box.n, box.items


CASES: list[tuple[sgc.Program, list[dict[str, Any]]]] = [
    (early_return, [{}]),
    (chain_of_choices, [{}]),
    (ifs_in_sequence, [{}]),
    (nested, [{}]),
    (short_circuit, [{}]),
    (matching, [{}]),
    (react, [{}]),
    (inner_break, [{}]),
    (until_valid, [{}]),
    (bounded_loop, [{}]),
    (counting_while, [{}]),
    (one_arm_only, [{}]),
    (accumulating, [{}]),
    (tools, [{}]),
    (comparisons, [{"allowed": ["yes"], "limit": 3}, {"allowed": [], "limit": 1}]),
    (helpers, [{}]),
    (roles, [{}]),
    (failing_arms, [{}]),
    (shared_lists, [{}]),
    (objects, [{}]),
]


@pytest.mark.parametrize(("program", "rows"), CASES, ids=lambda c: getattr(c, "name", ""))
def test_equal_on_every_path(program: sgc.Program, rows: list[dict[str, Any]]) -> None:
    assert len(assert_equal_on_paths(program, *rows, scripts=8)) > 1
