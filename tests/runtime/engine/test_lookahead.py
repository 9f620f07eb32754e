"""When a step begins before the results of the one before."""

from __future__ import annotations

import pytest

from sgc_runtime.engine.lookahead import Lookahead


def seen(turned: int, rows: int, gap_ms: float, step_ms: float) -> Lookahead:
    made = Lookahead()
    for _ in range(60):
        made.see_rows(turned, rows)
        made.see_times(gap_ms, step_ms)
    return made


def test_it_pays_at_first_and_where_nothing_turns_out_otherwise() -> None:
    assert Lookahead().pays
    assert seen(0, 8, 0.1, 9.0).pays


@pytest.mark.parametrize(
    ("turned", "rows", "gap_ms", "step_ms", "pays"),
    [
        (1, 1, 0.3, 3.5, False),  # each sampled id is followed by forced ones
        (1, 4, 0.3, 3.5, False),
        (1, 64, 0.3, 3.5, True),
        (40, 128, 6.0, 8.0, True),  # the host has much to do
        (40, 128, 1.0, 8.0, False),
        (1, 4, 3.5, 3.5, True),  # the host computes itself
    ],
)
def test_the_lost_steps_of_rows_against_the_idle_time(
    turned: int, rows: int, gap_ms: float, step_ms: float, pays: bool
) -> None:
    assert seen(turned, rows, gap_ms, step_ms).pays == pays


def test_it_changes_with_the_rows() -> None:
    made = seen(3, 4, 0.3, 3.5)
    assert not made.pays
    for _ in range(40):
        made.see_rows(0, 4)
    assert made.pays
