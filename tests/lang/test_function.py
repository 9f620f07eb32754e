"""What can be a program, and how arguments are checked."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

import sgc
from sgc.lang.source import shown_file
from sgc_ir.graph import MISSING

if TYPE_CHECKING:
    from collections import Counter


@sgc.function
def plain(s, a: int, b: list[str] = ("x",), *, c: "float | None" = None, d=3):  # noqa: UP037
    """Doc."""
    s += f"{a} {b} {c} {d}"
    return a, b, c, d


def run(program: sgc.Program, *args: Any, **kwargs: Any) -> Any:
    return program.run(*args, mode="interpreted", **kwargs).value


def test_the_spec_holds_source_and_parameters():
    spec = plain.spec
    assert spec.name == "plain"
    assert spec.file == shown_file(__file__)
    lines = open(__file__).read().splitlines()
    assert lines[spec.first_line - 1] == "@sgc.function"
    assert spec.source is not None
    assert spec.source.splitlines()[-1] == "    return a, b, c, d"
    assert [(p.name, p.annotation, p.default, p.keyword_only) for p in spec.params] == [
        ("a", "int", MISSING, False),
        ("b", "list[str]", ("x",), False),
        ("c", "float | None", None, True),
        ("d", "", 3, True),
    ]
    assert plain.__doc__ == "Doc."


def test_defaults_and_keyword_only():
    assert run(plain, 1) == (1, ("x",), None, 3)
    assert run(plain, 1, ["y"], c=2, d="z") == (1, ["y"], 2, "z")


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((), {}, "missing argument a"),
        ((1, ["x"], 2.0), {}, "positional"),
        ((1,), {"a": 2}, "given twice"),
        ((1,), {"nope": 2}, "unknown argument nope"),
        (("one",), {}, "argument a"),
        ((True,), {}, "argument a"),
        ((1, "xy"), {}, "argument b"),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, words):
    with pytest.raises(sgc.InputError, match=words) as caught:
        plain.run(*args, **kwargs)
    assert "\n" not in str(caught.value)


def test_bind_fixes_arguments():
    bound = plain.bind(a=5)
    assert run(bound) == (5, ("x",), None, 3)
    assert run(bound, ["p"]) == (5, ["p"], None, 3)
    both = bound.bind(d=1)
    assert run(both, c=0.5) == (5, ("x",), 0.5, 1)
    for bad in ({"a": 6}, {"nope": 1}, {"b": 3}):
        with pytest.raises(sgc.InputError):
            bound.bind(**bad)
    with pytest.raises(sgc.InputError, match="bound"):
        bound.run(a=7)


def test_closures_lambdas_and_bound_methods_work():
    word = "cell"

    def closure(s, x):
        s += word + x
        return s.text()

    class Holder:
        def __init__(self) -> None:
            self.word = "held"

        def method(self, s, x):
            s += self.word + x
            return s.text()

    assert run(sgc.function(closure), "!") == "cell!"
    assert run(sgc.function(lambda s, x: x + "!"), "l") == "l!"
    assert run(sgc.function(Holder().method), "!") == "held!"


def test_a_wrapped_function_runs_its_wrapper():
    def loud(fn):
        @functools.wraps(fn)
        def wrapper(s, *args, **kwargs):
            s += "loud "
            return fn(s, *args, **kwargs)

        return wrapper

    @sgc.function
    @loud
    def program(s, x: int):
        s += f"{x}"
        return s.text()

    assert [p.name for p in program.spec.params] == ["x"]
    assert run(program, 3) == "loud 3"
    assert "wrapper" in program.spec.source


def test_what_is_refused_by_name():
    async def coroutine(s):
        pass

    def generator(s):
        yield s

    def no_state():
        pass

    def stars(s, *rest):
        pass

    def double_stars(s, **rest):
        pass

    def positional_only(s, x, /):
        pass

    class Owner:
        def method(self, s):
            pass

    functions = (coroutine, generator, no_state, stars, double_stars, positional_only, Owner.method)
    for fn in functions:
        with pytest.raises(sgc.CompileError, match=fn.__name__) as caught:
            sgc.function(fn)
        assert caught.value.file == shown_file(__file__)
        assert caught.value.line == fn.__code__.co_firstlineno
    for thing in (len, Owner, functools.partial(stars, 1), plain, 3):
        with pytest.raises(sgc.CompileError, match="plain Python function"):
            sgc.function(thing)


def test_an_annotation_that_only_checkers_know_accepts_anything():
    def program(s, x: Counter[str]):
        return x

    assert run(sgc.function(program), 5) == 5


def test_a_function_without_source_still_interprets():
    space: dict[str, Any] = {}
    exec("def made(s, x):\n    return x", space)
    program = sgc.function(space["made"])
    assert program.spec.source is None
    assert run(program, 4) == 4


def test_outputs_are_names():
    program = sgc.function(outputs=["a", "b"])(lambda s: None)
    assert program.spec.outputs == ("a", "b")
    for bad in ("a", ["a", "a"], [1], [""]):
        with pytest.raises(sgc.CompileError, match="outputs"):
            sgc.function(outputs=bad)(lambda s: None)
