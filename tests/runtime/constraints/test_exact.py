"""Closed sets as ids, and the choice among their texts."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from support.jumps import Bench, Trace, bpe_tokenizer, settle, take

from sgc_ir.automata import automaton as automata
from sgc_ir.automata import limits
from sgc_ir.automata.regex import regex_automaton
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints import exact
from sgc_runtime.constraints.canonical import Window
from sgc_runtime.constraints.exact import ClosedSets, Option, OptionSet, choose, weigh
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.token_masks import TokenMasks

WORDS = ["ap", "app", "le", "apple", "; ", "Re", "A+", "t;", "x\n", "12"]
EOS = 0


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(bpe_tokenizer(tmp_path_factory.mktemp("bpe"), WORDS))


def at(
    bench: Bench, pattern: str, begun: str = "", stops: tuple[str, ...] = ()
) -> OptionSet | None:
    """The set behind the ids of `begun` and what is forced behind them."""
    planner = bench.planner(regex_automaton(pattern))
    matcher = Matcher(planner)
    take(matcher, bench.tokenizer.encode(begun) if begun else ())
    settle(bench, matcher, Trace())
    return ClosedSets(planner, [EOS], stops).at(matcher)


def ids(bench: Bench, text: str) -> tuple[int, ...]:
    return tuple(bench.tokenizer.encode(text))


def test_whole_texts_end_with_eos(bench: Bench) -> None:
    found = at(bench, "apple|applet|axe|")
    assert found is not None
    assert found.ends
    for option in found.options:
        assert option.ids == ids(bench, option.text.decode())
        assert option.scored == ((*option.ids, EOS),)


def test_whole_texts_end_with_a_stop(bench: Bench) -> None:
    found = at(bench, "ax|b", stops=("\n", "\n\n", "!"))
    assert found is not None
    ax, b = found.options
    assert ax.ids == ids(bench, "ax")
    # One token that holds the stop, too; two line feeds begin with one.
    assert set(ax.scored) == {ids(bench, "ax\n"), ids(bench, "ax!")}
    assert ax.scored[0][:1] == ids(bench, "a")
    assert set(b.scored) == {ids(bench, "b\n"), ids(bench, "b!")}


def test_texts_in_the_middle_end_at_a_token_that_all_have(bench: Bench) -> None:
    found = at(bench, r"(A|B)\+?; R[a-z]*")
    assert found is not None
    assert not found.ends
    assert [o.text for o in found.options] == [b"A+;", b"A;", b"B+;", b"B;"]
    # `R` may become `Re`.
    for option in found.options:
        assert option.ids == ids(bench, option.text.decode() + " ")
        assert option.scored == (option.ids,)
        assert option.num_own == len(option.ids) - 1


def test_no_set_where_what_follows_may_join_a_text(bench: Bench) -> None:
    assert at(bench, "[0-9][0-9a-z]*") is None  # `12`
    assert at(bench, "[3-9][a-z]*") is not None


def test_what_follows_may_hold_the_end_of_one_text(bench: Bench) -> None:
    # `t;` holds the end of `applet` and what follows it, `;` alone what follows `apple`.
    found = at(bench, "(apple|applet);R[a-z]*")
    assert found is not None
    for option in found.options:
        assert bench.canonical.bytes_of(option.ids).endswith(b";")


def test_sets_behind_ids(bench: Bench) -> None:
    found = at(bench, "app(le|let|x)", begun="app")
    assert found is not None
    for option in found.options:  # the ids before may change with what follows
        assert option.ids == ids(bench, "app" + option.text.decode())


@pytest.mark.parametrize(
    ("pattern", "reachable"),
    [("[a-z]+", False), (".*", False), ("[a-z]+: (yes|no)", True), ("(yes|no).*", True)],
)
def test_whether_there_is_any(bench: Bench, pattern: str, reachable: bool) -> None:
    planner = bench.planner(regex_automaton(pattern))
    assert ClosedSets(planner, [EOS], ()).any_within_reach() is reachable


def test_the_search_gives_way_and_ends_alike(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_SLICE_S", 1e-5)
    monkeypatch.setattr(limits, "_BETWEEN_LOOKS", 0)
    for pattern, reachable in (("[a-z]{3}|.+", False), ("[a-z]+: (yes|no)", True)):
        worked: list[float] = []
        planner = bench.planner(regex_automaton(pattern))
        found = ClosedSets(planner, [EOS], ()).any_within_reach(worked.append)
        assert found is reachable
        assert len(worked) > 3
    monkeypatch.setattr(exact, "_MOST_S", 0.0)
    planner = bench.planner(regex_automaton(r"((\w{1,30} ?){1,30}[,;]? ?){1,30}\."))
    with pytest.raises(ConstraintError, match="few texts takes more than"):
        ClosedSets(planner, [EOS], ()).any_within_reach()


def test_the_search_is_bounded_by_what_it_does(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = bench.planner(regex_automaton(".{9,}"))
    assert not ClosedSets(planner, [EOS], ()).any_within_reach()
    monkeypatch.setattr(exact, "_SEARCHED", 3)
    assert ClosedSets(planner, [EOS], ()).any_within_reach()


def test_a_text_is_counted_once_however_often_the_search_begins_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_PLACES", 4)
    monkeypatch.setattr(exact, "_TRIED", 50)
    sets = ClosedSets(bench.planner(regex_automaton("[0-9]+")), [EOS], ())
    for _ in range(3):
        for number in range(50):
            sets._encode(Window(), str(number).encode())
    assert sets._num_encoded == 50


def test_no_state_is_dropped_while_sets_are_looked_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_MANY_STATES", 4), ("_MANY_NODES", 4), ("_RECENT", 0)):
        monkeypatch.setattr(automata, name, value)
    drops, keep = 0, TokenMasks.keep

    def counted(masks: TokenMasks, states: Iterable[int]) -> None:
        nonlocal drops
        drops += 1
        keep(masks, states)

    monkeypatch.setattr(TokenMasks, "keep", counted)
    planner = bench.planner(regex_automaton(r"(?:[a-c]{1,3} [0-9]{1,3};){1,30}(yes|no)x*"))
    matcher, sets = Matcher(planner), ClosedSets(planner, [EOS], ())
    failures: list[Exception] = []

    def look() -> None:
        try:
            for _ in range(20):
                sets.any_within_reach()
                sets.at(matcher)
                time.sleep(0.001)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or not drops:
        take(Matcher(planner), ids(bench, "abc 123;" * 20))
    assert not failures


def options(*counts: int) -> tuple[Option, ...]:
    return tuple(Option(b"x", (), 0, ((1,),) * count) for count in counts)


def test_probabilities_of_the_ends_add_up() -> None:
    rows = [[-1.0, -2.0], [-3.0], [-0.5], [-700.0, -700.0]]
    weighed = weigh(options(2, 1, 1), rows)
    expected = (math.log(2 * math.exp(-3)), -0.5, -1400.0)
    assert weighed.logprobs == pytest.approx(expected)
    assert weighed.mass == pytest.approx(math.log(2 * math.exp(-3) + math.exp(-0.5)))
    assert sum(weighed.to_meta()["probabilities"]) == pytest.approx(1)


def test_greedy_takes_the_likeliest() -> None:
    weighed = weigh(options(1, 1, 1), [[-900.5], [-900.25], [-901.0]])
    assert choose(weighed, SamplingParams(temperature=0.0), 0, 0) == 1


@pytest.mark.parametrize(
    ("params", "shares"),
    [
        ({}, [0.1, 0.2, 0.3, 0.4]),
        ({"temperature": 0.5}, [1 / 30, 4 / 30, 9 / 30, 16 / 30]),
        ({"top_k": 2}, [0, 0, 3 / 7, 4 / 7]),
        ({"top_p": 0.65}, [0, 0, 3 / 7, 4 / 7]),
        ({"min_p": 0.6}, [0, 0, 3 / 7, 4 / 7]),
    ],
)
def test_draws_follow_the_probabilities(params: dict[str, Any], shares: list[float]) -> None:
    logs = [[math.log(p) - 300] for p in (0.1, 0.2, 0.3, 0.4)]
    weighed = weigh(options(1, 1, 1, 1), logs)
    drawn = Counter(choose(weighed, SamplingParams(**params), seed, 3) for seed in range(1200))
    expected = np.array(shares) * 1200
    seen = np.array([drawn[i] for i in range(4)])
    assert (seen[expected == 0] == 0).all()
    seen, expected = seen[expected > 0], expected[expected > 0]
    assert ((seen - expected) ** 2 / expected).sum() < 24  # chi-square, 3 degrees: p = 2.5e-5


def test_no_numbers_give_no_choice() -> None:
    weighed = weigh(options(1, 1), [[float("nan")], [0.0]])
    assert choose(weighed, SamplingParams(), 0, 0) is None
