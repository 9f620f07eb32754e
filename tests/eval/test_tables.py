"""Tables of reports: every cell stays one cell, whatever it holds."""

from __future__ import annotations

from sgc.eval.tables import aligned, number, percent, piped


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert piped([["group", "rows"], ["a|b", "3"]]) == [
        "| group | rows |",
        "|---|---|",
        "| a\\|b | 3 |",
    ]


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    assert aligned([["suite", "rows"], ["a", "10"]]) == ["suite  rows", "a      10"]


def test_what_is_not_known_is_a_dash() -> None:
    assert (number(None), percent(None)) == ("-", "-")
    assert (number(1234.5, 1), number(1234), percent(0.5)) == ("1,234.5", "1,234", "50.0 %")
