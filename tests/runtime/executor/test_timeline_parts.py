"""Stages of a node: within it, one behind the other, also where clocks do not agree."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.params import CallResult, Timing, Usage
from sgc_runtime.backends.process_messages import plain_result, result_of
from sgc_runtime.executor.timeline import Attempt
from sgc_runtime.executor.timeline_parts import Part, parts_of

USAGE = Usage(prompt_tokens=9, completion_tokens=5, forced_tokens=2, cached_tokens=4)
SECONDS = st.floats(0, 3, allow_nan=False)


def stages(timing: Timing, began: float = 10, ended: float = 20) -> list[Part]:
    return parts_of(began, ended, [], [CallResult("x", usage=USAGE, timing=timing)])


def test_stages_stand_where_they_were_measured() -> None:
    timing = Timing(1, 2, 4, asked=11.5, forced=[(15, 16, 2)])
    assert stages(timing) == [
        Part("prepare", 10, 11.5),
        Part("queued", 11.5, 12.5),
        Part("prefill", 12.5, 14.5, {"cached_tokens": 4, "computed_tokens": 5}),
        Part("decode", 14.5, 18.5, {"forced_tokens": 2, "sampled_tokens": 3}),
        Part("forced", 15, 16, {"forced_tokens": 2}),
    ]


def test_a_backend_that_measures_nothing_has_none() -> None:
    assert parts_of(1, 2, [Attempt(1, 2)], [CallResult("x")]) == []


def test_attempts_are_wholes_and_one_left_alone_ends_with_the_next() -> None:
    tries = [Attempt(1, 9, "Busy: no"), Attempt(4)]
    parts = parts_of(1, 6, tries, [CallResult("x", timing=Timing(0, 1, 0.5, asked=4.5))])
    assert [(p.name, p.began, p.ended) for p in parts] == [
        ("attempt 1", 1, 4),
        ("attempt 2", 4, 6),
        ("prepare", 4, 4.5),
        ("prefill", 4.5, 5.5),
        ("decode", 5.5, 6),
    ]
    assert parts[0].facts == {"error": "Busy: no"}


@given(
    SECONDS,
    SECONDS,
    SECONDS,
    st.floats(0, 40),
    st.lists(st.tuples(st.floats(0, 40), st.floats(0, 40), st.just(1)), max_size=4),
    st.floats(10, 30),
)
def test_whatever_a_clock_says_they_lie_within_and_do_not_overlap(
    waiting: float,
    prefill: float,
    decode: float,
    asked: float,
    forced: list[tuple[float, float, int]],
    ended: float,
) -> None:
    parts = stages(Timing(waiting, prefill, decode, asked, forced), 10, ended)
    beside = [p for p in parts if p.name != "forced"]
    within = [p for p in parts if p.name == "forced"]
    for row in (beside, within):
        assert all(a.ended <= b.began for a, b in pairwise(row))
    assert all(10 <= p.began < p.ended <= ended for p in parts)
    decodes = [p for p in beside if p.name == "decode"]
    assert all(d.began <= p.began and p.ended <= d.ended for d in decodes for p in within)


def test_times_come_through_the_channel_of_a_process() -> None:
    timing = Timing(1, 2, 3, asked=4, forced=[(5, 6, 7)])
    found = result_of(plain_result(CallResult("x", timing=timing))).timing
    assert found is not None
    assert (found.asked, [list(f) for f in found.forced]) == (4, [[5, 6, 7]])
