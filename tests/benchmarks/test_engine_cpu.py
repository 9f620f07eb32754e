"""The benchmark's bookkeeping against results worked out by hand, and its result file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks import engine_cpu
from benchmarks.common.ceilings import Ceilings
from benchmarks.common.goals import (
    Rates,
    decode_steps,
    floors,
    rates,
    rates_of_like_work,
    shared_goal,
)
from benchmarks.common.peer import Replay, batches, check_replay, waves
from benchmarks.common.prefixes import shared_prefix
from benchmarks.common.recording import RecordedCall, Recording
from benchmarks.common.sizes import Sizes
from benchmarks.common.unshared_twin import unshared_twin

# Two calls share three tokens; the third goes on from the first and repeats one of its tokens.
FIRST = RecordedCall((1, 2, 3, 4), (5, 6))
SECOND = RecordedCall((1, 2, 3, 7, 8), (9,))
CHILD = RecordedCall((1, 2, 3, 4, 5, 6, 10), (11, 12, 13), parent=0, shared=6, wave=1)
TREE = Recording((FIRST, SECOND, CHILD))
CHOICES = Recording((RecordedCall((1, 2), choices=((3, 4), (3, 5), (6,))),))


def test_tokens_that_must_be_computed() -> None:
    # 1 2 3 4 | 5 decoded; 7 8; 6 (the last of a gen is never computed) 10 | 11 12 decoded
    assert TREE.must_compute() == (4 + 2 + 2, 1 + 2)
    assert CHOICES.must_compute() == (3, 0)  # 1 2, and 3 once


def test_a_prompt_takes_the_tokens_that_an_engine_made_itself() -> None:
    assert TREE.prompt_of(2, [[50, 60], [9], []]) == [1, 2, 3, 4, 50, 60, 10]


def test_waves_and_batches() -> None:
    assert waves(TREE) == [[0, 1], [2]]
    assert batches([5, 1, 3], 2) == [[1, 2], [0]]


def test_decode_steps_read_a_shared_prefix_once() -> None:
    # First wave: 6 distinct prompt positions and one step of FIRST; then two steps of CHILD.
    assert decode_steps(TREE) == [(1, 6 + 1), (1, 7 + 1), (1, 7 + 2)]


def test_floors_take_the_larger_of_bytes_and_operations() -> None:
    sizes = Sizes(layer_weights=10, head_weights=0, bfloat16_bytes=20, file_bytes=5, kv_bytes=0)
    one = Recording((RecordedCall((1,), (2, 3)),))
    found = floors(one, sizes, Ceilings(read_gb_s=1e-9, bf16_gflop_s=1e-9))
    assert found["prefill_s"] == 20
    assert found["decode_s_bfloat16_weights"] == 20
    assert found["decode_s_file_weights"] == 20  # 20 operations outweigh 5 bytes


def test_a_shared_goal_is_the_ratio_of_what_unshared_work_takes() -> None:
    ours, peer = Rates(prefill=4.0, decode=2.0), Rates(prefill=2.0, decode=1.0)
    goal = shared_goal(TREE, peer_tokens=16 + 3, ours=ours, peer=peer)
    # The peer: 16 / 2 + 3 / 1 = 11 s; ours must take 8 / 4 + 3 / 2 = 3.5 s.
    assert goal["goal"] == pytest.approx(0.9 * 11 / 3.5, abs=1e-3)
    assert goal["token_ratio"] == pytest.approx(19 / 11, abs=1e-3)


def test_rates_leave_the_prompts_out_of_decode() -> None:
    prompts = Recording((RecordedCall((1,) * 10, (2,)),))
    chats = Recording((RecordedCall((1,) * 5, (2, 3, 4, 5, 6)),))
    found = rates(prompts, 2.0, chats, 3.0)
    assert found.prefill == 5.0
    assert found.decode == 4 / (3.0 - 1.0)


def test_rates_of_like_work_count_padding_and_take_the_first_tokens_off() -> None:
    found = rates_of_like_work(computed=30, first_s=2.0, decoded=8, all_s=6.0)
    assert (found.prefill, found.decode) == (15.0, 2.0)
    alone = rates_of_like_work(computed=30, first_s=2.0)
    assert alone.to_dict() == {"prefill_tokens_s": 15.0}
    # Nothing decoded costs nothing, and twice as many tokens at half the rate four times as much.
    assert alone.seconds(30, 0) == 2.0
    peer = rates_of_like_work(computed=30, first_s=4.0)
    assert shared_goal(CHOICES, 6, alone, peer)["goal"] == pytest.approx(0.9 * 4)


def words(ids: Iterable[int]) -> str:
    return " ".join(map(str, ids))


def test_a_twin_shares_nothing_and_has_the_shapes_of_the_part() -> None:
    twin = unshared_twin(TREE, words, rows=2, more=7)
    assert twin.first.rows == [
        {"text": "0. 1 2 3 4", "length": 1, "heat": 0.0},
        {"text": "1. 1 2 3 7 8", "length": 1, "heat": 0.0},
    ]  # the third call runs later and alone
    assert twin.all is not None
    assert [row["length"] for row in twin.all.rows] == [8, 8]
    assert twin.decoded == 14
    letters = Recording(tuple(RecordedCall((i, 1), (2,), heat=0.5) for i in range(6)))
    short = unshared_twin(letters, words, rows=3, more=7)
    assert short.all is None
    assert [row["text"] for row in short.first.rows] == ["0. 0 1", "1. 2 1", "2. 4 1"]
    assert short.first.rows[0]["heat"] == 0.5


def test_a_twin_of_scored_choices_scores_one_a_row() -> None:
    twin = unshared_twin(Recording(CHOICES.calls * 2), words, rows=2, more=7)
    assert twin.all is None
    assert twin.first.rows == [
        {"examples": "0. ", "context": "1 2", "endings": ["3 4"]},
        {"examples": "1. ", "context": "1 2", "endings": ["3 5"]},
    ]


def test_other_work_is_refused() -> None:
    right = Replay(1.0, [[0, 0], [0], [0, 0, 0]])
    check_replay(TREE, right)
    with pytest.raises(ValueError, match="5 new tokens instead of 6"):
        check_replay(TREE, Replay(1.0, [[0, 0], [0], [0, 0]]))
    with pytest.raises(ValueError, match="2 scored choices instead of 3"):
        check_replay(CHOICES, Replay(1.0, [[]], scored=2))


def test_shared_prefix() -> None:
    head = tuple(range(20))
    assert shared_prefix([(*head, 1, 2), (*head, 3)]) == 20
    assert shared_prefix([head, (*head, 3)]) == 19  # the last token is computed for its logits
    assert shared_prefix([(1, 2), (1, 3)]) == 0


@pytest.mark.model
def test_result_file(tmp_path: Path) -> None:
    out = tmp_path / "engine.json"
    options = ["--limit", "1", "--repetitions", "1", "--threads", "1", "--output", str(out)]
    engine_cpu.main([*options, "--parts", "c", "--peers", ""])
    found = json.loads(out.read_text())
    result = found["parts"]["c"]
    assert result["conditions"]["data"].startswith("built-in text set")
    assert {"cpu", "cores", "threads", "versions", "commit", "load_average"} <= set(
        result["conditions"]
    )
    assert result["warm_up"] == "1 of 1 rows"
    assert set(result["engines"]) == {"sgc", "sgc, dense bfloat16"}
    for engine in result["engines"].values():
        assert engine["median_s"] > 0
        assert engine["where_time_goes_s"]["forward"] > 0
    assert result["floors"]["total_s_bfloat16_weights"] > 0
    assert result["work"]["new_tokens"] == 8


@pytest.mark.model
@pytest.mark.long
def test_transformers_does_the_same_work(tmp_path: Path) -> None:
    out = tmp_path / "engine.json"
    options = ["--limit", "1", "--repetitions", "1", "--threads", "1", "--output", str(out)]
    engine_cpu.main([*options, "--parts", "ce", "--peers", "transformers,prefilled"])
    parts = json.loads(out.read_text())["parts"]
    assert set(parts) == {"calibration", "c", "e"}
    first = parts["c"]["comparisons"][0]
    assert (first["peer"], first["goal"]) == ("transformers generate", 4.0)
    assert parts["e"]["work"]["scored_choices"] == 4
    for comparison in parts["e"]["comparisons"]:
        assert comparison["speed_ratio"] > 0
        assert comparison["token_ratio"] > 0
        assert comparison["like_for_like"]["goal"] > 0
    twin = parts["e"]["unshared_rates"]["like_for_like"]
    assert twin["transformers generate"]["prefill_tokens_s"] > 0
