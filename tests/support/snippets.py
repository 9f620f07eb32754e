"""Plain Python functions, each with arguments: rewritten they must do what Python does."""

# The functions show odd corners of the language, which a linter would straighten.
# ruff: noqa: B006, B012, B018, B023, C400, C406, C408, C416, E731, E741, F821, UP031, UP032
from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import operator
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
Point = namedtuple("Point", "x y")


def case(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def note(fn: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((fn, args))
        return fn

    return note


@dataclasses.dataclass
class Box:
    value: int
    items: list[int] = dataclasses.field(default_factory=list)

    def __add__(self, other: Any) -> Box:
        return Box(self.value + (other.value if isinstance(other, Box) else other))

    def __radd__(self, other: int) -> Box:
        return Box(other + self.value)

    def __iadd__(self, other: int) -> Box:
        self.value += other
        return self

    def __lt__(self, other: Box) -> bool:
        return self.value < other.value

    def __bool__(self) -> bool:
        return self.value != 0

    def __contains__(self, item: int) -> bool:
        return item in self.items

    def __getitem__(self, index: int) -> int:
        return self.items[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.items[index] = value

    def __iter__(self) -> Any:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __call__(self, factor: int = 2) -> int:
        return self.value * factor

    def __format__(self, spec: str) -> str:
        return f"<{self.value:{spec}}>"

    @property
    def double(self) -> int:
        return self.value * 2

    @double.setter
    def double(self, value: int) -> None:
        self.value = value // 2

    @functools.cached_property
    def triple(self) -> int:
        return self.value * 3

    @staticmethod
    def static(x: int) -> int:
        return x + 1

    @classmethod
    def make(cls, x: int) -> Box:
        return cls(x)


class Private:
    def __init__(self, x: int) -> None:
        self.__x = x

    def get(self) -> int:
        return self.__x + 1


class Context:
    def __init__(self, log: list[str], swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> str:
        self.log.append("in")
        return "entered"

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        self.log.append("out" if kind is None else kind.__name__)
        return self.swallow


@case(7, 2)
def arithmetic(a, b):
    c = a + b * 2 - a // b + a % b + a**b - -a
    c += 1
    c -= 2
    c *= 3
    c //= 2
    c %= 100
    d = a / b
    return c, d, +a, ~a, a & b, a | b, a ^ b, a << b, a >> 1, divmod(a, b), 1 < a < 10 >= b != 3


@case("x")
def texts(s):
    a = f"{s!r:>6}|{s:<3}|{1.5:.2f}|{[s]}|{{}}|{s + 'y'!s}|{'nested' + f'{s}'}"
    b = "%s-%d" % (s, 3) + "{} {k}".format(s, k=1)
    b += "%"
    b %= ()
    return a, b, s * 3, s in "xyz", s not in "abc", "abc"[1], "abcdef"[1:-1:2]


@case([3, 1, 2])
def loops(items):
    out = []
    for i, x in enumerate(items, 1):
        if x == 1:
            continue
        out.append((i, x))
    else:
        out.append("else")
    for x in items:
        if x == 1:
            break
    else:
        out.append("never")
    n = 0
    while True:
        n += 1
        if n > 3:
            break
    while n:
        n -= 1
    else:
        out.append("done")
    return out, x, n


@case(5)
@case(-1)
@case(0)
def branches(n):
    if n > 3:
        return "big"
    elif n < 0:
        result = "negative"
    else:
        for i in range(3):
            for j in range(3):
                if i * j == 2:
                    return i, j
        result = "zero"
    return result


@case()
def comprehensions():
    x = "outer"
    a = [x * y for x in range(3) for y in range(x) if y % 2 == 0]
    b = {k: v for k, v in zip("ab", (1, 2))}
    c = {i % 3 for i in range(9)}
    d = list(i for i in range(5) if i if i > 2)
    e = [[j for j in range(i)] for i in range(3)]
    f = [x for x in x]
    g = [(lambda: i)() for i in range(3)]
    late = [lambda: i for i in range(3)]
    return a, b, c, d, e, f, g, [h() for h in late], x


@case()
def walrus():
    if (n := 10) > 5:
        m = [last := i for i in range(n)]
    total = 0
    while (total := total + 3) < 10:
        pass
    return n, m, last, total


@case()
def unpacking():
    a, (b, *c), d = 1, (2, 3, 4), 5
    [e, f] = "xy"
    *g, h = [1, 2, 3]
    i = j = [0]
    i.append(1)
    k, l = l, k = 1, 2
    first, *rest = (v for v in range(4))
    box = Box(0, [0, 0])
    box.value, box[1] = 8, 9
    return a, b, c, d, e, f, g, h, j, k, l, first, rest, box, [*g, *"ab"], {**{"x": 1}, "y": 2}


@case()
def functions():
    def outer(a, b=2, *args, c, d=4, **kwargs):
        def inner():
            return a + b + len(args) + c + d + len(kwargs)

        return inner

    def recursive(n):
        return 1 if n < 2 else n * recursive(n - 1)

    def counter():
        seen = []

        def add(x):
            seen.append(x)
            return len(seen)

        return add

    add = counter()
    add(1)
    apply = lambda f, *xs, k=1: f(*xs) + k
    return outer(1, c=3)(), outer(1, 2, 3, 4, c=5, e=6)(), recursive(6), add(2), apply(max, 3, 9)


@case()
def defaults_evaluated_once():
    def f(x, seen=[]):
        seen.append(x)
        return list(seen)

    f(1)
    return f(2), f.__name__, f.__defaults__


@case(3)
def decorators(n):
    def twice(fn):
        @functools.wraps(fn)
        def wrapper(*args):
            return fn(*args) * 2

        return wrapper

    @twice
    @twice
    def f(x):
        return x + 1

    return f(n), f.__name__


@case({"a": 1, "kind": "point", "x": 2})
@case([1, [2, 3], 4])
@case((1, 2))
@case(Point(1, 5))
@case(Box(7))
@case("text")
@case(None)
@case(42)
@case(True)
@case([])
def matching(value):
    match value:
        case None:
            return "none"
        case True | False as flag:
            return "flag", flag
        case {"kind": "point", "x": x, **rest}:
            return x, rest
        case [1, [first, *_], last]:
            return first, last
        case Point(x=1, y=other) if other > 3:
            return "point", other
        case Box(value=v):
            return "box", v
        case [a, b]:
            return a + b
        case []:
            return "empty"
        case str(text):
            return text
        case int() | float():
            return "number"
        case _:
            return "other"


@case(0)
@case("x")
@case([])
def exceptions(x):
    log = []
    try:
        log.append("try")
        y = 10 // x
    except ZeroDivisionError as error:
        log.append(type(error).__name__)
        y = None
    except (TypeError, ValueError):
        log.append("type")
        try:
            raise
        except Exception as inner:
            log.append(str(inner)[:11])
        return log
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        error
    except NameError:
        log.append("unbound")
    return log, y


@case()
def finally_overrides():
    def f(n):
        for _ in range(2):
            try:
                if n == 0:
                    return "returned"
                if n == 1:
                    raise ValueError("x")
                if n == 2:
                    continue
            finally:
                if n == 3:
                    return "late"
                if n == 1:
                    break
        return "end"

    return [f(n) for n in range(4)]


@case()
def with_blocks():
    log = []
    with Context(log) as a, Context(log, swallow=True) as b:
        log.append(a + b)
        raise KeyError("k")

    def leave():
        with Context(log):
            return "left"

    with contextlib.suppress(ZeroDivisionError):
        log.append(1 // 0)
    return log, leave()


@case()
def errors_pass_through():
    log = []
    try:
        with Context(log):
            raise KeyError("k")
    except KeyError as e:
        log.append(repr(e))
    return log


@case()
def objects():
    b = Box(3, [1, 2])
    b.double = 10
    b += 1
    c = 1 + b + b
    b[0] += 5
    b.value += 1
    del b.items[1]
    keep = {"k": [1, 2]}
    keep["k"][0] -= 1
    del keep["k"][1]
    texts = f"{b:03d} {b.double} {b.triple} {Box.static(1)} {Box.make(4)}"
    truth = "yes" if Box(0) else "no"
    inside = 6 in b, 7 not in b, b < c, b() + b(factor=3), len(b), list(b), [*b]
    return b, c, keep, texts, truth, inside, Private(4).get(), Private(4)._Private__x


@case()
def library():
    d = deque([1, 2])
    d.appendleft(0)
    o = OrderedDict(a=1)
    total = functools.reduce(operator.add, [1, 2, 3])
    chained = list(itertools.chain([1], (x for x in (2, 3))))
    add = functools.partial(max, 5)
    names = sorted({"b": 1, "a": 2}, key=lambda k: -ord(k))
    return (
        list(d),
        o,
        total,
        chained,
        add(3, 9),
        names,
        [*map(str, [1, 2])],
        list(filter(None, [0, 1])),
    )


@case([5, 3, 8])
def builtins_(xs):
    it = iter(xs)
    first = next(it)
    rest = list(it)
    pairs = list(zip(xs, "abc"))
    return (
        first, rest, next(it, "end"), pairs, min(xs), max(xs, key=lambda v: -v), sum(xs, 10),
        any(x > 7 for x in xs), all(x > 7 for x in xs), sorted(xs, reverse=True), len(xs),
        list(reversed(xs)), isinstance(xs, list), type(xs), getattr(xs, "nope", 0), round(2.567, 1),
        abs(-3), bool([]), int("12", 8), str(b"a", "ascii"), repr("q"), tuple(xs), set(xs),
        dict(a=1), dict([("k", 2)]), frozenset(xs), min([], default=None), format(3.14159, ".1f"),
        callable(len), hasattr(xs, "append"), range(3)[1], list(enumerate("ab")), chr(65), hash(1),
    )  # fmt: skip


@case(0, 5)
@case(1, 0)
@case(2, "x")
def logic(a, b):
    log = []

    def seen(x):
        log.append(x)
        return x

    r = seen(a) and seen(b), seen(a) or seen(b), not a, (seen(a) and seen(b)) or seen("c")
    s = 0 <= seen(a) < seen(2) <= 2
    t = "then" if seen(a) else "else"
    return r, s, t, log, a is None, a is not None


@case()
def imports():
    import json
    import os.path
    from math import floor as down

    return json.dumps({"a": [1]}), os.path.basename("a/b"), down(2.5)


@case()
def unbound():
    try:
        print(later)
    except UnboundLocalError as e:
        message = "later" in str(e)
    later = 1
    del later
    try:
        later
    except UnboundLocalError:
        return message


@case()
def generator_is_lazy():
    log = []

    def note(x):
        log.append(x)
        return x

    g = (note(x) for x in range(5))
    log.append("made")
    for x in g:
        if x == 1:
            break
    log.append("stopped")
    return list(g), log


@case([1, 2, 3, 4])
def slices(xs):
    xs[1:3] = ["a", "b", "c"]
    del xs[0]
    ys = xs[:]
    ys[-1] += 1
    return xs, ys, xs[::-1]


@case()
def assertion():
    try:
        assert 1 == 2, "wrong" + "!"
    except AssertionError as e:
        return str(e)


@case()
def lambdas_in_places():
    fs = [lambda x: x + 1, lambda x: x * 2]
    g = (lambda *a, **k: (a, k))(1, b=2)
    return [f(3) for f in fs], g, (lambda: [y for y in range(2)])(), sorted([2, 1], key=lambda v: v)


@case()
def raises_value_error():
    raise ValueError("as it is")


@case()
def raises_index_error():
    return [1][3]


@case()
def raises_from():
    try:
        {}["k"]
    except KeyError as e:
        raise TypeError("from") from e


@case(1)
def raises_call(x):
    return raises_call(1, 2)


@case()
def raises_unpack():
    a, b = [1]
    return a, b


@case()
def raises_star_unpack():
    a, b, *c = "x"
    return a, b, c
