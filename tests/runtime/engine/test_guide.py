"""What a sample's constraint does to its ids where `max_tokens` is near."""

from __future__ import annotations

import pytest
from support.jumps import Bench, bpe_tokenizer

from sgc_ir.automata.regex import regex_automaton
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.engine.guide import Guide

# `de` is made before `cd` and `abcd`, so that an `e` behind `abcd` leaves but `ab` and `c` of it.
WORDS = ["ab", "de", "cd", "abcd"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(bpe_tokenizer(tmp_path_factory.mktemp("bpe"), WORDS))


def texts(bench: Bench, ids: list[int]) -> list[str]:
    return [bench.text([token]).decode() for token in ids]


@pytest.mark.parametrize("jumps", [True, False])
@pytest.mark.parametrize(
    ("most", "expected"), [(9, ["ab", "c", "de"]), (3, ["ab", "c", "de"]), (2, ["abcd"])]
)
def test_no_text_is_taken_back_for_a_jump_that_is_cut(
    bench: Bench, jumps: bool, most: int, expected: list[str]
) -> None:
    (whole,) = bench.tokenizer.encode("abcd", start=False)
    guide = Guide(Matcher(bench.planner(regex_automaton("(abcd|x)e"))), jumps, most)
    guide.begin()
    guide.follow()
    guide.take(whole)
    guide.follow()
    assert texts(bench, guide.matcher.ids) == expected
    assert list(guide.waiting) == ([] if jumps else guide.matcher.ids[1:])
