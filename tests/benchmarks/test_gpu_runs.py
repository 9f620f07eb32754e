"""The benchmarks on a GPU as small runs on a CPU: whole programs, their result files, their peers'
processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.jumps import byte_tokenizer

from benchmarks import gpu_engine, gpu_kernels, gpu_peers
from benchmarks.gpu.prompts import Prompts
from benchmarks.gpu.scripts import PROGRAMS, replay_by_waves
from benchmarks.gpu.sgc_ids import SgcIds

ROOT = Path(__file__).resolve().parents[2]
OURS = ["--option", "dtype=float32", "--option", "kv_tokens=8000"]
# A package with SGLang's interface that repeats one id, and one that cannot be started.
ECHO = """
__version__ = "0.1"
class Engine:
    def __init__(self, model_path, **options):
        print("started", options)
        print("max_total_num_tokens=75000, max_running_requests=8", flush=True)
    def generate(self, input_ids, sampling_params):
        each = sampling_params if isinstance(sampling_params, list) else None
        each = each or [sampling_params] * len(input_ids)
        return [
            {"output_ids": [7] * p["max_new_tokens"], "text": "x", "meta_info": {}} for p in each
        ]
    def shutdown(self):
        pass
"""
BROKEN = """
__version__ = "0.1"
SamplingParams = dict
class LLM:
    def __init__(self, **options):
        raise RuntimeError("no GPU here")
"""


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    byte_tokenizer(folder)
    return folder


def run_on_cpu(tmp_path: Path, tokenizer: Path) -> list[str]:
    arguments = ["--device", "cpu", "--shape", "tiny", "--scratch", str(tmp_path)]
    return [
        *arguments,
        "--tokenizer",
        str(tokenizer),
        "--output",
        str(tmp_path / "out.json"),
        *OURS,
    ]


def parts_of(tmp_path: Path) -> dict[str, Any]:
    parts: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())["parts"]
    return parts


def test_engine(tmp_path: Path, tokenizer: Path) -> None:
    gpu_engine.main(run_on_cpu(tmp_path, tokenizer))
    parts = parts_of(tmp_path)
    assert set(parts) == {"ceilings", "counters", *gpu_engine.PARTS}
    assert not any("error" in part for part in parts.values())
    for name in ("decode 1", "decode 64", "prefill"):
        found = parts[name]
        rounding = 1e-4 + 1e-4 / found["ms"]
        assert found["share"] == pytest.approx(found["floor_ms"] / found["ms"], abs=rounding)
        assert found["met"] == (found["share"] >= found["goal"])


def test_our_engine_replays_a_script_as_by_waves(tmp_path: Path, tokenizer: Path) -> None:
    gpu_engine.main(
        [*run_on_cpu(tmp_path, tokenizer), "--parts", "load", "--model", str(tmp_path / "m")]
    )
    engine = SgcIds(str(tmp_path / "m"), device="cpu", dtype="float32", kv_tokens=8000)
    for make in PROGRAMS.values():
        script = make(Prompts(engine.vocab_size, 1), 0.04)

        def alone(prompts: list[list[int]], lengths: list[int]) -> list[list[int]]:
            return [engine.batch([p], n).ids[0] for p, n in zip(prompts, lengths)]

        outputs = engine.replay(script)
        script.check(outputs)
        assert outputs == replay_by_waves(script, alone)
    engine.close()


def test_peers_run_in_processes_of_their_own(tmp_path: Path, tokenizer: Path) -> None:
    for name, heavy, text in (
        ("sglang", "srt/entrypoints/engine", ECHO),
        ("vllm", "entrypoints/llm", BROKEN),
    ):
        package = tmp_path / f"{name}-site" / name
        (package / heavy).parent.mkdir(parents=True)
        (package / f"{heavy}.py").write_text("")
        (package / "__init__.py").write_text(text)
    logs = tmp_path / "logs"
    gpu_peers.main(
        [
            *run_on_cpu(tmp_path, tokenizer),
            *("--scale", "0.02", "--parts", "a1,d,c date,multi-turn chat,s"),
            *("--sglang-site", str(tmp_path / "sglang-site")),
            *("--vllm-site", str(tmp_path / "vllm-site")),
            *("--logs", str(logs), "--sampling-ready", str(tmp_path / "never")),
        ]
    )
    parts = parts_of(tmp_path)
    assert parts["a1"]["engines"].keys() == {"sgc", "sglang"}
    assert parts["a1"]["missing"] == {"vllm": "RuntimeError: no GPU here"}
    assert [entry.get("peer") for entry in parts["a1"]["comparisons"]] == ["sglang", None]
    assert parts["c date"]["engines"]["sglang, llguidance"]["legal"] == 0
    assert parts["c date"]["comparisons"] == []
    assert parts["multi-turn chat"]["comparisons"][0]["peer"] == "sglang"
    assert "not built" in parts["s"]["missing"]["sglang"]
    assert "grammar_backend" in (logs / "sglang.log").read_text()
    assert parts["engines"]["engines"]["sgc"]["kv_pool_tokens"] == 8000
    assert parts["engines"]["engines"]["sglang"]["kv_pool_tokens"] == 75_000
    assert parts["a1"]["conditions"]["rules"] == gpu_peers.RULES


def test_attempts_are_copied_without_measuring(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_text(json.dumps({"what": "", "parts": {"a1": {"engines": {}}}}))
    gpu_peers.main(["--record-only", "--output", str(output), "--logs", str(tmp_path / "logs")])
    assert len(parts_of(tmp_path)["a1"]["attempts"]) >= 2


@pytest.mark.long  # the interpreter takes its time
def test_kernels_in_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    code = (
        "from triton.runtime import interpreter as i\n"
        "before = i._patch_lang_tensor\n"  # numpy 2.4 refuses it the bounds of loops
        "def patch(tensor, scope):\n"
        "    before(tensor, scope)\n"
        "    scope.set_attr(tensor, '__index__', lambda self: int(self.handle.data.item()))\n"
        "i._patch_lang_tensor = patch\n"
        "from benchmarks import gpu_kernels\n"
        "import sys\n"
        "gpu_kernels.main(['--device', 'cpu', '--tiny', '--output', sys.argv[1]])\n"
    )
    paths = os.pathsep.join(str(ROOT / room) for room in ("", "ir", "runtime", "kernels"))
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    command = [sys.executable, "-c", code, str(tmp_path / "out.json")]
    subprocess.run(command, env=env, check=True, timeout=200)
    parts = parts_of(tmp_path)
    assert set(parts) == set(gpu_kernels.PARTS)
    for part in parts.values():
        for name, case in part["cases"].items():
            assert "us" in case, (name, case)
            assert case.get("error", 0.0) < 1e-5
            assert case.get("wrong_rows", 0) == 0
