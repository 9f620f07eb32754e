"""Rows in the order of a plan: windows, states in input order, the same outputs as without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sgc
from sgc.planning import InPlanOrder
from sgc.testing import ScriptedBackend
from sgc_ir.analysis.plan import RowFacts

DOCUMENTS = ("alpha " * 40, "beta " * 40)


@sgc.function
def ask(s: Any, document: str, question: str, tail: str = "") -> Any:
    s += sgc.system("Answer.")
    s += sgc.user(document + question + tail)
    s += sgc.assistant(sgc.gen("answer", max_tokens=4))
    return s["answer"]


def backend(keeps: bool = True) -> ScriptedBackend:
    made = ScriptedBackend(lambda prompt, params: prompt[-12:])
    made.keeps_prefixes = keeps
    return made


def rows(count: int = 8) -> list[dict[str, str]]:
    return [{"document": DOCUMENTS[i % 2], "question": f"q{i}"} for i in range(count)]


def asked(made: ScriptedBackend) -> list[str]:
    return [call["prompt"].partition(" q")[2][:1] for call in made.calls]


def test_rows_that_share_a_prefix_start_together() -> None:
    made = backend()
    states = ask.run_batch(rows(), backend=made, parallel=1)
    assert asked(made) == list("02461357")
    assert [state["answer"] for state in states] == [
        state["answer"] for state in ask.run_batch(rows(), backend=backend(), plan=False)
    ]


@pytest.mark.parametrize("options", [{"plan": False}, {"mode": "interpreted"}])
def test_without_a_plan_rows_keep_their_order(options: dict[str, Any]) -> None:
    made = backend()
    ask.run_batch(rows(), backend=made, parallel=1, **options)
    assert asked(made) == list("01234567")


def test_a_backend_that_keeps_nothing_needs_no_plan() -> None:
    made = backend(keeps=False)
    ask.run_batch(rows(), backend=made, parallel=1)
    assert asked(made) == list("01234567")


def test_rows_that_cannot_run_fail_in_their_places() -> None:
    given: list[Any] = rows(6)
    given[1] = {"document": "x"}
    given[4] = ValueError("broken")
    states = ask.run_batch(given, backend=backend(), parallel=2)
    assert [state.error() is not None for state in states] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert isinstance(states[4].error(), ValueError)
    assert states[5]["answer"] == ask.run(**given[5], backend=backend())["answer"]


class Noting(ScriptedBackend):
    """Notes the seeds of each prompt."""

    keeps_prefixes = True

    def __init__(self) -> None:
        super().__init__(lambda prompt, params: prompt[-5:])
        self.seeds: dict[str, Any] = {}

    async def begin(self, kind: str, prompt: str, media: Any, call: Any) -> Any:
        self.seeds[prompt] = call.seeds
        return await super().begin(kind, prompt, media, call)


def test_seeds_follow_the_row_not_the_plan() -> None:
    planned, plain = Noting(), Noting()
    ask.run_batch(rows(), backend=planned, seed=3)
    ask.run_batch(rows(), backend=plain, plan=False, seed=3)
    assert planned.seeds == plain.seeds
    assert len(set(plain.seeds.values())) == len(rows())


def facts(number: int) -> RowFacts:
    text = f"{'even' if number % 2 == 0 else 'odd'} number {number}"
    return RowFacts((text,), text, 0.0)


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 20))
def test_windows_bound_what_is_held_and_who_waits(count: int, first: int, window: int) -> None:
    read, window = 0, max(first, window)

    def numbers() -> Iterator[int]:
        nonlocal read
        for number in range(count):
            read += 1
            yield number

    given_out = []
    for number, _ in InPlanOrder(numbers(), facts, first, window):
        assert abs(number - len(given_out)) < window
        given_out.append(number)
        assert read - len(given_out) <= 2 * window
    assert sorted(given_out) == list(range(count))


def test_a_window_of_all_rows_groups_all_rows() -> None:
    order = [number for number, _ in InPlanOrder(range(9), facts, None, None)]
    assert order == [0, 2, 4, 6, 8, 1, 3, 5, 7]


def test_what_reading_raises_comes_behind_the_rows_before_it() -> None:
    def numbers() -> Iterator[int]:
        yield from range(5)
        raise OSError("gone")

    seen: list[int] = []
    with pytest.raises(OSError, match="gone"):
        seen.extend(number for number, _ in InPlanOrder(numbers(), facts, 2, 3))
    assert sorted(seen) == [0, 1, 2, 3, 4]
