"""Values of programs: compiled and interpreted agree on expressions, data, objects and callbacks."""

# The programs are what a user might write, not what a linter likes.
# ruff: noqa: C416, E501, E741, RUF005, RUF059, UP031, UP032
from __future__ import annotations

import collections
import dataclasses
import functools
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


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Record:
    q: str
    xs: list


class Box:
    def __init__(self, q):
        self.q = q
        self.xs = []

    def add(self, x):
        self.xs.append(self.q + x)

    @property
    def shout(self):
        return self.q.upper() + ("" if not self.xs else "!")

    @functools.cached_property
    def twice(self):
        return self.q * 2

    def __str__(self):
        return f"<{self.q}>"

    def __format__(self, spec):
        return f"{self.q:{spec}}" if spec else str(self)

    def __add__(self, other):
        return self.q + other

    def __len__(self):
        return len(self.xs)

    def __iter__(self):
        return iter(self.xs)

    def __contains__(self, x):
        return x == "w"

    def __call__(self, x):
        return x + self.q

    def __enter__(self):
        self.xs.append("in")
        return self

    def __exit__(self, *error):
        self.xs.append(self.q)


def deco(fn):
    @functools.wraps(fn)
    def inner(s, *args, **kw):
        s += "wrapped "
        return fn(s, *args, **kw)

    return inner


@equal({"a": "x", "b": 3}, {"a": "", "b": 0})
def expressions(s, a: str, b: int):
    s += "t" + sgc.gen("v", max_tokens=2)
    r = [
        a * b, (b + 1) / 2, -b, abs(-b), a < "y", b > 2 and "big", not a, a in ["x"], a not in ("q",),
        b == 3.0, "yes" if b else "no", a.strip() or "none", min(a, "b"), max([b, 2]), round(b / 7, 2),
        f"{b:>4}|{a!r:^7}", "%s/%03d" % (a, b), "{0}{k:>3}".format(a, k=b), a[::-1], (a + "k")[0],
        str(b), int("4") + b, float(b), [a, b] + ["c"], [a] * 2, (a, b)[0], (a,) + (b,), sorted([b, 1]),
        sum([b, 1], 5), list(range(b)), [i * 2 for i in range(b)], any([a == "x", b]), all([a, b == 0]),
        list(enumerate(a)), list(zip(a, [1])), s["v"].split(), s["v"].upper(), len(s["v"]), bool(a),
        [w.lower() for w in s["v"].split()], isinstance([a], list), {"k": a}["k"], a is None,
        a in {"x", "y"}, b in range(9), a == "x" == a, 0 <= b < 5, [[a]][0][0], a in {"x": 1},
    ]  # fmt: skip
    s += str(r[0]) + sgc.gen("e", max_tokens=b + 1)
    return r


@equal({"x": 5, "y": 2.5, "b": True}, {"x": -2, "y": 1e20, "b": False})
def numbers(s, x: int, y: float, b: bool):
    z = x
    z += 1
    z *= 2
    z -= y
    z //= 1
    z **= 2
    z %= 7
    z /= 3
    r = [
        z, x**2, 2 ** abs(x), x % 3, 10 // x, -x, +x, abs(-x), divmod(7, 2), x > 3, 1 < x < 10,
        x == 5.0 and b, not b, round(y), round(y, 1), int(y), float(x), str(x), bool(x), max(x, y),
        min(x, 2), sum([x, y, 1]), f"{x:,}|{y:.3f}|{b!s:>6}", "%d %s" % (x, y), x if b else y,
    ]  # fmt: skip
    s += str(r)
    return r


@equal({"d": {"k": [1, 2], "z": {"y": "w"}}, "l": [[1, 2], [3, 4]]})
def data(s, d, l):
    s += f"{d['k'][0]} {d.get('no', 'def')} {list(d)} {d.items()}" + sgc.gen("e", max_tokens=1)
    a, b = l
    x, y = d["k"]
    pairs = [p + q for p, q in l]
    rest = {"v": d["z"]["y"], "sum": sum(d["k"]), "n": x + y}
    return pairs, rest, a, [k for k in d], l[0][1:], len(d["z"]), "k" in d, sorted(d.keys())


@equal({"q": "v"})
def objects(s, q: str):
    box = Box(q)
    box.add("w")
    record = Record(q, [q])
    point = Point(q, 2)
    with box as inside:
        s += f"{box} {box:>4} {box.shout} {box.twice} {box + '!'} {len(box)} {inside('c')}"
    s += record.xs[0] + point.x + sgc.gen("e", max_tokens=1)
    record.q += "z"
    return box.xs, record.q, point[1], [*box], [x + "." for x in box], "w" in box


@equal({"q": "zz"})
def callbacks(s, q: str):
    d = {"up": str.upper, "add": lambda v: v + "!", "strip": q.strip}

    @deco
    def ask(s, a, b=2):
        s += a + str(b)
        return s.text()

    r = ask(s, q, b=3)
    names = [fn(q) for k, fn in d.items() if k != "strip"]
    m = list(map(str.upper, [q, "k"])) + list(map(lambda a, b: a + b, [q], ["w"]))
    down = functools.partial(sorted, reverse=True)
    s += sgc.gen("e", max_tokens=1)
    return r, names, d["strip"](), m, down([q, "a"]), str.join("-", [q, q]), "-".join([q] * 2)


@equal({"q": "zz"})
def sorting(s, q: str):
    s += q + sgc.gen("a", max_tokens=1) + sgc.gen("b", max_tokens=1)
    l = [s["a"], s["b"], q, "m"]
    best, worst = max(l, key=len), min(l, key=lambda x: x.strip())
    l.sort(key=lambda x: x.strip())
    ranked = sorted(l, reverse=True)
    return l, best, worst, ranked, l.index(q), l.count("m"), q in l, sgc.vote([q, "m", q])


@equal({"q": "z"})
def operands_are_copied(s, q: str):
    l = [q]
    before = ",".join(l)
    l.append("z")
    d = {"a": l}
    s.set("v", l)
    l.append("y")
    s["v"].append("w")
    x = s["v"]
    d["b"] = d["a"] + [q]
    l2 = list(l)
    l2[0] = "new"
    l.insert(0, "i")
    l.pop()
    st = {"k": 1}
    st.update(q=q)
    st.setdefault("w", q)
    s += before + str(l) + str(x) + sgc.gen("e", max_tokens=1)
    f = s.fork(2)
    f[0].set("v", ["f"])
    return l, d, x, st, l2, f[0]["v"], f[1]["v"], sorted(st)


@equal({"q": "z"})
def pitfalls(s, q: str):
    s += sgc.gen("v", max_tokens=1)
    s += s["v"] + sgc.gen("w", max_tokens=1)
    x = "outer"
    shadow = [x for x in [x, q]]
    text = "a" + ("x" if q == "z" else "y") + ("u" if q == "k" else "v")
    once = 1 if q == "z" else True
    zero = 0.0 if q == "z" else -0.0
    d = {}
    d.setdefault("k", q)
    return shadow, text, once, zero, d, f"{s['v']}!" == "yes!", [q].count("a") >= 1, not [q]


@sgc.function
def values_sub(s, topic):
    s += topic + sgc.gen("v", max_tokens=1)


@equal({"q": "one two", "n": 2})
def identities(s, q: str, n: int):
    forks, others = s.fork(2), s.fork(n)
    a, b = forks
    h = values_sub(q)
    k = values_sub(q)
    same = [h, forks[0]]
    return (
        a is forks[0],
        a is b,
        a == b,
        h is k,
        k in same,
        h in same,
        b not in same,
        others[0] is others[0],
        a is others[0],
    )


@equal({"q": "one two"})
def var_scopes_and_turns(s, q: str):
    s += "A"
    with s.var_scope("outer"):
        s += q
        with s.user():
            s += "in role"
        s += sgc.gen("g", max_tokens=1)
    with s.copy() as c:
        c += s["outer"]
        with c.var_scope("in"):
            c += "zz" + sgc.gen("h", max_tokens=1)
    return s["outer"], c["in"], c.text(), s.messages(), c["g"]


@equal({"q": "x", "n": 2})
def concrete_exits(s, q: str, n: int):
    for i in range(5):
        try:
            with s.user():
                s += f"{i}{q}"
                if i == 1:
                    continue
                if i == 3:
                    break
        finally:
            s += "f"
        s += "end"
    else:
        s += "never"
    assert i == 3
    s += sgc.gen("g", max_tokens=n)
    return s.text()


@pytest.mark.parametrize(("program", "rows"), CASES, ids=[p.spec.name for p, _ in CASES])
def test_compiled_equals_interpreted(
    program: sgc.Program, rows: tuple[dict[str, Any], ...]
) -> None:
    assert_equal(program, *rows)
