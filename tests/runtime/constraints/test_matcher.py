"""Whole samples under constraints, with models that are functions of the ids."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jumps import (
    Bench,
    Trace,
    bpe_tokenizer,
    byte_tokenizer,
    generate,
    generate_singly,
    random_model,
    settle,
    take,
    word_tokenizer,
)
from support.masks import allowed, tokens_of
from support.tokenizer import KINDS

from sgc_ir.automata import automaton as automata
from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError
from sgc_runtime.constraints import bounded
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.models import resolve
from sgc_runtime.tokenizer.tokenizer import load_tokenizer

NAMES = ["gpt2", "qwen2", "llama-bpe", "gemma", "mistral", "bytes"]
WORDS = ["or", "de", "der", "order", "Id", "orderId", '",', '"}', "ab", " y", "://", " A"]

PATTERNS = [
    r'\{"name": "[a-z]{1,8}", "age": [0-9]{1,3}\}',
    r"(The|A) answer is (yes|no), (because|since) [a-z ]{1,12}\.",
    r"(\d{1,3}\.){3}\d{1,3}",
    "日本語(です|だ)|無線|無緑",
    "(😀😁|😀😂){1,3}",
    r"[\w\d\s]{1,16}",
    r"(order|orderId|or [ab]+)\n\n(x|  y){2}",
    r"- [A-Z][a-z]*(\n- [A-Z][a-z]*){1,3}",
    r"(?!ab)[ab]{2,6}!",
    r"x?|(  a){2}",
]


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    found = {"bytes": Bench(byte_tokenizer(tmp_path_factory.mktemp("bytes")))}
    found["words"] = Bench(bpe_tokenizer(tmp_path_factory.mktemp("words"), ["//", *WORDS]))
    for kind in KINDS:
        if kind.name in NAMES:
            found[kind.name] = Bench(word_tokenizer(kind, tmp_path_factory.mktemp(kind.name)))
    return found


@pytest.fixture(scope="module")
def smollm2() -> Bench:
    return Bench(load_tokenizer(resolve("smollm2-135m")))


def check_sample(bench: Bench, planner: Planner, pattern: str, seed: int) -> None:
    """Text, ids and passes of one sample, with jumps and without."""
    at_start = bench.tokenizer.at_start([])
    model = random_model(seed, bench.tokenizer.vocab_size)
    found = Matcher(planner, at_start=at_start)
    trace = generate(bench, found, model)
    text = bench.text(found.ids)
    assert text[:at_start] in (b" ", b"")
    if trace.complete:
        assert re.fullmatch(pattern, text[at_start:].decode())
    singly = generate_singly(bench, lambda: Matcher(planner, at_start=at_start), model)
    assert singly == found.ids
    assert len(singly) == trace.free + trace.forced - trace.rolled_back


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", NAMES)
def test_ids_are_the_same_with_jumps_and_without(
    benches: dict[str, Bench], name: str, pattern: str
) -> None:
    planner = benches[name].planner(regex_automaton(pattern))
    for seed in range(3):
        check_sample(benches[name], planner, pattern, seed)


def check_ids(bench: Bench, pattern: str, seeds: int) -> tuple[int, int]:
    """(samples whose ids are not those of their text, samples)."""
    planner, wrong = bench.planner(regex_automaton(pattern)), 0
    for seed in range(seeds):
        found = Matcher(planner)
        trace = generate(bench, found, random_model(seed, bench.tokenizer.vocab_size))
        text = bench.text(found.ids)
        if trace.complete:
            wrong += bench.tokenizer.encode(text.decode(), start=False) != found.ids
    return wrong, seeds


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_those_of_the_text(benches: dict[str, Bench], name: str) -> None:
    found = [check_ids(benches[name], pattern, 4) for pattern in PATTERNS]
    # Long random letters without a blank are judged by what is near; that may be wrong.
    assert sum(wrong for wrong, _ in found) <= 0.05 * sum(count for _, count in found)


@pytest.mark.parametrize("name", NAMES)
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_masks_follow_the_automaton(
    benches: dict[str, Bench], name: str, data: st.DataObject
) -> None:
    bench, pattern = benches[name], data.draw(st.sampled_from(PATTERNS))
    automaton = regex_automaton(pattern)
    healed = data.draw(st.sampled_from([b"", b" ", b"The", "é:".encode(), b'",'])) or b""
    found = Matcher(bench.planner(automaton), healed)
    for _ in range(6):
        tokens = allowed(found.mask())
        text = bench.text(found.ids)
        for token, more in enumerate(bench.vocabulary.trie.tokens):
            legal = bool(more) and _is_legal(automaton, healed, text + more)
            assert (token in tokens) is legal
        if not tokens:
            assert found.is_final
            return
        found.accept(data.draw(st.sampled_from(sorted(tokens))))


def _is_legal(automaton: Automaton, healed: bytes, text: bytes) -> bool:
    if len(text) <= len(healed):
        return healed.startswith(text)
    begun = text.startswith(healed)
    return begun and automaton.walk(automaton.start, text[len(healed) :]) != DEAD


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_matcher_is_a_function_of_its_ids(benches: dict[str, Bench], data: st.DataObject) -> None:
    bench, pattern = benches["gpt2"], data.draw(st.sampled_from(PATTERNS))
    planner = bench.planner(regex_automaton(pattern))
    found = Matcher(planner)
    generate(bench, found, random_model(data.draw(st.integers(0, 99)), 520), max_tokens=20)
    ids, jump, place = list(found.ids), found.jump(), data.draw(st.integers(0, len(found.ids)))
    state = found.state
    other = Matcher(planner)
    take(other, ids[:place])
    found.rollback(len(ids) - place)
    assert found.ids == ids[:place]
    assert found.state == planner.walk(planner.masks.automaton.start, bench.text(found.ids))
    assert np.array_equal(found.mask(), other.mask())
    assert (found.jump(), found.end_allowed) == (other.jump(), other.end_allowed)
    for again in (found, other):
        take(again, ids[place:])
        assert (again.ids, again.state, again.jump()) == (ids, state, jump)


def healing(bench: Bench, healed: str, pattern: str) -> Matcher:
    return Matcher(bench.planner(regex_automaton(pattern)), healed.encode())


def test_a_token_spans_prompt_and_constraint(benches: dict[str, Bench]) -> None:
    bench = benches["words"]
    found = healing(bench, " ", "[AB]")
    assert found.jump() is None
    assert not found.end_allowed
    texts = [bench.tokenizer.token_bytes(token) for token in tokens_of(found.mask()).tolist()]
    assert sorted(texts) == [b" ", b" A"]
    (joined,) = bench.tokenizer.encode(" A")
    found.accept(joined)
    assert found.is_final


def test_healed_text_is_forced_with_what_follows_it(benches: dict[str, Bench]) -> None:
    bench = benches["words"]
    found = healing(bench, ":", "//[ab]{2}")
    jump = found.jump()
    assert jump is not None
    assert list(jump.ids) == bench.tokenizer.encode("://")
    found.apply(jump)
    assert found.rest == b""


def test_healed_text_that_stays_apart_is_no_text_of_the_constraint(
    benches: dict[str, Bench],
) -> None:
    bench = benches["words"]
    found = healing(bench, "order", "[0-9]")
    jump = found.jump()
    assert jump is not None
    found.apply(jump)
    assert bench.text(found.ids) == b"order"
    assert not found.end_allowed
    assert found.rest == b""


def test_the_blank_in_front_of_a_text_is_not_the_constraints(benches: dict[str, Bench]) -> None:
    bench = benches["mistral"]
    assert bench.tokenizer.at_start([])
    found = Matcher(bench.planner(regex_automaton("The quick")), at_start=True)
    jump = found.jump()
    assert jump is not None
    assert list(jump.ids) == bench.tokenizer.encode("The quick")
    assert jump.final


def test_no_blank_is_put_in_front_of_no_text(benches: dict[str, Bench]) -> None:
    bench = benches["mistral"]
    found = Matcher(bench.planner(regex_automaton("|x")), at_start=True)
    assert found.end_allowed
    assert found.jump() is None
    assert Matcher(bench.planner(regex_automaton("")), at_start=True).is_final


def test_what_an_earlier_gen_began_is_part_of_the_text(benches: dict[str, Bench]) -> None:
    bench = benches["words"]
    planner = bench.planner(regex_automaton("[日本]x[0-9]"))
    begun, rest = "日".encode()[:1], "日".encode()[1:]
    found = Matcher(planner, begun=begun)
    assert found.jump() is None
    found.accept(bench.prefixes.starting_with(rest[:1]).tolist()[0])
    settle(bench, found, Trace())
    assert bench.text(found.ids) == rest + b"x"
    with pytest.raises(ConstraintError, match="left unfinished"):
        Matcher(planner, begun=b"\xf0")


def test_what_is_not_allowed_is_not_taken(benches: dict[str, Bench]) -> None:
    found = healing(benches["words"], "x", "[ab]")
    (other,) = benches["words"].tokenizer.encode("c")
    with pytest.raises(AssertionError, match="does not allow"):
        found.accept(other)


@pytest.mark.model
@pytest.mark.parametrize("pattern", PATTERNS[:6])
def test_samples_of_the_default_models_tokenizer(smollm2: Bench, pattern: str) -> None:
    planner = smollm2.planner(regex_automaton(pattern))
    for seed in range(2):
        check_sample(smollm2, planner, pattern, seed)


@pytest.mark.model
def test_ids_of_the_default_models_tokenizer(smollm2: Bench) -> None:
    found = [check_ids(smollm2, pattern, 2) for pattern in PATTERNS]
    assert sum(wrong for wrong, _ in found) <= 1


@pytest.mark.parametrize(
    "pattern", [r"(?:[a-c]{1,9} [0-9]{1,3};){1,60}", r"(?:(?:ab|cd)\w{2,9}, ){3,}"]
)
def test_states_are_dropped_meanwhile(
    benches: dict[str, Bench], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = benches["gpt2"]
    for name, value in (("_MANY_STATES", 40), ("_MANY_NODES", 60), ("_RECENT", 8)):
        monkeypatch.setattr(automata, name, value)
    drops = []
    keep = TokenMasks.keep

    def counted(masks: TokenMasks, states: Iterable[int]) -> None:
        drops.append(masks.automaton.num_states)
        keep(masks, states)

    monkeypatch.setattr(TokenMasks, "keep", counted)
    for seed in range(3):
        check_sample(bench, bench.planner(regex_automaton(pattern)), pattern, seed)
    assert drops


def test_no_state_is_asked_about_that_may_be_dropped(benches: dict[str, Bench]) -> None:
    planner = benches["bytes"].planner(regex_automaton("[ab]{400}"))
    found = Matcher(planner)
    take(found, benches["bytes"].tokenizer.encode("ab" * 200, start=False))
    assert [i for i in range(401) if found.is_legal(i, b"a")] == [399]
    assert all(found.is_legal(i, b"a") is not None for i in range(401))
    planner._drop()
    held, states = set(found.held()), found._states
    known = [i for i in range(401) if found.is_legal(i, b"a") is not None]
    assert len(known) > 200
    assert all(states[i] in held for i in known)


def spend(matcher: Matcher, seconds: float) -> None:
    with matcher.bounded():
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass


def test_a_slow_sample_fails_no_other(
    benches: dict[str, Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "_MOST_OVERDUE_S", 0.02)
    planner = benches["bytes"].planner(regex_automaton("[ab]+"))
    slow = Matcher(planner)
    with pytest.raises(ConstraintError, match=r"more than 0\.02 s beyond") as error:
        spend(slow, 0.05)
    assert error.value.kind == "limit"
    for other in (Matcher(planner), Matcher(planner)):
        with other.bounded():
            assert other.mask().any()
