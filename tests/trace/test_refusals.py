"""What is not compiled is refused with file, line, the expression and advice, never baked in."""

# The programs are what a user might write, not what a linter likes.
# ruff: noqa: UP030, UP032
from __future__ import annotations

import collections
import functools
import io
import itertools
import json
import re

import pytest
from support.refusals import Case, Program, assert_refused, noting

import sgc

CASES: list[Case] = []
refused = noting(CASES)


COUNTS = {"n": 0}


class Mutable:
    count = 0


@sgc.function
def sub(s, topic):
    s += topic + sgc.gen("v", max_tokens=1)


@refused(r"re\.search got a run-time value; use sgc\.call with a tool, or bind the argument")
def foreign_function(s, x):
    return re.search("a", x)  # here


@refused(r"json\.dumps got a run-time value")
def foreign_function_with_a_value_deep_inside(s, x):
    return json.dumps({"k": [x]})  # here


@refused(r"itertools\.chain got")
def foreign_iterator(s, x):
    return list(itertools.chain([x]))  # here


@refused(r"functools\.reduce got")
def foreign_reduce(s, x):
    return functools.reduce(lambda a, b: a + b, [x])  # here


@refused("int takes 1 operand")
def int_with_a_base(s, x):
    return int(x, 16)  # here


@refused("run-time value as key")
def set_of_a_symbol(s, x):
    return {x, "b"}  # here


@pytest.mark.parametrize(
    "name", ["isinstance", "type", "hasattr", "callable", "id", "print", "hash"]
)
def test_question_about_a_symbol_is_refused_by_name(name: str) -> None:
    questions = {
        "isinstance": lambda s, x: isinstance(x, str),
        "type": lambda s, x: type(x),
        "hasattr": lambda s, x: hasattr(x, "a"),
        "callable": lambda s, x: callable(x),
        "id": lambda s, x: id(x),
        "print": lambda s, x: print([x]),
        "hash": lambda s, x: hash(x),
    }
    with pytest.raises(sgc.CompileError, match=f"{name} of a run-time value cannot be answered"):
        sgc.function(questions[name]).compile()


@refused("`is` of a run-time value cannot be answered")
def identity_of_a_symbol(s, x):
    other = "a"
    return x is other  # here


@refused(r"`\.encode` of a run-time value is not compiled")
def method_outside_of_the_list(s, x):
    return x.encode()  # here


@refused(r"`\.append` changes a run-time value in place.*list\(x\)")
def append_to_an_argument(s, x):
    x.append(1)  # here


@sgc.function
def raises_when_traced(s, x):
    raise ValueError("no")


@refused("raises_when_traced raises ValueError inside of a `try`.*before the `try`")
def callee_that_raises_inside_a_handler(s, x):
    try:
        raises_when_traced(0)  # here
    except ValueError:
        s += "caught"


@refused("changed in place")
def store_into_an_argument(s, x):
    x["k"] = 1  # here


@refused("`\\*` takes a part of a run-time list")
def star_unpacking(s, x):
    a, *b = x  # here
    return a, b


@refused("`\\*` of a run-time list")
def star_argument(s, x):
    return max(*x)  # here


@refused(r"next\(\) of run-time values")
def next_of_a_generator(s, xs: list[str]):
    return next(x for x in xs)  # here


@refused("iterator from outside of the loop")
def iterator_used_up_in_passes(s, xs: list[str]):
    letters = iter("ab")
    return [next(letters) + x for x in xs]  # here


@refused("`write` of a StringIO.*its state cannot be followed")
def hidden_state_in_passes(s, xs: list[str]):
    seen = io.StringIO()
    for _ in xs:
        seen.write("1")  # here


@refused("a deque from outside is changed in its passes")
def deque_filled_in_passes(s, xs: list[str]):
    seen = collections.deque()
    for _ in xs:  # here
        seen.append("1")


@refused("`add.calls` is changed, which is state of the whole process")
def attribute_of_a_function(s, xs: list[str]):
    def add(x):
        return x

    add.calls = 0  # here


@refused("`write` of a StringIO in a loop or condition over run-time values")
def hidden_state_in_an_operand(s, x: str):
    seen = io.StringIO()
    return x and seen.write("1")  # here


@refused("a pattern that looks into a run-time value")
def sequence_pattern(s):
    s += sgc.gen("v")
    match s["v"].split():  # here
        case ["yes", x]:
            return x


@refused("comb is made a program inside of another one")
def program_in_a_program(s):
    @sgc.function
    def comb(t):
        t += "x"

    s.call(comb)  # here


@refused(r"read type\(e\).__name__")
def class_of_a_taken_error(s):
    s += sgc.gen("v")
    try:
        n = int(s["v"])
    except Exception as e:
        n = 0 if type(e) is ValueError else 1  # here
    return n


@refused("is a different stream, function or object on each path")
def primitive_as_an_arm(s, x: bool):
    s += sgc.gen("a") if x else sgc.gen("b")  # here


@refused("`global COUNTS` is assigned")
def global_assignment(s, x):
    global COUNTS
    COUNTS = x  # here


@refused("nonlocal n` is assigned")
def nonlocal_assignment(s):
    n = 0

    def add():
        nonlocal n
        n += 1  # here

    add()


@refused("state of the whole process")
def class_attribute(s):
    Mutable.count += 1  # here


@refused(r"locals\(\) looks into the running function")
def locals_of_the_function(s, x):
    return locals()  # here


@refused(r"eval\(\) looks into the running function")
def evaluated_text(s, x):
    return eval("x")  # here


@refused("class inside of a program")
def local_class(s):
    class Local:  # here
        pass

    return Local


@refused("`yield` is not compiled|is a generator function")
def generator_helper_with_a_symbol(s, x):
    def items(y):
        yield y  # here

    return list(items(x))


@refused(r"s\.stream\(\.\.\.\) reads text as it comes")
def pieces_of_a_variable(s):
    s += sgc.gen("v")
    return list(s.stream("v"))  # here


@refused(r"s\.error\(\) is not compiled")
def error_of_the_stream(s):
    return s.error()  # here


@refused("name of a variable is a run-time value")
def variable_of_a_run_time_name(s, x):
    return s[x]  # here


@refused("the variable's name is a run-time value")
def gen_of_a_run_time_name(s, x):
    s += sgc.gen(x)  # here


@refused("more than 24 deep")
def endless_helper(s):
    def again(n):
        return again(n + 1)  # here

    again(0)


@refused("IndexError while tracing.*list index out of range")
def error_of_the_program(s):
    return [1][5]  # here


@refused("NameError while tracing")
def unknown_name(s):
    return undefined_name  # noqa: F821  # here


@refused("InputError while tracing.*unknown argument")
def wrong_argument_of_a_sub_program(s):
    sub("x", nope=1)  # here


@refused("role")
def roles_that_nest(s):
    with s.user():
        with s.assistant():  # here
            s += "x"


@refused(r"fork\(0\); the width")
def fork_of_nothing(s):
    s.fork(0)  # here


@refused("reads an attribute")
def template_that_reads_an_attribute(s, x):
    return "{0.a}".format(x)  # here


@refused("bit operators on run-time values")
def bits(s, x: int):
    return x & 3  # here


@refused("a stream is passed to a sub-program")
def stream_as_an_argument(s):
    sub(s)  # here


@refused("a set has no order")
def set_as_a_value(s):
    s.set("v", {"a"})  # here


@refused("not plain data")
def object_as_a_value(s):
    s.set("v", Mutable())  # here


@pytest.mark.parametrize(("fn", "words"), CASES, ids=[fn.__name__ for fn, _ in CASES])
def test_refused_with_line_expression_and_advice(fn: Program, words: str) -> None:
    assert_refused(fn, words)


def test_cause_of_a_program_error_is_chained() -> None:
    with pytest.raises(sgc.CompileError) as caught:
        sgc.function(error_of_the_program).compile()
    assert isinstance(caught.value.__cause__, IndexError)


def test_too_many_nodes_name_the_loop() -> None:
    def endless(s):
        for _ in range(60_000):
            s += "a"

    line = endless.__code__.co_firstlineno + 1
    message = f"more than 50000 nodes; the loop at line {line} is unrolled"
    with pytest.raises(sgc.CompileError, match=message):
        sgc.function(endless).compile()


def test_recursion_of_programs_without_end_is_refused() -> None:
    @sgc.function
    def again(s, x):
        again(x)

    with pytest.raises(sgc.CompileError, match="calls itself without end"):
        again.compile()


def test_refusal_is_no_exception_that_a_program_could_take() -> None:
    def swallows(s, x):
        try:
            y = 1
        except Exception:
            y = 2
        try:
            if isinstance(x, str):
                y = 3
        except Exception:
            y = 4
        return y

    with pytest.raises(sgc.CompileError, match="cannot be answered when compiling"):
        sgc.function(swallows).compile()
