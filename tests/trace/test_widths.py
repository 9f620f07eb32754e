"""Branches and loops of run-time number: compiled and interpreted agree, ordinals included."""

# The programs are what a user might write, not what a linter likes.
# ruff: noqa: B007, C400, C416, C417, E501
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.tracer import assert_equal

import sgc

CASES: list[tuple[sgc.Program, tuple[dict[str, Any], ...]]] = []


def equal(*rows: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The program must do the same interpreted and compiled, for each row."""

    def note(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((sgc.function(fn), rows))
        return fn

    return note


@sgc.tool(effect="pure")
def widths_upper(x: str) -> str:
    return x.upper()


@sgc.tool(effect="irreversible")
def widths_record(x: str) -> int:
    return len(x)


@sgc.function
def sub(s, topic, k=1):
    s += f"About {topic}:" + sgc.gen("v", max_tokens=2)
    return s["v"].strip(), k


def pair(s, x):
    forks = s.fork(2)
    for i, g in enumerate(forks):
        g += f"{x}{i}" + sgc.gen("v", max_tokens=1)
    return forks


@equal(
    {"xs": ["a", "b"], "n": 3},
    {"xs": [], "n": 1},
    {"xs": ["q"], "n": 2},
    {"xs": list("abcd"), "n": 2},
)
def ordinals_where_only_some_branches_took_part(s, xs: list[str], n: int):
    s += "p"
    forks = s.fork(n)
    forks[0] += "zero" + sgc.gen("z", max_tokens=1)
    for f in forks:
        f += "all" + sgc.gen("a", max_tokens=1)
    for f, x in zip(forks, xs):
        f += x + sgc.gen("part", max_tokens=1) + sgc.gen("more", max_tokens=2)
    forks[0] += "again" + sgc.gen("zz", max_tokens=1)
    for i, f in enumerate(forks):
        f += f"end {i}" + sgc.gen("e", max_tokens=1)
    return [f["e"] for f in forks], [f["a"] for f in forks], forks[0]["zz"]


@equal({"xs": ["a", "b"], "ys": ["1", "2", "3"]}, {"xs": [], "ys": ["z"]}, {"xs": ["a"], "ys": []})
def sub_programs_in_nested_loops(s, xs: list[str], ys: list[str]):
    s += "x"
    first = sub("first")
    handles = [[sub(x + y) for y in ys] for x in xs]
    last = sub("last")
    flat = [h["v"] for row in handles for h in row]
    s += last["v"] + first["v"] + ",".join(flat) + sgc.gen("e", max_tokens=1)
    return flat, [h.value for row in handles for h in row]


@equal({"xs": ["a", "b"], "ys": ["1", "2", "3"]}, {"xs": [], "ys": []})
def tools_in_nested_loops(s, xs: list[str], ys: list[str]):
    s += sgc.gen("g0", max_tokens=1)
    r = [sgc.call(widths_upper, x) for x in xs]
    s += sgc.gen("g1", max_tokens=1)
    out = []
    for x in xs:
        for y in ys:
            out.append(sgc.call(widths_record, x + y))
    s += sgc.gen("g2", max_tokens=1)
    sgc.call(widths_record, "z")
    s += sgc.gen("g3", max_tokens=1)
    return r, out


@equal({"xs": ["a", "b"]}, {"xs": []})
def lists_that_grow_in_a_loop(s, xs: list[str]):
    out = ["first"]
    pairs = []
    for i, x in enumerate(xs):
        t = x + "!"
        out.append(t)
        pairs.append((i, x.upper()))
    out.append("last")
    s += " ".join(out) + sgc.gen("g", max_tokens=1)
    return out, pairs, len(out), [p[1] for p in pairs], [f"{i}{p}" for i, p in pairs], out[0]


@equal({"xs": ["a", "b"]}, {"xs": []})
def loop_statements(s, xs: list[str]):
    s += "w"
    a, b = [], ["0"]
    for i, x in enumerate(xs):
        tmp = [x]
        tmp.append("k")
        y = "".join(tmp)
        if i is None:
            continue
        a.append(y)
        b += [y + "b"]
        continue
    for y in a:
        unread = y  # noqa: F841
    out = []
    for x in xs:
        row = []
        for y in xs:
            row.append(x + y)
        out.append(row)
    flat = []
    for x in xs:
        for y in ["p", "q"]:
            pass
        for y in xs:
            flat.append(x + y)
    else:
        flat.append("else")
    s += sgc.gen("e", max_tokens=1)
    return a, b, out, flat, len(a), "ak" in a


@equal({"xs": ["a", "b"]}, {"xs": []})
def copies_in_a_loop(s, xs: list[str]):
    s += "root"
    got = []
    for x in xs:
        with s.copy() as t:
            t += x + sgc.gen("v", max_tokens=1)
        got.append(t["v"])
    f = s.fork(2)
    f += sgc.gen("w", max_tokens=1)
    s += "".join(got) + sgc.gen("e", max_tokens=1)
    f.join()
    return got, s["w"]


@equal({"xs": ["a", "b", "c"]}, {"xs": []})
def forks_in_a_comprehension(s, xs: list[str]):
    s += "root"
    got = [[g["v"] for g in pair(s, x)] for x in xs]
    s += sgc.gen("e", max_tokens=1)
    return got


@equal({"n": 3}, {"n": 1})
def branches_by_number(s, n: int):
    s += "p"
    forks = s.fork(n)
    for i in range(n):
        forks[i] += f"{i}" + sgc.gen("v", max_tokens=1)
    for i in range(len(forks)):
        forks[i] += forks[i]["v"] + sgc.gen("w", max_tokens=1)
    last = forks[-1]["w"]
    return [forks[i]["w"] for i in range(n)], last, forks[n - 1]["v"]


@equal({"n": 2})
def unnamed_gens_in_branches(s, n: int):
    s += "p" + sgc.gen(max_tokens=1)
    forks = s.fork(n)
    for f in forks:
        f += "q" + sgc.gen(max_tokens=1) + sgc.gen(max_tokens=2)
    for f in forks:
        f += f["_1"] + f["_2"] + sgc.gen(max_tokens=1)
    return [f["_3"] for f in forks], s["_1"]


@equal({"n": 3})
def lists_of_branches(s, n: int):
    s += "p"
    forks = s.fork(n)
    kept = []
    for i, f in enumerate(forks):
        f += f"{i}" + sgc.gen("v", max_tokens=1)
        kept.append((i, f))
    other = [f for f in forks]
    s += (
        "".join(f["v"] for _, f in kept)
        + "".join(f["v"] for f in other)
        + sgc.gen("e", max_tokens=1)
    )
    return [i for i, _ in kept], other[0]["v"], other[-1]["v"], list(forks)[1]["v"]


@equal({"xs": ["a", "b"]})
def lists_of_handles(s, xs: list[str]):
    handles = []
    for x in xs:
        handles.append(sub(x))
    pairs = [(x, h) for x, h in zip(xs, handles)]
    s += "".join(x + h["v"] for x, h in pairs) + handles[0]["v"] + sgc.gen("e", max_tokens=1)
    records = [{"h": h, "x": x} for x, h in pairs]
    values = [e["h"].value for e in records]
    return values, [e["x"] for e in records], handles[1].text(), [h.get("v") for h in handles]


@equal({"q": "z", "n": 2})
def variables_that_branches_set(s, q: str, n: int):
    s.set("a", ["k", q])
    s.set("b", 1)
    forks = s.fork(n)
    for i, f in enumerate(forks):
        f.set("i", i)
        f.set("l", [i, q])
        f.set("b", f["b"] + i)
        f += str(f["a"]) + str(f["l"]) + str(f["i"] + 1) + sgc.gen("v", max_tokens=1)
    for f in forks:
        f += (
            str(f["b"])
            + str("nope" in f)
            + f.get("nope", "d")
            + f["l"][1]
            + sgc.gen("w", max_tokens=1)
        )
    forks.join()
    return s["i"], s["l"], s["b"], s["w"], s.meta("w")[0]["finish_reason"]


@equal({"n": 3, "ys": ["a"]}, {"n": 2, "ys": ["a", "b", "c"]})
def inherited_variable_in_branches_that_a_walk_left_out(s, n: int, ys: list[str]):
    s.set("last", "from before")
    forks = s.fork(n)
    for f, y in zip(forks, ys):
        f += y + sgc.gen("last", max_tokens=1)
    return [f["last"] for f in forks]


@equal({"xs": ["a", "b"]})
def turns_in_branches(s, xs: list[str]):
    s += sgc.system("sys")
    forks = s.fork_each(xs)
    for f in forks:
        with f.user():
            f += f.item
            f += "?"
        f += sgc.assistant(sgc.gen("v", max_tokens=1) + "end")
        f.set("turns", f.messages())
    forks.join()
    s += sgc.user(str(s["turns"]) + "".join(s["v"]))
    s += sgc.assistant(sgc.gen("z", max_tokens=1))
    return s["turns"]


@equal({"n": 2, "xs": ["u", "v"]}, {"n": 1, "xs": []})
def families_in_families(s, n: int, xs: list[str]):
    s += "p"
    forks = s.fork(n)
    for i, f in enumerate(forks):
        inner = f.fork_each(xs)
        for g in inner:
            g += f"{i}{g.item}" + sgc.gen("v", max_tokens=1)
            g.set("k", i)
        handles = [sub(x) for x in xs]
        f += "".join(h["v"] for h in handles) + sgc.gen("w", max_tokens=1)
        f += "".join(g["v"] for g in inner)
    end = sub("end")
    forks.join()
    s += end["v"] + sgc.gen("q", max_tokens=1)
    return s["w"], len(forks)


@equal({"n": 2})
def texts_of_branches(s, n: int):
    s += "root"
    forks = s.fork(n)
    for f in forks:
        with f.var_scope("sc"):
            f += "x" + sgc.gen("v", max_tokens=1)
        f += f.text() + f["sc"]
    texts = [f.text() for f in forks]
    forks.join("append")
    return texts, s.text(), forks[0]["sc"]


@equal({"xs": ["a", "b"], "n": 2}, {"xs": [], "n": 1})
def walks_of_every_kind(s, xs: list[str], n: int):
    s += "w" + sgc.gen("v", max_tokens=1)
    found = [
        list(enumerate(xs, n)), list(zip(xs, range(n), [s["v"]] * 2)), list(map(lambda x: x + "m", xs)),
        [a + str(b) for b, a in enumerate(reversed(xs))], list(x + "g" for x in xs),
        sum(len(x) for x in xs), ",".join(x for x in xs), [i * n for i in range(n)],
        max(xs, default="none"), min((len(x) for x in xs), default=0), tuple(x for x in xs), xs[0:1],
        any(x == "a" for x in xs), all(len(x) > 0 for x in xs), [y + x for x in ["s", "t"] for y in xs],
        sorted(xs, key=lambda x: x * 2, reverse=True), sorted(xs, key=len), list(reversed(xs)),
    ]  # fmt: skip
    two = [(x, i) for i, x in enumerate(xs)]
    nest = [[y for y in xs] for x in xs]
    return found, [f"{i}{x}" for x, i in two], [y for row in nest for y in row]


@equal({"n": 2, "xs": ["a", "b"]})
def appending_to_all_branches(s, n: int, xs: list[str]):
    forks = s.fork(n)
    forks += " all"
    forks += lambda i: f" no {i}"
    forks += sgc.gen("v", max_tokens=1)
    each = s.fork_each(xs)
    each += [x + "!" for x in xs]
    each += sgc.gen("w", max_tokens=1)
    return [f.text() for f in forks], [f.text() for f in each]


@equal({"q": "hey"})
def bodies_in_other_streams(s, q: str):
    s += "a"
    v = s.call(sub, q)
    f = s.fork(2)
    f[0] += "b"
    w = f[0].call(sub, "w", k=3)
    f.join("append")
    h = sub(q)
    s += h.text() + w[0] + sgc.gen("e", max_tokens=1)
    return v, w, h.value, h.get("nope", 1), "v" in h, h.messages(), h.meta("v")["finish_reason"]


@pytest.mark.parametrize(("program", "rows"), CASES, ids=[p.spec.name for p, _ in CASES])
def test_compiled_equals_interpreted(
    program: sgc.Program, rows: tuple[dict[str, Any], ...]
) -> None:
    assert_equal(program, *rows)
