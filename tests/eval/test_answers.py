"""Exact match and F1 of short answers: values worked out by hand."""

from __future__ import annotations

import pytest

from sgc.eval.answers import exact_match, f1, normalized


def test_case_articles_punctuation_and_blanks_do_not_count() -> None:
    assert normalized("  The  Black-Sea, a sea. ") == "blacksea sea"
    assert exact_match("the Danube.", "Danube") == 1.0
    assert exact_match("Danubes", "Danube") == 0.0
    assert exact_match("23", ["23 years", "23"]) == 1.0
    assert exact_match("", []) == 0.0


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        ("in the year 1815", "1815", 0.5),  # precision 1/3, recall 1
        ("red red wine", "red wine", 0.8),  # a word counts as often as both have it
        ("white", "red wine", 0.0),
        ("", "red", 0.0),
        ("the", "a", 1.0),  # nothing is left of both
        ("no one knows", "no", 0.0),
        ("yes", "yes", 1.0),
        ("blue", ["red", "dark blue"], 2 / 3),
        ("blue", [], 0.0),
    ],
)
def test_f1(answer: str, expected: str | list[str], value: float) -> None:
    assert f1(answer, expected) == pytest.approx(value)
