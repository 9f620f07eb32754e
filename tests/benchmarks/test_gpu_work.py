"""What the benchmarks on a GPU count and compare, against results worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.jumps import byte_tokenizer

from benchmarks.gpu.arguments import read_options
from benchmarks.gpu.kv_pools import kv_pool_tokens
from benchmarks.gpu.lineup import ENTRANTS, groups, warm_up
from benchmarks.gpu.model_files import make_model
from benchmarks.gpu.peer_report import figures, part_result, prefill_floor_s, programs_result
from benchmarks.gpu.prompts import Prompts
from benchmarks.gpu.rates import GpuCeilings
from benchmarks.gpu.scripts import PROGRAMS, Output, Script, replay_by_waves
from benchmarks.gpu.shapes import LLAMA_8B, TINY, causal_pairs
from benchmarks.gpu.trace import KernelRun, idle_shares, length, time_of, union
from benchmarks.gpu.works import Work, parts, work_of


def test_a_prompt_holds_what_the_calls_before_have_made() -> None:
    script = Script("s")
    first = script.call(0, None, [[1, 2]], 2)
    second = script.call(0, first, [[3]], 1)
    joined = script.call(0, None, [[1], Output(first), [4], Output(second)], 1)
    outputs = [[10, 11], [12], None]
    assert script.prompt(second, outputs) == [1, 2, 10, 11, 3]
    assert script.prompt(joined, outputs) == [1, 10, 11, 4, 12]
    assert script.waves() == [[first], [second], [joined]]
    assert script.prompt_tokens == 2 + 5 + 5
    with pytest.raises(ValueError, match="call 1 made 0 ids instead of 1"):
        script.check([[1, 2], [], [1]])


def test_a_replay_by_waves_asks_for_each_call_once() -> None:
    script = PROGRAMS["judge with six branches"](Prompts(1000, 0), 0.1)
    asked: list[int] = []

    def answer(prompts: list[list[int]], lengths: list[int]) -> list[list[int]]:
        asked.append(len(prompts))
        return [[len(prompt)] * n for prompt, n in zip(prompts, lengths)]

    outputs = replay_by_waves(script, answer)
    script.check(outputs)
    assert asked == [len(wave) for wave in script.waves()] == [18, 3]


def test_programs_have_the_calls_that_they_are_known_for() -> None:
    made = {name: make(Prompts(49_152, 0), 1.0) for name, make in PROGRAMS.items()}
    tree = made["tree of thought"]
    assert len([call for call in tree.calls if call.instance == 3]) == 30
    assert [len(wave) for wave in tree.waves()] == [32, 64, 128, 256]
    judged = [call for call in made["judge with six branches"].calls if call.instance == 0]
    assert [call.wave for call in judged] == [0] * 6 + [1]
    assert len(judged[-1].waits_for()) == 6
    assert [len(wave) for wave in made["multi-turn chat"].waves()] == [64] * 4


def test_equal_seeds_give_equal_prompts_and_works_travel_as_plain_data() -> None:
    work = parts()["a1"].work
    again = work_of(json.loads(json.dumps(work.to_dict())))
    assert again == work
    small = work.scaled(0.01)
    rows = small.prompts(49_152, 5)
    assert rows == small.prompts(49_152, 5) != small.prompts(49_152, 6)
    assert len(rows) == 5
    assert len({tuple(row[:15]) for row in rows}) == 1
    assert [len(row) for row in rows] == [16] * 5


def test_parts_are_warmed_up_whole_or_with_all_their_prompts() -> None:
    assert warm_up(parts()["b"]) == Work(256, 0, 512, 8)
    for name in ("a1", "c date", *PROGRAMS):
        assert warm_up(parts()[name]) == parts()[name].work


def test_pools_are_read_from_settings_or_from_what_engines_print() -> None:
    assert kv_pool_tokens({"budgets": {"kv_tokens": 400_000}}, "") == 400_000
    printed = "[x] max_total_num_tokens=812345, chunked_prefill_size=8192, max_total_tokens=None"
    assert kv_pool_tokens({}, printed) == 812_345
    assert kv_pool_tokens({}, "INFO: GPU KV cache size: 1,234,560 tokens\nready") == 1_234_560
    assert kv_pool_tokens({"max_total_tokens": 80_000}, "ready") is None


def test_engines_that_change_constraints_only_start_together() -> None:
    found = [[entrant.name for entrant in group] for group in groups(list(ENTRANTS.values()))]
    assert found == [["sgc"], ["sglang"], ["vllm"], ["sglang, llguidance", "vllm, guidance"]]


def test_bytes_and_operations_of_the_model() -> None:
    assert LLAMA_8B.step_bytes(49_152) == pytest.approx(14.36e9, rel=1e-3)
    assert LLAMA_8B.kv_bytes == 131_072
    assert causal_pairs(3, 10) == 11 + 12 + 13
    ceilings = GpuCeilings(copy_gb_s=1.0, matrix_tflop_s=1.0)
    floor = prefill_floor_s(Work(2, 3, 1, 1), TINY, 10, ceilings)
    tokens, pairs = 3 + 2, 1 + 2 + 3 + 2 * 4
    operations = 2 * (TINY.layer_weights * tokens + 10 * 64 * 2) + 4 * 2 * 4 * 32 * pairs
    assert floor == pytest.approx(operations / 1e12)
    assert prefill_floor_s(Work(2, 3, 1, 2), TINY, 10, ceilings) is None


def test_gaps_between_kernels_and_waiting_are_told_apart() -> None:
    runs = [KernelRun("a", 0, 10), KernelRun("b", 5, 20), KernelRun("b", 22, 40)]
    runs += [KernelRun("c", 60, 100)]
    assert union([(0, 2), (1, 3), (5, 6)]) == [(0, 3), (5, 6)]
    assert length(union([(0, 2), (5, 6)], gap=3)) == 6
    found = idle_shares(runs)
    assert found["waiting"] == pytest.approx(0.20)
    assert found["all"] == pytest.approx(0.22)
    assert time_of(runs, ["a", "b"], "b") == pytest.approx((20 + 18) / 2)
    assert time_of(runs, ["z"], "z") is None


def run_of(seconds: float, **facts: Any) -> dict[str, Any]:
    return {"seconds": seconds, "new_tokens": 10, **facts}


def test_a_goal_is_judged_against_the_best_peer() -> None:
    part = parts()["a1"]
    engines = {
        name: figures(part, [run_of(s)]) for name, s in (("sgc", 1.0), ("x", 1.6), ("y", 1.3))
    }
    found = part_result(part, engines, {"z": "not here"}, floor_s=0.9)
    assert found["missing"] == {"z": "not here"}
    assert found["comparisons"] == [
        {"peer": "x", "speed_ratio": 1.6},
        {"peer": "y", "speed_ratio": 1.3, "best": True, "goal": 1.4, "met": False},
        {"of": "the floor", "share": 0.9, "goal": 0.8, "met": True},
    ]


def test_illegal_texts_do_not_count_and_lengths_are_told() -> None:
    part = parts()["c date"]
    runs = {"sgc": run_of(1.0, legal=128, characters=100), "x": run_of(0.1, legal=127)}
    runs["y"] = run_of(5.0, legal=128, characters=200)
    engines = {name: figures(part, [run]) for name, run in runs.items()}
    (entry,) = part_result(part, engines, {}, None)["comparisons"]
    assert entry["peer"] == "y"
    assert entry["speed_ratio"] == 5.0
    assert entry["speed_ratio_a_character"] == 2.5
    assert entry["met"]
    engines["sgc"]["legal"] = 127
    (entry,) = part_result(part, engines, {}, None)["comparisons"]
    assert not entry["met"]


def test_the_best_run_counts_and_every_text_must_be_legal() -> None:
    runs = [run_of(2.0, legal=127, characters=90), run_of(1.0, legal=128, characters=100)]
    found = figures(parts()["c date"], runs)
    assert (found["best_s"], found["seconds"]) == (1.0, [2.0, 1.0])
    assert (found["new_tokens_s"], found["characters"], found["legal"]) == (10.0, 100, 127)


def test_the_mean_over_programs_takes_the_best_peer_of_each() -> None:
    entries = [{"peer": "x", "speed_ratio": 4.0}, {"peer": "y", "speed_ratio": 1.0}]
    results = {name: {"comparisons": entries} for name in list(PROGRAMS)[:-1]}
    assert programs_result(results) is None
    results[list(PROGRAMS)[-1]] = {"comparisons": [{"peer": "x", "speed_ratio": 16.0}]}
    found = programs_result(results)
    assert found is not None
    assert found["comparisons"][0] == {"speed_ratio": 2.0, "goal": 1.5, "met": True}
    assert found["means"] == {"x": pytest.approx(4**0.75 * 16**0.25, abs=1e-3)}


def test_a_model_folder_has_every_tensor_and_its_tokenizer(tmp_path: Path) -> None:
    source = tmp_path / "tokenizer"
    source.mkdir()
    byte_tokenizer(source)
    folder = make_model(tmp_path / "model", TINY, source, torch.device("cpu"))
    config = json.loads((folder / "config.json").read_text())
    assert (config["vocab_size"], config["eos_token_id"]) == (260, 0)
    index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    tensors = {}
    for file in set(index.values()):
        tensors |= load_file(folder / file)
    assert tensors.keys() == index.keys()
    assert tensors["model.layers.1.mlp.down_proj.weight"].shape == (64, 96)
    assert (tensors["model.layers.0.input_layernorm.weight"] == 1).all()
    weight = tensors["lm_head.weight"].float()
    assert weight.shape == (260, 64)
    assert float(weight.std()) == pytest.approx(0.02, rel=0.05)
    assert not torch.equal(
        tensors["model.layers.0.mlp.up_proj.weight"], tensors["model.layers.1.mlp.up_proj.weight"]
    )


def test_options_are_json_or_text() -> None:
    assert read_options(["a=1", "b=false", "c=fp8"]) == {"a": 1, "b": False, "c": "fp8"}
