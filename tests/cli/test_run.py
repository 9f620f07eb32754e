"""`sgc run`: records, order, values, statistics, and what is written where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Sgc

from sgc.testing import ScriptedBackend

STATS = (
    "rows failed seconds load_seconds programs_per_s latency_p50_s latency_p99_s latency_mean_s "
    "prompt_tokens cached_tokens hit_rate "
    "optimal_hit_rate completion_tokens forced_tokens scored_tokens recomputed_tokens retractions "
    "prefill_steps decode_steps peak_running mean_running peak_kv_tokens tokenizer_calls "
    "merged_calls "
    "started_nodes dead_nodes nodes compiled_nodes interpreted_nodes"
).split()


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_row_becomes_a_record(sgc_cli: Sgc, greet: Path, rows: Path) -> None:
    result = sgc_cli("run", greet, "--inputs", rows)
    assert result.code == 0
    assert [row["index"] for row in result.rows] == [0, 1, 2]
    assert result.rows[1] == {
        "index": 1,
        "vars": {"greeting": " Hello there"},
        "value": {"greeting": "Hello there", "times": 1},
        "usage": {"prompt_tokens": 4, "completion_tokens": 2, "forced_tokens": 0},
        "error": None,
    }


@pytest.mark.parametrize("mode", ["auto", "compiled", "interpreted"])
def test_modes_give_the_same_output(
    sgc_cli: Sgc, greet: Path, rows: Path, mode: str, scripted: ScriptedBackend
) -> None:
    result = sgc_cli("run", greet, "--inputs", rows, "--mode", mode)
    assert [row["value"]["greeting"] for row in result.rows] == ["Hello there"] * 3
    assert sorted(call["prompt"] for call in scripted.calls) == [
        f"Greet {name} 1 times:" for name in ("Ada", "Bo", "Cy")
    ]


def test_an_artefact_runs_without_its_source(
    sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path
) -> None:
    graph = tmp_path / "greet.sgc"
    assert sgc_cli("compile", greet, "-o", graph).code == 0
    direct = sgc_cli("run", greet, "--inputs", rows)
    greet.unlink()
    assert sgc_cli("run", graph, "--inputs", rows).rows == direct.rows
    assert sgc_cli("run", graph, "--inputs", rows, "--mode", "interpreted").code == 2


def test_output_file_holds_what_stdout_would(
    sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    direct = sgc_cli("run", greet, "--inputs", rows)
    filed = sgc_cli("run", greet, "--inputs", rows, "--output", out)
    assert (filed.code, filed.out) == (0, "")
    assert lines(out) == direct.rows


def test_arguments_on_the_command_line_are_one_row(sgc_cli: Sgc, greet: Path) -> None:
    result = sgc_cli("run", greet, "--arg", "name=Zoë=x", "--arg", "times=3")
    assert result.code == 0
    assert [row["value"]["times"] for row in result.rows] == [3]


def test_csv_cells_take_the_type_of_the_argument(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("name,times\n7,2\nBo,two\n")
    result = sgc_cli("run", greet, "--inputs", path)
    assert result.code == 1
    assert result.rows[0]["value"]["times"] == 2
    assert "expected int" in result.rows[1]["error"]["message"]
    assert f"{path}:3" in result.rows[1]["error"]["message"]


def test_full_text_adds_text_and_messages(sgc_cli: Sgc, tmp_path: Path) -> None:
    program = tmp_path / "chat.py"
    program.write_text(
        "import sgc\n"
        "@sgc.function\n"
        "def chat(s):\n"
        "    s += sgc.user('Hi')\n"
        "    s += sgc.assistant(sgc.gen('reply', stop='\\n'))\n"
    )
    (row,) = sgc_cli("run", program, "--full-text").rows
    assert row["messages"] == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": " Hello there"},
    ]
    assert row["text"].startswith("<|im_start|>user\nHi<|im_end|>")
    assert "text" not in sgc_cli("run", program).rows[0]


def test_statistics_have_every_name(sgc_cli: Sgc, greet: Path, rows: Path, tmp_path: Path) -> None:
    rows.write_text(rows.read_text() + '{"name": "Mallory"}\n')
    stats = tmp_path / "stats.json"
    assert sgc_cli("run", greet, "--inputs", rows, "--stats", stats).code == 1
    numbers = json.loads(stats.read_text())
    assert set(numbers) == set(STATS)
    assert (numbers["rows"], numbers["failed"]) == (4, 1)
    assert (numbers["prompt_tokens"], numbers["completion_tokens"]) == (12, 6)
    assert numbers["programs_per_s"] == pytest.approx(4 / numbers["seconds"])
    (node,) = numbers["nodes"]
    assert (node["program"], node["node"], node["calls"]) == ("greet", "g0", 3)
    assert (node["prompt_tokens"], node["completion_tokens"]) == (12, 6)
    assert node["source"].endswith("greet.py:8")


def test_sampling_defaults_and_seed_reach_the_calls(
    sgc_cli: Sgc, greet: Path, scripted: ScriptedBackend
) -> None:
    flags = ("--temperature", "0.25", "--top-k", "7", "--max-tokens", "3", "--ignore-eos")
    assert sgc_cli("run", greet, "--arg", "name=Ada", *flags).code == 0
    params = scripted.calls[0]["params"]
    assert (params["temperature"], params["top_k"], params["ignore_eos"]) == (0.25, 7, True)
    assert params["max_tokens"] == 8  # the gen's own value


def test_progress_and_table_are_lines_without_a_terminal(
    sgc_cli: Sgc, greet: Path, rows: Path
) -> None:
    result = sgc_cli("run", greet, "--inputs", rows)
    labels = [line.split("  ")[0] for line in result.err.splitlines()]
    assert labels == [
        "rows",
        "prompt tokens",
        "cached tokens",
        "hit rate",
        "generated tokens",
        "seconds",
        "programs/s",
    ]
    assert sgc_cli("run", greet, "--inputs", rows, "--quiet").err == ""


def test_no_rows_are_no_error(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    result = sgc_cli("run", greet, "--inputs", empty)
    assert (result.code, result.out) == (0, "")


def test_rows_of_many_more_than_run_at_once(sgc_cli: Sgc, greet: Path, tmp_path: Path) -> None:
    path = tmp_path / "many.jsonl"
    path.write_text("".join(json.dumps({"name": str(i)}) + "\n" for i in range(200)))
    result = sgc_cli("run", greet, "--inputs", path, "--parallel", "3")
    assert [row["index"] for row in result.rows] == list(range(200))


def test_a_program_that_cannot_compile_is_compiled_in_part_and_says_so(
    sgc_cli: Sgc, tmp_path: Path
) -> None:
    program = tmp_path / "decide.py"
    program.write_text(
        "import re, sgc\n"
        "@sgc.function\n"
        "def decide(s, n: str):\n"
        "    if re.search('[2-9]', n):\n"
        "        s += 'many'\n"
        "    return s.text()\n"
    )
    result = sgc_cli("run", program, "--arg", "n=2")
    assert (result.code, result.rows[0]["value"]) == (0, "many")
    assert "compiled in part" in result.err
    assert f"{program}:4" in result.err
    refused = sgc_cli("run", program, "--arg", "n=2", "--mode", "compiled")
    assert refused.code == 2
    assert f"{program}:4" in refused.err


def test_a_value_that_json_cannot_hold_fails_its_row(sgc_cli: Sgc, tmp_path: Path) -> None:
    program = tmp_path / "odd.py"
    program.write_text(
        "import sgc\n"
        "@sgc.function\n"
        "def odd(s, x: float):\n"
        "    s.set('kept', 'yes')\n"
        "    return [x * 1e308 * 10]\n"
    )
    result = sgc_cli("run", program, "--arg", "x=2")
    assert result.code == 1
    assert result.rows[0]["vars"] == {"kept": "yes"}
    assert "value[0] is inf" in result.rows[0]["error"]["message"]


def test_tools_come_from_a_module(sgc_cli: Sgc, tmp_path: Path) -> None:
    tools = tmp_path / "my_tools.py"
    tools.write_text("import sgc\n@sgc.tool(effect='pure')\ndef double_of(n):\n    return 2 * n\n")
    program = tmp_path / "use.py"
    program.write_text(
        "import sgc\n"
        "from my_tools import double_of\n"
        "@sgc.function\n"
        "def use(s, n: int):\n"
        "    return sgc.call(double_of, n)\n"
    )
    graph = tmp_path / "use.sgc"
    assert sgc_cli("compile", program, "-o", graph).code == 0
    assert sgc_cli("run", graph, "--arg", "n=4", "--tools", tools).rows[0]["value"] == 8
