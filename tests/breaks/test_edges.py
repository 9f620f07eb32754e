"""Edges of runs in compiled parts: errors, `try`, tools, shared state, local functions, handles."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from support.tracer import pick

import sgc
from sgc.testing import ScriptedBackend

SAVED: list[str] = []
CACHE = {"x": "cached"}
SETTINGS = {"k": ["v"]}


def reply(prompt: str, params: Any) -> str:
    return f"word{pick(prompt) % 7} r{pick(prompt, 'r') % 5}"


def fail(prompt: str) -> Exception | None:
    return RuntimeError("told to fail") if "BAD" in prompt else None


def outcome(program: sgc.Program, row: dict[str, Any], mode: str) -> dict[str, Any]:
    SAVED.clear()
    CACHE.clear()
    CACHE["x"] = "cached"
    backend = ScriptedBackend(reply, fail=fail)
    state = program.run_batch([row], backend=backend, mode=mode)[0]
    error = state.error()
    found: dict[str, Any] = {
        "calls": sorted(repr(call) for call in backend.calls),
        "saved": list(SAVED),
        "cache": dict(CACHE),
        "error": None,
    }
    if error is not None:
        place = [getattr(error, name) for name in ("program", "instance", "node", "source")]
        return found | {"error": (type(error).__name__, str(error), place)}
    return found | {
        "vars": list(state.vars.items()),
        "value": state.value,
        "text": state.text(),
        "messages": state.messages(),
        "usage": state.usage,
        "metas": [state.meta(name) for name in state.vars],
    }


@sgc.tool(effect="irreversible")
def save(x: str) -> int:
    SAVED.append(x)
    return len(x)


@sgc.function
def child(s, x):
    s += x + sgc.gen("a")
    f = s.fork(2)
    for g in f:
        g += "z" + sgc.gen("y")
    n = int(re.sub("[^0-9]", "", s["a"]) or "x") if "q" in x else 0
    s += str(n) + sgc.gen("b")
    return s["b"]


@sgc.function
def parent(s, x):
    h = child(x)
    try:
        v = h.value
    except sgc.GenerationError:
        v = "failed"
    except ValueError:
        v = "value"
    s += v + sgc.gen("c")
    e = h.error()
    s += str(type(e).__name__)
    return s["c"], e is None


@sgc.function
def failing(s, x):
    s += "a" + sgc.gen("a")
    w = re.sub("w", "v", s["a"])
    s += x + w + sgc.gen("b")
    t = s["b"] + "!"
    with s.copy() as c:
        c += "more" + sgc.gen("d")
    s += t + sgc.gen("c")
    return t


@sgc.function
def caught(s, x):
    fs = s.fork(2)
    for i, f in enumerate(fs):
        f += f"{i}{x if i else 'ok'}" + sgc.gen("v")
    got = []
    for f in fs:
        try:
            got.append(f["v"])
        except sgc.GenerationError as err:
            got.append("E:" + err.node)
    s += re.sub("o", "0", "-".join(got)) + sgc.gen("end")
    return got


@sgc.function
def finals(s, x):
    seen = []
    try:
        with s.user():
            s += x
        s += sgc.gen("a")
        seen.append(re.sub("w", "W", s["a"]))
        return seen
    finally:
        seen.append("end")
        s += "fin"


@sgc.function
def expr(s, x):
    s += sgc.gen("a")
    re.sub("a", "b", s["a"])
    s += sgc.gen("b")
    n = int(s["b"] + x)
    s += str(n)
    return n


@sgc.function
def tryin(s, x):
    fs = s.fork(2)
    fs[0] += x + sgc.gen("a")
    fs[1] += "ok" + sgc.gen("a")
    try:
        v = fs[0]["a"]
    except sgc.GenerationError as e:
        v = "caught " + e.node
    s += v
    n = sgc.call(save, v)
    s += str(n) + re.sub("w", "x", fs[1]["a"])
    s += sgc.gen("b")
    m = sgc.call(save, s["b"])
    return v, n, m


@sgc.function
def child2(s, x):
    s += x + sgc.gen("a")
    if s["a"] == "nope":
        return "n"
    s += sgc.gen("b")
    return re.sub("a", "b", s["b"])


@sgc.function
def subs(s, xs: list):
    hs = [child2(x) for x in xs]
    out = []
    for h in hs:
        try:
            out.append(h.value)
        except sgc.GenerationError:
            out.append("failed")
    s += " ".join(out) + sgc.gen("z")
    w = re.sub("w", "x", s["z"])
    hs2 = [failing(x) for x in xs]
    s += w + " ".join(h["b"] for h in hs2)
    return out


@sgc.function
def loops(s, x, n: int):
    outs = {}
    for i in range(n):
        s += f"{i}: " + sgc.gen("v", max_tokens=3)
        outs[i] = re.sub("w", "x", s["v"])
        if outs[i].endswith("3"):
            continue
        with s.user():
            s += "u" + outs[i]
        with s.assistant():
            s += sgc.gen(f"r{i}")
        if "r1" in s[f"r{i}"]:
            break
    else:
        s += "all"
    with s.var_scope("sc"):
        s += "scoped" + sgc.gen("sg")
    bs = s.fork_each(list(outs.values()))
    for b in bs:
        b += b.item + sgc.gen("w")
    best = max(bs, key=lambda b: len(re.sub("r", "", b["w"])))
    best += "more" + sgc.gen("w2")
    bs.join("append")
    s += best["w2"]
    return outs, s["sc"], s.text()[-5:], [m["role"] for m in s.messages()]


@sgc.function
def shared(s, q: str):
    s += q + sgc.gen("a")
    CACHE[q] = s["a"]
    t = CACHE.get("x") + SETTINGS["k"][0]
    SAVED.append(q)
    s += t + re.sub("r", "R", s["a"])
    items = SETTINGS["k"]
    s += items[0] + sgc.gen("b")
    m = [s["b"]]
    for x in items:
        m.append(x)
    return m, len(CACHE) > 1


def outer():
    box = {"n": 0}

    @sgc.function
    def inner(s, q):
        def add(k, extra=2):
            box["n"] += k
            return box["n"] + extra

        s += q + sgc.gen("a")
        n = add(3)
        s += f"{n}" + re.sub("x", "y", s["a"])
        s += sgc.gen("b") + str(add(1))
        key = lambda v: v + q  # noqa: E731
        s += key("z")
        with s.copy() as t:
            t += "copy" + sgc.gen("c")
        s += t["c"]
        try:
            x = s["nope"]
        except sgc.GenerationError:
            x = "caught"
        s += x
        w = 0
        while True:
            w += 1
            s += sgc.gen("w")
            if re.search("r[01]", s["w"]) or w > 3:
                break
            else:
                continue
        else:
            s += "never"
        match re.sub("w", "v", s["w"]):
            case "a" | "b":
                s += "ab"
            case str(z) if z.startswith("v"):
                s += z + sgc.gen("m")
            case _:
                s += "?"
        del w
        return t.text(), box["n"] > 0

    return inner


@sgc.function
def item(s, x):
    s += f"item {x}" + sgc.gen("a", max_tokens=2)
    return s["a"]


@sgc.function
def hi(s, xs: list):
    got = sgc.map(item, xs)
    vals = [h.value for h in got] if hasattr(got[0], "value") else list(got)
    s += re.sub("w", "v", " ".join(map(str, vals)))
    s += sgc.gen("b")
    bs = s.fork(3)
    for i, b in enumerate(bs):
        b += f"{i}" + sgc.gen("c")
    k = sgc.first(2, bs)
    s += str(len(k)) + re.sub("a", "b", s["b"]) + sgc.gen("d")
    v = sgc.vote([s["b"], s["d"], s["b"]])
    s += v
    return vals, v


@sgc.function
def streams(s, x):
    s += x + sgc.gen("a")
    t = "".join(s.stream("a"))
    with s.user():
        s += re.sub("w", "v", t)
        s += "more"
    m = s.meta("a")["finish_reason"]
    s += sgc.assistant(sgc.gen("b") + " end")
    u = s.copy()
    with u as c:
        c += sgc.gen("n")
    n = len(c["n"])
    sq = [i * i for i in range(n)]
    s += str(sq) + sgc.select("z", ["p", "q"])
    if s["z"] == "p" and n > 2:
        return m, t, {"k": [sq, (n, c["n"])]}
    return m, t, {"k": None}


@sgc.function
def races(s, x):
    runs = [item(x), item("y")]
    s += "runs" + sgc.gen("a")
    s += re.sub("w", "v", str(sgc.first(2, runs)))
    s += sgc.gen("b")
    if x == "q":
        s += re.sub("w", "v", str(sgc.first(1, [runs[0], runs[0]])))
    return runs[1].value


class Note:
    def __init__(self, text: str) -> None:
        self.text = text


@sgc.function
def objects(s, x):
    note, kept = Note(x), defaultdict(list)
    s += note.text + sgc.gen("a")
    note.text = s["a"]
    kept[x].append(note)
    s += re.sub("w", "v", note.text) + sgc.gen("b")
    alias = kept[x][0]
    alias.text += s["b"]
    del note.text
    note.text = "new" + s["b"]
    with suppress(ValueError):
        s += str(int(s["b"]))
    pair = (note, [s["a"], (s["b"],)])
    s += re.sub("r", "R", pair[0].text) + sgc.gen("c")
    pair[1].append(s["c"])
    return alias.text, pair[1], list(kept), alias is note


ROWS: list[tuple[Callable[[], sgc.Program], dict[str, Any]]] = [
    *[(lambda: parent, {"x": x}) for x in ("x", "BAD", "q")],
    *[(lambda p=p: p, {"x": x}) for p in (failing, caught, finals, expr, tryin) for x in "xy"],
    *[(lambda p=p: p, {"x": "BAD"}) for p in (failing, caught, finals, expr, tryin)],
    *[(lambda: subs, {"xs": xs}) for xs in (["x", "y"], ["BAD", "y"], [])],
    *[(lambda: loops, {"x": "q", "n": n}) for n in (0, 1, 3, 5)],
    (lambda: shared, {"q": "u"}),
    (lambda: hi, {"xs": ["a", "b", "c"]}),
    *[(lambda: races, {"x": x}) for x in "xq"],
    *[(lambda: streams, {"x": x}) for x in ("a", "bb", "BAD")],
    *[(lambda: objects, {"x": x}) for x in ("a", "bb", "BAD")],
    (outer, {"q": "hi"}),
]


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_all_is_as_interpreted(number: int) -> None:
    make, row = ROWS[number]
    live = outcome(make(), row, "interpreted")
    program = make()
    mixed = outcome(program, row, "auto")
    assert program.breaks is not None
    assert mixed == live


def test_rows_side_by_side_keep_apart() -> None:
    rows = [{"x": f"{i}", "n": i % 4} for i in range(24)]
    both = [
        [
            (state.value, state.text())
            for state in loops.run_batch(rows, backend=ScriptedBackend(reply), mode=mode)
        ]
        for mode in ("interpreted", "auto")
    ]
    assert both[0] == both[1]


def test_a_long_loop_that_python_runs_has_a_budget_for_each_region(monkeypatch) -> None:
    monkeypatch.setattr("sgc.trace.context.MAX_NODES", 60)

    @sgc.function
    def program(s, n: int):
        found = []
        for i in range(n):
            s += f"{i}" + sgc.gen("a", max_tokens=2)
            found.append(re.sub("w", "v", s["a"]))
        return found

    values = [
        program.run(n=40, backend=ScriptedBackend(reply), mode=mode).value
        for mode in ("interpreted", "auto")
    ]
    assert values[0] == values[1]
    assert program.breaks is not None
    assert [found.reason.count("re.sub") > 0 for found in program.breaks.breaks()] == [True]


def test_a_function_that_looks_at_itself_runs_as_a_whole() -> None:
    @sgc.function
    def program(s, q):
        s += q + sgc.gen("a")
        return sorted(locals())

    state = program.run(q="x", backend=ScriptedBackend(reply))
    assert state.value == ["q", "s"]
    assert program.breaks is not None
    assert program.breaks.share == 0


def test_a_try_behind_a_break_is_compiled() -> None:
    @sgc.function
    def counted(s, question: str):
        s += "Q: " + question
        plain = re.sub("[^a-z]", "", question + str(len(s.text())))
        try:
            s += sgc.gen("n", dtype=int, max_tokens=4)
            number = s["n"]
        except sgc.GenerationError:
            number = -1
        s += f"\n{plain} {number}"
        return number

    for reply, value in (("12 ", 12), ("none", -1)):
        states = []
        for mode in ("auto", "interpreted"):
            backend = ScriptedBackend(lambda prompt, params, reply=reply: reply)
            states.append(counted.run("a?", backend=backend, mode=mode))
        assert [state.value for state in states] == [value, value]
        assert states[0].text() == states[1].text()
    assert all("re.sub" in found.reason for found in counted.breaks.breaks())
