"""What is known of a token at once is what following it finds out."""

from __future__ import annotations

import pytest
from support.jumps import END, Bench, Trace, bpe_tokenizer, random_model, sample, word_tokenizer
from support.tokenizer import KINDS

from sgc_ir.automata import automaton as automata
from sgc_ir.automata.regex import regex_automaton
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.engine.guide import Guide

NAMES = ["gpt2", "smollm", "qwen2", "gemma", "mistral", "words"]
WORDS = ["or", "de", "der", "order", "Id", "orderId", '",', '"}', "ab", " y", "://", " A"]
PATTERNS = [
    r'\{"name": "[A-Za-z ]{2,12}", "age": [0-9]{1,3}, "alive": (true|false)\}',
    r"(The|A) answer is (yes|no), (because|since) [a-z ]{1,12}\.",
    r"(order|orderId|or [ab]+)\n\n(x|  y){2}",
    r"[\w\d\s]{1,16}",
    "日本語(です|だ)|無線|無緑",
    r"(😀😁|😀😂){1,3}",
    r"[a-z]{9,40}",
]


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    found = {"words": Bench(bpe_tokenizer(tmp_path_factory.mktemp("words"), ["//", *WORDS]))}
    for kind in KINDS:
        if kind.name in NAMES:
            found[kind.name] = Bench(word_tokenizer(kind, tmp_path_factory.mktemp(kind.name)))
    return found


def follow(bench: Bench, planners: tuple[Planner, Planner], seed: int, jumps: bool) -> int:
    """One sample, with what is known and without; how often it was."""
    at_start = bench.tokenizer.at_start([])
    quick, slow = (Guide(Matcher(p, at_start=at_start), jumps, 24) for p in planners)
    quick.begin()
    slow.begin()
    assert quick.follow() == slow.follow()
    model, known = random_model(seed, bench.tokenizer.vocab_size), 0
    while not slow.is_final and len(slow.matcher.ids) < 24:
        quick.waiting.clear()
        slow.waiting.clear()
        token = sample(quick.matcher, model, Trace())
        if token == END:
            break
        change = quick.advance(token)
        known += change is not None
        slow.take(token)
        assert (quick.follow() if change is None else change) == slow.follow()
        assert quick.waiting == slow.waiting
        check_place(quick.matcher, slow.matcher)
    return known


def check_place(quick: Matcher, slow: Matcher) -> None:
    assert quick.ids == slow.ids
    assert (quick.rest, quick.end_allowed, quick.is_final) == (
        slow.rest,
        slow.end_allowed,
        slow.is_final,
    )
    assert quick.window == slow.window
    assert (quick.mask() == slow.mask()).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("jumps", [True, False])
def test_what_is_known_is_what_is_found(benches: dict[str, Bench], name: str, jumps: bool) -> None:
    bench, known = benches[name], 0
    for pattern in PATTERNS:
        planners = tuple(bench.planner(regex_automaton(pattern)) for _ in range(2))
        for seed in range(6):
            known += follow(bench, planners, seed % 4, jumps)
    assert known > 20


def test_nothing_is_known_where_states_are_to_be_dropped(
    benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, pattern = benches["smollm"], r"[a-z ]{200}"
    planners = bench.planner(regex_automaton(pattern)), bench.planner(regex_automaton(pattern))
    assert follow(bench, planners, 1, True) == 0
    assert follow(bench, planners, 1, True) > 0
    monkeypatch.setattr(automata.Automaton, "is_crowded", True)
    assert follow(bench, planners, 1, True) == 0
