"""Expressions do what Python does: Python's own eval is the oracle, for values and for errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir.exact import frozen

from sgc_ir.errors import ExprError, InputError, ProgramError
from sgc_ir.expr import FUNCTIONS, check, evaluate
from sgc_ir.expr_limits import MAX_INT_BITS, MAX_ITEMS, MAX_TEXT
from sgc_ir.graph import UNSET

INFIX = [*"+ - * / // % ** == != < <= > >= in is and or".split(), "not in", "is not"]
OWN = {  # functions that are not written as a call of the same name
    "neg": "-{0}",
    "pos": "+{0}",
    "not": "not {0}",
    "if": "({1} if {0} else {2})",
    "text": "str({0})",
    "concat": "''.join(({all},))",
    "str.format": "{0}.format(*{1}, **{2})",
    "zip": "list(zip({all}))",
    "enumerate": "list(enumerate({all}))",
    "range": "list(range({all}))",
    "reversed": "list(reversed({0}))",
    "list": "[{all}]",
    "tuple": "({all},)",
    "list_of": "list({all})",
    "tuple_of": "tuple({all})",
    "dict": "{{{0}: {1}}}",
    "dict_of_pairs": "dict({0})",
    "dict_set": "{{**{0}, {1}: {2}}}",
    "appended": "[l := {0}[:] if type({0}) is list else {0}, l.append({1})][0]",
    "extended": "[l := {0}[:] if type({0}) is list else {0}, l.extend({1})][0]",
    "getitem": "{0}[{1}]",
    "getslice": "{0}[{1}:{2}:{3}]",
}
SEARCHES = {".startswith", ".endswith", ".find", ".rfind", ".index", ".rindex", ".count"}
NOT_PYTHON = {
    "dict_of_set",
    "vote",
    "set",
    "unpack",
    "argsort",
    "typed",
    "is_set",
    "default",
    "fail",
    "raise_again",
} | {"dict_of_set"}

small = st.integers(-4, 6)
words = st.text(st.sampled_from("ab ,\n\t{}0%sÄ😀"), max_size=6)
leaves = st.one_of(
    st.none(),
    st.booleans(),
    small,
    st.floats(allow_nan=False, width=16),
    words,
    st.binary(max_size=3),
)
values = st.one_of(
    leaves,
    words,
    small,
    st.lists(leaves, max_size=4),
    st.lists(words, max_size=4),
    st.lists(small, max_size=4),
    st.lists(leaves, max_size=3).map(tuple),
    st.dictionaries(words, leaves, max_size=3),
)


def outcome(compute: Any) -> Any:
    try:
        return frozen(_plain(compute()))
    except Exception as error:  # the oracle: any exception, compared by type and text
        return type(error), str(error)


def _plain(value: Any) -> Any:
    views = (type({}.keys()), type({}.values()), type({}.items()))
    return (type(value).__name__, list(value)) if isinstance(value, views) else value


def python(fn: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    names = {f"a{i}": value for i, value in enumerate(args)}
    named = {f"k{i}": value for i, value in enumerate(kwargs.values())}
    words = [*names, *(f"{key}=k{i}" for i, key in enumerate(kwargs))]
    if fn in INFIX:
        source = f" {fn} ".join(names)
    elif fn in OWN:
        source = OWN[fn].format(*names, all=", ".join(words))
    elif fn.startswith("."):
        source = f"a0{fn}({', '.join(words[1:])})"
    else:
        source = f"{fn}({', '.join(words)})"
    return eval(source, {}, names | named)


def arity(fn: str) -> st.SearchStrategy[int]:
    row = FUNCTIONS[fn]
    if fn == "dict":
        return st.just(2)
    if fn in ("concat", "tuple", "list"):
        return st.integers(1, 3)
    return st.integers(row.low, row.low + 2 if row.high is None else row.high)


@pytest.mark.parametrize("fn", sorted(set(FUNCTIONS) - NOT_PYTHON))
def test_function_equals_python(fn: str) -> None:
    outcomes: Counter[bool] = Counter()

    @settings(
        max_examples=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        args = [data.draw(values) for _ in range(data.draw(arity(fn)))]
        args = _steered(fn, args, data)
        expected = outcome(lambda: python(fn, args, {}))
        assert outcome(lambda: evaluate(fn, args)) == expected
        outcomes[isinstance(expected, tuple) and isinstance(expected[0], type)] += 1

    compare()
    assert outcomes[False], "no draw of operands ever succeeded"


def _steered(fn: str, args: list[Any], data: st.DataObject) -> list[Any]:
    """Operands of the right kind often enough that the function succeeds."""
    if fn != "str.format" and not data.draw(st.booleans()):
        return args  # str.format is built by the tracer, always with a tuple and a dict
    numbers = {"-", "*", "/", "//", "**", "%", "neg", "pos", "round", "abs", "range"}
    if fn in numbers:
        return [data.draw(small) for _ in args]
    if fn in (
        "min",
        "max",
        "sum",
        "zip",
        "sorted",
        "argsort",
        "enumerate",
        "reversed",
        "any",
        "all",
    ):
        return [data.draw(st.lists(small, max_size=4)) for _ in args[:1]]
    if fn == "str.format":
        return [data.draw(words), (1, "b"), {"c": [1]}]
    if fn == "format":
        specs = st.sampled_from(["", ">5", "<3", "03d", ".2f", "s", "x", ",", "^7.3"])
        return [data.draw(leaves), data.draw(specs)]
    if fn in ("int", "float"):
        return [data.draw(st.sampled_from(["3", " 4 ", "x", "1_0", "-2.5", 2.7, True, "nan"]))]
    if fn in (".get", ".keys", ".values", ".items", ".copy"):
        first = data.draw(st.dictionaries(words, leaves, max_size=3))
        return [first, *[data.draw(words) for _ in args[1:]]]
    if fn in (".ljust", ".rjust", ".center", ".zfill", ".expandtabs"):
        return [data.draw(words), *[5, "*"][: len(args) - 1]]
    if fn == ".splitlines":
        return [data.draw(words), *[True][: len(args) - 1]]
    if fn in SEARCHES:
        text = data.draw(words)
        part = text[:1] if fn.endswith("index") else data.draw(words)
        return [text, part, *[data.draw(st.just(0) | small) for _ in args[2:]]]
    if fn == ".join":
        return [data.draw(words), data.draw(st.lists(words, max_size=4))]
    if fn in (".split", ".rsplit", ".replace"):
        texts = [data.draw(words) for _ in args[:3]]
        return texts if fn != ".split" and fn != ".rsplit" else [*texts[:2], *[1][: len(args) - 2]]
    if fn == "getitem":
        return [data.draw(st.lists(leaves, min_size=3)), data.draw(small)]
    if fn == "getslice":
        bounds = [data.draw(st.none() | small) for _ in range(3)]
        return [data.draw(words | st.lists(small)), *bounds]
    return [data.draw(words) for _ in args]


PERCENT = [
    ("%s and %s", ("a", 1)),
    ("%5d|%-5s|%05.1f", (3, "x", 2.25)),
    ("%(a)s %(a)r", {"a": "q'"}),
    ("%(a(b))s", {"a(b)": 1}),
    ("%*d", (6, 3)),
    ("%.*f", (2, 1.0)),
    ("%%", ()),
    ("%s", ("a", "b")),
    ("%s %s", "a"),
    ("%d", "a"),
    ("%q", 1),
    ("%", 1),
    ("%(a", {"a": 1}),
    ("100% sure of 2000000000", ()),
    ("%s earned 2000000000", "x"),
    ("%c%x%o%e%g%a", (65, 255, 8, 1.5, 2.5, "é")),
    (b"%s-%d", (b"a", 3)),
    (7, 3),
    (-7.5, 2),
]
FORMATS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("{} {}", (1, "a"), {}),
    ("{1}{0!r:>5}", ("a", 2), {}),
    ("{x[k]} {y[0][1]}", (), {"x": {"k": 1}, "y": [[1, 2]]}),
    ("{:{w}.{p}f}", (3.14159,), {"w": 9, "p": 2}),
    ("{{}} {0:{1}}", ("a", "^9"), {}),
    ("{} {0}", (1,), {}),
    ("{2}", (1,), {}),
    ("{a}", (), {}),
    ("{0[k.x]}", ({"k.x": 1},), {}),
    ("{", (), {}),
    ("{0[}", ([1],), {}),
    ("{!z}", (1,), {}),
    ("{:d}", ("a",), {}),
    ("{0!a:>10}", ("é",), {}),
    ("é{:1<9}", (5,), {}),
    ("{-1}", (5,), {}),
]


@pytest.mark.parametrize(("template", "operand"), PERCENT)
def test_percent_equals_python(template: Any, operand: Any) -> None:
    expected = outcome(lambda: template % operand)
    assert outcome(lambda: evaluate("%", [template, operand])) == expected


@pytest.mark.parametrize(("template", "args", "kwargs"), FORMATS)
def test_format_equals_python(template: str, args: Any, kwargs: Any) -> None:
    expected = outcome(lambda: template.format(*args, **kwargs))
    assert outcome(lambda: evaluate("str.format", [template, args, kwargs])) == expected
    assert outcome(lambda: evaluate(".format", [template, *args], kwargs)) == expected


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        ("sum", [[1, 2]], {"start": 3}),
        ("sum", [[[1], [2]], []], {}),
        ("sum", [["a"], ""], {}),
        ("round", [2.567], {"ndigits": 2}),
        ("round", [12345, -2], {}),
        ("round", [10**400, -399], {}),
        ("round", [True, -5], {}),
        ("enumerate", ["ab"], {"start": 5}),
        ("zip", [[1], [1, 2]], {"strict": True}),
        ("sorted", [[3, 1, 2]], {"reverse": True}),
        ("min", [[]], {"default": 7}),
        (".split", ["a,b,c"], {"sep": ",", "maxsplit": 1}),
        (".splitlines", ["a\r\nb\x0bc\u2028d"], {"keepends": True}),
        (".expandtabs", ["a\tb"], {"tabsize": 3}),
        ("int", [" 12 "], {}),
        ("int", ["٣"], {}),
        ("int", ["9" * 5000], {}),
        ("text", [10**5000], {}),
        ("**", [2, -1], {}),
        ("**", [-8, 0.5], {}),
        ("**", [0, -1], {}),
        ("**", [10.0, 400], {}),
        ("<", [[1, [2]], [1, [3]]], {}),
        ("<", [1, "a"], {}),
        ("in", ["a", "abc"], {}),
        ("in", [1, "abc"], {}),
    ],
)
def test_keywords_and_corners_equal_python(
    fn: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    expected = outcome(lambda: python(fn, args, kwargs))
    assert outcome(lambda: evaluate(fn, args, kwargs)) == expected


@pytest.mark.parametrize(
    ("source", "value", "count"),
    [
        ("a, b = v", [1, 2], 2),
        ("a, b = v", [1], 2),
        ("a, b = v", "xyz", 2),
        ("a, = v", 5, 1),
        ("a, b = v", {"x": 1, "y": 2}, 2),
    ],
)
def test_unpack_equals_python(source: str, value: Any, count: int) -> None:
    def run() -> Any:
        scope = {"v": value}
        exec(source, {}, scope)
        return [scope[name] for name in "ab"[:count]]

    assert outcome(lambda: evaluate("unpack", [value, count])) == outcome(run)


def test_round_to_absurd_digits_does_not_compute_a_power_of_ten() -> None:
    assert evaluate("round", [12345, -(10**12)]) == 0  # as Python would say after a long time


def test_vote_takes_the_majority_and_the_first_on_ties() -> None:
    assert evaluate("vote", [["a", "b", "b"]]) == "b"
    assert evaluate("vote", [["b", "a", "a", "b"]]) == "b"
    assert evaluate("vote", [[[1], {"k": 2}, {"k": 2}]]) == {"k": 2}
    with pytest.raises(ValueError, match="no values"):
        evaluate("vote", [[]])


def test_argsort_is_stable_in_both_directions() -> None:
    keys = [2, 1, 2, 1]
    for reverse in (False, True):
        expected = sorted(range(4), key=keys.__getitem__, reverse=reverse)
        assert evaluate("argsort", [keys], {"reverse": reverse}) == expected


SHARED: list[Any] = ["leaf"]
for _ in range(60):
    SHARED = [SHARED, SHARED]
HALF = "x" * (MAX_TEXT // 2 + 1)


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        ("*", ["a", 10**12]),
        ("*", [10**12, [0]]),
        ("*", [2 ** (MAX_INT_BITS - 8), 2**100]),
        ("**", [10, 10**9]),
        ("+", [HALF, HALF]),
        ("concat", [HALF, HALF]),
        (".join", ["", [HALF, HALF]]),
        (".join", ["x" * 1000, ["a"] * 100_000]),
        (".replace", ["a" * 10_000, "a", "b" * 10_000]),
        (".replace", ["a" * 10_000, "", "b" * 10_000]),
        (".ljust", ["a", 10**12]),
        (".center", ["a", 10**12, "*"]),
        (".zfill", ["a", 10**12]),
        (".expandtabs", ["\t", 10**12]),
        ("%", ["%1000000000d", 3]),
        ("%", ["%*d", (10**10, 3)]),
        ("%", ["%.1000000000f", 3.0]),
        ("%", ["%(a(b))1000000000d", {"a(b)": 1}]),
        ("%", [b"%1000000000d", 3]),
        ("%", ["%(a)s" * 1000, {"a": "x" * 100_000}]),
        ("format", [3, "1000000000d"]),
        ("format", [3, "٩99999999d"]),
        ("str.format", ["{:1000000000}", (3,), {}]),
        ("str.format", ["{:{}}", (3, 10**10), {}]),
        ("str.format", ["{:{w}}", (3,), {"w": ">99999999999999999999999"}]),
        ("str.format", ["{0}" * 1000, ("x" * 100_000,), {}]),
        (".format", ["{:{w[0]}}", 3]),
        ("range", [10**10]),
        ("range", [0, 10**30, 3]),
        ("range", [10**10, 0, -1]),
        ("list_of", ["a" * (MAX_ITEMS + 1)]),
        ("sorted", ["a" * (MAX_ITEMS + 1)]),
        (".split", ["a " * (MAX_ITEMS + 2)]),
        (".rsplit", ["a," * (MAX_ITEMS + 2), ","]),
        (".splitlines", ["\n" * (MAX_ITEMS + 2)]),
        ("sum", [[[0] * 1000] * 2000, []]),
        ("text", [SHARED]),
        ("repr", [SHARED]),
        ("==", [SHARED, list(SHARED)]),
        ("in", [0, SHARED]),
    ],
)
def test_results_beyond_the_bounds_are_refused_before_they_exist(fn: str, args: list[Any]) -> None:
    kwargs = {"w": [10**10]} if fn == ".format" else {}
    with pytest.raises(ExprError):
        evaluate(fn, args, kwargs)


@pytest.mark.parametrize(
    "template", ["{0.real}", "{0[0].real}", "{a.b[c]}", "{:{0.real}}", "{0.__class__.__mro__}"]
)
def test_templates_read_no_attributes(template: str) -> None:
    for fn, args in [("str.format", [template, (1,), {"a": 1}]), (".format", [template, 1])]:
        with pytest.raises(ExprError, match="attribute"):
            evaluate(fn, args)


def test_methods_exist_only_on_plain_data() -> None:
    class Loud:
        def strip(self) -> str:
            raise AssertionError("foreign code ran")

    with pytest.raises(AttributeError, match="'Loud' object has no attribute 'strip'"):
        evaluate(".strip", [Loud()])
    with pytest.raises(AttributeError, match="'int' object has no attribute 'format'"):
        evaluate("str.format", [3, (), {}])


@pytest.mark.parametrize(
    ("fn", "count", "names", "word"),
    [
        ("eval", 1, (), "not among"),
        (".__class__", 1, (), "not among"),
        (".append", 2, (), "not among"),
        ("int", 2, (), "1 operand"),
        ("len", 0, (), "1 operand"),
        (".strip", 3, (), "0 to 1 operand, 2 given"),
        ("and", 1, (), "at least 2"),
        ("dict", 3, (), "alternating"),
        ("sorted", 1, ("key",), "no keyword 'key'"),
        ("+", 2, ("x",), "no keyword"),
    ],
)
def test_check_gives_the_reason_of_a_refusal(
    fn: str, count: int, names: tuple[str, ...], word: str
) -> None:
    assert word in (check(fn, count, names) or "")
    with pytest.raises(ExprError):
        evaluate(fn, [1] * count, dict.fromkeys(names, 1))


def test_check_takes_what_the_table_holds() -> None:
    assert check("concat", 5) is None
    assert check(".format", 3, ("x", "y")) is None
    assert check("sorted", 1, ("reverse",)) is None


def test_typed_gives_the_value_or_names_the_argument() -> None:
    assert evaluate("typed", [["a"], "list[str]", "f: argument x"]) == ["a"]
    with pytest.raises(InputError, match=r"f: argument x: expected int, got str 'a'"):
        evaluate("typed", ["a", "int", "f: argument x"])


def test_unset_is_told_apart_and_given_a_default() -> None:
    for value in (None, 0, "", [], "x"):
        assert evaluate("is_set", [value]) is True
        assert evaluate("default", [value, "d"]) is value
    assert evaluate("is_set", [UNSET]) is False
    assert evaluate("default", [UNSET, "d"]) == "d"
    assert evaluate("dict_of_set", ["a", 1, "b", UNSET, "c", None]) == {"a": 1, "c": None}


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (("ValueError", "no digits"), ValueError, "no digits"),
        (("KeyError", "k"), KeyError, "'k'"),
        (("RuntimeError",), RuntimeError, ""),
        (("Refused", "too long"), ProgramError, "Refused: too long"),
        (("Refused",), ProgramError, "Refused"),
        (("UnicodeDecodeError", "x"), ProgramError, "UnicodeDecodeError: x"),
        (("SystemExit", 3), ProgramError, "SystemExit: 3"),
        (("print", "x"), ProgramError, "print: x"),
    ],
)
def test_fail_raises_what_the_program_raised(
    args: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as caught:
        evaluate("fail", args)
    assert type(caught.value) is error
    assert str(caught.value) == text
