"""Random pipelines of the patterns, some with failing runs: compiled as interpreted, each call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tracer import assert_equal

import sgc

STEPS = ("map", "reduce", "best_program", "best_function", "retry", "vote", "first", "if", "say")
ITEMS = st.lists(st.sampled_from(["a", "bb", "c", "FAIL"]), max_size=3)


@sgc.function
def ask(s, item: str, tone: str = "plain"):
    s += f"{tone} {item}:" + sgc.gen("answer", max_tokens=6)
    return s["answer"]


@sgc.function
def combine(s, so_far: str, item: str):
    s += f"{so_far} with {item}:" + sgc.gen("both", max_tokens=6)
    if len(s["both"]) > 8:
        s += " shorter:" + sgc.gen("both", max_tokens=3)
    return s["both"]


@sgc.function
def grade(s, answer: str):
    s += f"Grade{answer}:" + sgc.select("grade", ["1", "2", "3"])
    return int(s["grade"])


def pipeline(steps: tuple[str, ...]) -> sgc.Program:
    """A program that hands a list of texts from step to step."""

    @sgc.function
    def run(s, items: list[str], n: int):
        values = list(items)
        for step in steps:
            if step == "map":
                values = sgc.map(ask, values, "calm")
            elif step == "reduce":
                values = [sgc.reduce(combine, ["start"] + values[:2]), "z"]  # noqa: RUF005
            elif step == "best_program":
                values = [sgc.best_of(n, ask, grade, "best")] + values[:1]  # noqa: RUF005
            elif step == "best_function":
                values = [sgc.best_of(2, ask, lambda answer: len(answer), item="x")]
            elif step == "retry":
                values = [sgc.retry_until(ask, lambda answer: len(answer) > 4, n + 1, "again")]
            elif step == "vote":
                values = [sgc.vote(values[:1] + ["a", "b", "a"])]  # noqa: RUF005
            elif step == "first":
                values = sgc.first(2, [ask("l"), ask("m")])
            elif step == "if":
                if len(values) > 1:
                    values = sgc.map(ask, ["x", "y"])
                else:
                    values = ["none"]
            else:
                s += "so " + sgc.gen("said", max_tokens=4)
                values = [s["said"]]
        s += " ".join(values) + sgc.gen("last", max_tokens=4)
        return values

    return run


def check(steps: list[str], items: list[str], n: int) -> str:
    program = pipeline(tuple(steps))
    row: dict[str, Any] = {"items": items, "n": n}
    try:
        program.compile()
    except sgc.CompileError as error:
        return str(error)
    assert_equal(program, row)
    return ""


PIPELINES = st.lists(st.sampled_from(STEPS), min_size=1, max_size=5)


@given(steps=PIPELINES, items=ITEMS, n=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_pipelines(steps: list[str], items: list[str], n: int) -> None:
    check(steps, items, n)


@pytest.mark.long
@given(steps=PIPELINES, items=ITEMS, n=st.integers(0, 3))
@settings(max_examples=400, deadline=None)
def test_many_pipelines(steps: list[str], items: list[str], n: int) -> None:
    check(steps, items, n)


def test_few_are_refused() -> None:
    refused = [found for step in STEPS if (found := check([step, "map"], ["a"], 2))]
    assert not refused
