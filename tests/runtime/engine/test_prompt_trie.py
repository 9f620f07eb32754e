"""The best possible hit rate against its definition over sets of prefixes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import Ask, make_core, run_all

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.prompt_trie import PromptTrie

CALL = st.tuples(
    st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple),
    st.lists(st.integers(0, 2), max_size=4).map(tuple),
)


@given(st.lists(CALL, min_size=1, max_size=8))
def test_equals_the_definition(calls: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    trie = PromptTrie(1000)
    asked: set[tuple[int, ...]] = set()
    made: set[tuple[int, ...]] = set()
    covered = total = 0
    for prompt, output in calls:
        positions = {prompt[: n + 1] for n in range(len(prompt))}
        covered += positions <= asked | made
        asked |= positions
        total += len(prompt)
        whole = prompt + output
        made |= {whole[: n + 1] for n in range(len(prompt), len(whole))}
        trie.add_prompt(np.array(prompt, np.int32))
        trie.add_made(np.array(whole, np.int32), len(prompt))
    expected = 1 - (len(asked - made) + covered) / total
    assert trie.optimal_hit_rate() == pytest.approx(expected)


def test_unknown_when_nothing_was_asked_or_too_much() -> None:
    trie = PromptTrie(5)
    assert trie.optimal_hit_rate() is None
    trie.add_prompt(np.arange(4, dtype=np.int32))
    assert trie.optimal_hit_rate() == 0.0
    trie.add_prompt(np.arange(10, 14, dtype=np.int32))
    assert trie.optimal_hit_rate() is None


@given(st.lists(CALL, min_size=1, max_size=6), st.lists(CALL, min_size=1, max_size=3))
def test_calls_without_a_result_do_not_count(
    calls: list[tuple[tuple[int, ...], tuple[int, ...]]],
    failed: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> None:
    """They come last here: what came before counts as if they had never been."""
    tries = PromptTrie(1000), PromptTrie(1000)
    for trie in tries:
        for prompt, output in calls:
            trie.add_prompt(np.array(prompt, np.int32))
            trie.add_made(np.array(prompt + output, np.int32), len(prompt))
    prompts = [np.array(prompt, np.int32) for prompt, _ in failed]
    covered = [tries[1].add_prompt(prompt) for prompt in prompts]
    for prompt, was in list(zip(prompts, covered, strict=True))[::-1]:
        tries[1].take_back(prompt, was)
    assert tries[1].optimal_hit_rate() == pytest.approx(tries[0].optimal_hit_rate())


def generation(prompt: list[int]) -> Ask:
    return Ask(prompt, SamplingParams(temperature=0, max_tokens=5, ignore_eos=True))


def test_the_engine_counts_as_made_what_decode_has_computed() -> None:
    """Of 2 + 5 tokens all but the last; so of a second prompt with them, the last of them and the
    one behind have to be computed."""
    core = make_core()
    first = generation([2, 3])
    run_all(core, [first])
    run_all(core, [generation([2, 3, *first.output, 9])])
    assert core.trie.optimal_hit_rate() == pytest.approx(1 - (2 + 2) / (2 + 8))


def test_the_engine_takes_a_cancelled_call_back() -> None:
    """But others find what it had computed."""
    core = make_core()
    gone, others = generation([2, 3, 4]), [generation([2, 5]), generation([2, 5])]
    core.add(gone.request)
    core.step()
    core.cancel(gone.request)
    for other in others:
        run_all(core, [other])
    assert [o.outcome.cached_tokens for o in others if o.outcome is not None] == [1, 1]
    assert core.trie.optimal_hit_rate() == pytest.approx((1 + 1) / (2 + 2))
