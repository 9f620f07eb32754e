"""From the start of a process to its first token, the model being on disk already.

    python -m benchmarks.cold_start [--model M] [--threads N] [--repetitions N]

sgc and transformers each in processes of their own, in turn, with the same numbers in bfloat16 and
the same prompt. sgc loads the GGUF file; transformers once the same file (`transformers gguf`; it
needs `accelerate` for that) and once the same model from bfloat16 safetensors written before, its
fastest way (`transformers safetensors`). `total_s`: until the first token is there, Python's start
included; stages are what the child measures: `torch` (importing it, Python's start included),
`imports` (all of them), `tokenizer`, `weights`, `first_prefill`. The first run of sgc compiles its
kernels and converts the weights (`sgc first_run`); the others find both. `sgc run`: the command of
that name with a program of one call, from its start to its first line of output.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.common.conditions import conditions, cores
from benchmarks.common.results import ResultFile, default_path, result_path

PROMPT = "The capital of France is"
_SAFETENSORS, _GGUF = "transformers safetensors", "transformers gguf"
_COMMANDS = 3
_SGC = """
import asyncio, json, sys, time
start = float(sys.argv[2])
import torch
torch_done = time.time()
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalBackend
import sgc_runtime.engine.assemble, sgc_runtime.model.loader
imported = time.time()
backend = LocalBackend(sys.argv[1], dtype="bfloat16", kv_tokens=1024)
backend.tokenizer
tokenizer = time.time()
backend.load()
weights = time.time()
from sgc_runtime.executor.backend import Call, Text
stream = backend.open()
stream.append([Text(sys.argv[3])])
(result,) = asyncio.run(stream.generate(Call("g0", "", 0, SamplingParams(max_tokens=1), (0,))))
end = time.time()
print(json.dumps({"token": result.text, "torch": torch_done - start, "imports": imported - start,
    "tokenizer": tokenizer - imported, "weights": weights - tokenizer,
    "first_prefill": end - weights, "total": end - start}), flush=True)
"""
_PROGRAM = """
import sgc

@sgc.function
def capital(s, country):
    s += "The capital of " + country + " is"
    s += sgc.gen("city", max_tokens=1)
"""
_CONVERT = """
import sys
from pathlib import Path
import torch
from transformers import AutoTokenizer
from benchmarks.common.transformers_model import load_transformers
path, folder = Path(sys.argv[1]), sys.argv[2]
load_transformers(path).to(torch.bfloat16).save_pretrained(folder)
AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
"""
_TRANSFORMERS = """
import json, sys, time
start = float(sys.argv[2])
import torch
torch_done = time.time()
from transformers import AutoModelForCausalLM, AutoTokenizer
imported = time.time()
place, _, file = sys.argv[1].partition("#")
source = {"gguf_file": file} if file else {}
tokenizer = AutoTokenizer.from_pretrained(place, **source)
tokenized = time.time()
model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.bfloat16, **source)
weights = time.time()
inputs = tokenizer(sys.argv[3], return_tensors="pt")
ids = model.generate(**inputs, max_new_tokens=1, do_sample=False)
text = tokenizer.decode(ids[0, -1])
end = time.time()
print(json.dumps({"token": text, "torch": torch_done - start, "imports": imported - start,
    "tokenizer": tokenized - imported, "weights": weights - tokenized,
    "first_prefill": end - weights, "total": end - start}), flush=True)
"""


def main() -> None:
    arguments = _arguments()
    from sgc_runtime.models import resolve

    path = resolve(arguments.model)
    file = ResultFile(
        arguments.output, what=__doc__.splitlines()[0], conditions=conditions(arguments.threads)
    )
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ("sgc", _SAFETENSORS, _GGUF)}
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
        environment |= {"SGC_CACHE": cache, "XDG_CACHE_HOME": cache}
        folder = Path(cache) / "transformers"
        subprocess.run([sys.executable, "-c", _CONVERT, str(path), str(folder)], check=True)
        first = _run(_SGC, path, environment)
        for _ in range(arguments.repetitions):
            runs["sgc"].append(_run(_SGC, path, environment))
            runs[_SAFETENSORS].append(_run(_TRANSFORMERS, folder, environment))
        commands = [_run_command(path, Path(cache), environment) for _ in range(_COMMANDS)]
        if find_spec("accelerate") is not None:
            in_place = Path(f"{path.parent}#{path.name}")
            runs[_GGUF].append(_run(_TRANSFORMERS, in_place, environment))
    file.add("sgc first_run", first)
    file.add("sgc run", {"first_line_s": statistics.median(commands), "all_s": sorted(commands)})
    print("sgc run", commands)
    medians = {name: _medians(found) for name, found in runs.items() if found}
    for name, found in medians.items():
        file.add(name, found)
        print(name, found)
    own = medians["sgc"]
    ratios = {
        f"{name} over sgc": round(found["total_s"] / own["total_s"], 2)
        for name, found in medians.items()
        if name != "sgc"
    }
    file.add("ratio", {**ratios, "floor_s": own["torch"]})
    print("first run", first, "ratio", ratios)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--threads", type=int, default=cores())
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--output", type=result_path, default=default_path("cold_start"))
    return parser.parse_args()


def _run(program: str, path: Path, environment: dict[str, str]) -> dict[str, Any]:
    begin = time.time()
    command = [sys.executable, "-c", program, str(path), str(begin), PROMPT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"a run failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {key: round(v, 3) if isinstance(v, float) else v for key, v in found.items()}


def _run_command(path: Path, folder: Path, environment: dict[str, str]) -> float:
    """Seconds from the start of `sgc run` to its first line of output."""
    program = folder / "capital.py"
    program.write_text(_PROGRAM)
    command = [sys.executable, "-m", "sgc", "run", str(program), "--arg", "country=France"]
    command += ["--model", str(path), "--temperature", "0", "--quiet"]
    begin = time.time()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.time() - begin
    if process.returncode != 0 or "Paris" not in line:
        raise SystemExit(f"sgc run failed: {line!r}")
    return round(seconds, 3)


def _medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    stages = {
        key: round(statistics.median(run[key] for run in runs), 3)
        for key in ("torch", "imports", "tokenizer", "weights", "first_prefill")
    }
    totals = sorted(run["total"] for run in runs)
    return {
        **stages,
        "total_s": round(statistics.median(totals), 3),
        "all_totals_s": totals,
        "token": runs[0]["token"],
    }


if __name__ == "__main__":
    main()
