"""`sgc run --trace`: a timeline that viewers of the JSON trace event format can show."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from support.cli import Sgc
from support.crash import PYTHONPATH
from support.trace_events import Slice, load, nodes, tracks, walk

import sgc
from sgc.testing import ScriptedBackend

PROGRAM = """
import sgc

@sgc.tool(effect="pure")
def half(n: int):
    return n / 2

@sgc.function
def part(s, topic: str):
    s += f"Sub {topic}:" + sgc.gen("x", max_tokens=4)
    return s["x"]

@sgc.function
def work(s, name: str):
    halves = [sgc.call(half, 3), sgc.call(half, 5)]
    s += f"Greet {name}:"
    s += sgc.gen("greeting", max_tokens=8, n=2)
    branches = s.fork(2)
    for i, branch in enumerate(branches):
        branch += f"{i}" + sgc.gen("y", max_tokens=3)
    branches.join()
    found = part(topic=name)
    s += sgc.select("z", [" a", " b"])
    if s["z"] == " a":
        s += sgc.gen("more", max_tokens=2)
    else:
        s += sgc.gen("less", max_tokens=3)
    return [found["x"], halves]
"""
TOKENS = ("prompt_tokens", "completion_tokens", "forced_tokens")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace.json"


def model_nodes(events: list[dict[str, Any]], process: str) -> list[Slice]:
    found = [s for (p, _), s in nodes(events).items() if p == process]
    return [s for s in found if not s.category.startswith("tool")]


def check_usage(events: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Tokens of the nodes of a row are those that the row has used."""
    for row in rows:
        own = model_nodes(events, f"row {row['index']}")
        sums = {name: sum(s.args.get(name, 0) for s in own) for name in TOKENS}
        assert sums == row["usage"]


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_rows_streams_and_nodes_are_shown(
    sgc_cli: Sgc, work: Path, rows: Path, trace: Path, mode: str, scripted: ScriptedBackend
) -> None:
    result = sgc_cli("run", f"{work}:work", "--inputs", rows, "--mode", mode, "--trace", trace)
    assert result.code == 0
    events = json.loads(trace.read_text())
    found = tracks(events)
    for row in range(3):
        threads = {thread for process, thread in found if process == f"row {row}"}
        assert threads >= {"main", "f0[0]", "f0[1]", "c0 part", "tools"}
        (whole,) = found[f"row {row}", "main"]
        (callee,) = found[f"row {row}", "c0 part"]
        assert (whole.name, callee.name) == ("work", "part")
        assert [s.args["node"] for s in callee.children] == ["c0/g0"]
        assert {s.args["program"] for s in callee.children} == {"part"}
    shown = nodes(events)
    assert sorted(n for (_, n), s in shown.items() if s.category != "tool") == sorted(
        call["node"] for call in scripted.calls
    )
    assert {s.name for s in shown.values() if s.category == "tool"} == {"half"}
    first = shown["row 1", "g2"]
    assert (first.name, first.category, first.args["state"]) == ("greeting", "gen", "ok")
    assert first.args["source"].endswith("work.py:17")
    assert len(first.args["seed"]) == 2
    assert shown["row 1", "g3"].category == "select"
    check_usage(events, result.rows)


def test_a_run_without_it_makes_ordinary_contexts(
    sgc_cli: Sgc, greet: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sgc_runtime.executor.timeline_context", None)
    monkeypatch.setitem(sys.modules, "sgc.cli.timeline", None)
    assert sgc_cli("run", greet, "--inputs", rows).code == 0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    from support.local import tiny_folder

    return tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("process", ["on", "off"])
def test_stages_of_the_engine_are_parts_of_the_nodes(
    sgc_cli: Sgc, work: Path, rows: Path, trace: Path, model: Path, process: str
) -> None:
    stats = trace.with_name("stats.json")
    options = ("--model", model, "--process", process, "--kv-tokens", 2000, "--stats", stats)
    result = sgc_cli("run", f"{work}:work", "--inputs", rows, "--trace", trace, *options)
    assert result.code == 0
    events = json.loads(trace.read_text())
    check_usage(events, result.rows)
    found = [s for (_, n), s in nodes(events).items() if not s.category.startswith("tool")]
    seconds = {"queued": 0.0, "prefill": 0.0, "decode": 0.0}
    for node in found:
        stages = [s.name for s in node.children]
        assert stages == sorted(stages, key=("prepare", "queued", "prefill", "decode").index)
        assert node.category == "select" or "prefill" in stages
        for stage in node.children:
            if stage.name in seconds:
                seconds[stage.name] += (stage.end or 0) - stage.start
            if stage.name == "prefill":
                parts = stage.args["computed_tokens"] + stage.args["cached_tokens"]
                assert parts == node.args["prompt_tokens"]
    counted = json.loads(stats.read_text())["nodes"]
    for name, key in (("queued", "waiting"), ("prefill", "prefill"), ("decode", "decode")):
        total = sum(node[f"{key}_seconds"] for node in counted)
        assert seconds[name] / 1e6 == pytest.approx(total, abs=1e-4), name


def test_forced_text_has_slices_of_its_own(
    sgc_cli: Sgc, tmp_path: Path, rows: Path, trace: Path, model: Path
) -> None:
    program = tmp_path / "fixed.py"
    program.write_text(FIXED)
    options = ("--model", model, "--kv-tokens", 2000, "--trace", trace)
    assert sgc_cli("run", program, "--inputs", rows, *options).code == 0
    for node in nodes(load(trace)).values():
        decode = next(s for s in node.children if s.name == "decode")
        forced = [s.args["forced_tokens"] for s in decode.children]
        assert forced
        assert {s.name for s in decode.children} == {"forced"}
        assert 0 < sum(forced) <= node.args["forced_tokens"] < node.args["completion_tokens"]


FIXED = """
import sgc

@sgc.function
def fixed(s, name: str):
    s += name + sgc.gen("x", regex="(one|two) the quick brown fox jumps over (three|four) dogs")
"""


@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_slices_nest_whatever_fails(sgc_cli: Sgc, tmp_path: Path, trace: Path, mode: str) -> None:
    random = Random(1)

    def fail(prompt: str) -> Exception | None:
        return sgc.BackendError("busy") if random.random() < 0.15 else None

    backend = ScriptedBackend(lambda p, _: " Hi", delay=lambda p: 0.02 * random.random(), fail=fail)
    sgc.set_default_backend(backend)
    (tmp_path / "deep.py").write_text(DEEP)
    rows = tmp_path / "deep.jsonl"
    rows.write_text("".join(f'{{"items": {json.dumps(["a", "b"][: i % 3])}}}\n' for i in range(9)))
    run = ("run", f"{tmp_path / 'deep.py'}:deep", "--mode", mode, "--inputs", rows)
    options = ("-o", tmp_path / "out.jsonl", "--trace", trace, "--retries", 1, "--quiet")
    assert sgc_cli(*run, *options, "--deadline", 0.018).code in (0, 1)
    events = load(trace)
    found = tracks(events)
    assert {s.args["node"] for s in nodes(events).values()} >= {"f0[1]/g0", "c0/f0[0]/g0"}
    assert all(s.end is not None for own in found.values() for s in walk(own))


DEEP = """
import time
import sgc

@sgc.tool(effect="repeatable")
def slow(n: int):
    time.sleep(0.002 * n)
    return n

@sgc.function
def leaf(s, t: str):
    s += t
    for b in s.fork(2):
        b += sgc.gen("q", max_tokens=2)
        sgc.call(slow, 1)
    s += sgc.gen("r", max_tokens=2)
    return s["r"]

@sgc.function
def deep(s, items: list):
    f = s.fork(3)
    for b in f:
        x = leaf(t="x")
        b += sgc.gen("a", max_tokens=2)
        b += x["r"]
    f.join()
    for item in items:
        s += item + sgc.gen("z", max_tokens=2)
        leaf(t=item)
        sgc.call(slow, 2)
"""


def test_failed_and_repeated_nodes_are_marked(
    sgc_cli: Sgc, greet: Path, rows: Path, trace: Path
) -> None:
    tries = iter(range(100))

    def fail(prompt: str) -> Exception | None:
        if "Bo" in prompt:
            return sgc.BackendError("the line was cut")
        return sgc.BackendError("busy") if "Ada" in prompt and next(tries) < 1 else None

    sgc.set_default_backend(ScriptedBackend(lambda p, _: " Hi", fail=fail))
    options = ("--retries", 1, "--trace", trace)
    assert sgc_cli("run", greet, "--inputs", rows, *options).code == 1
    shown = nodes(load(trace))
    repeated, failed, good = (shown[f"row {row}", "g0"] for row in range(3))
    assert (repeated.category, repeated.args["attempts"]) == ("gen,retried", 2)
    assert [s.name for s in repeated.children] == ["attempt 1", "attempt 2"]
    assert "busy" in repeated.children[0].args["error"]
    assert failed.category == "gen,failed,retried"
    assert "the line was cut" in failed.args["error"]
    assert (good.category, good.children) == ("gen", [])


def test_nodes_that_a_deadline_ends_are_marked(
    sgc_cli: Sgc, greet: Path, rows: Path, trace: Path
) -> None:
    backend = ScriptedBackend(lambda p, _: " Hi", delay=lambda p: 30 if "Bo" in p else 0)
    sgc.set_default_backend(backend)
    options = ("--row-deadline", 0.3, "--trace", trace)
    assert sgc_cli("run", greet, "--inputs", rows, *options).code == 1
    shown = nodes(json.loads(trace.read_text()))
    assert shown["row 1", "g0"].category == "gen,cancelled"
    whole = [own for (process, _), own in tracks(load(trace)).items() if process == "row 1"]
    assert "deadline" in whole[0][0].args["error"]


@pytest.mark.parametrize("place", ["no/such/folder/t.json", ".", "/dev/full", "out.jsonl"])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(
    sgc_cli: Sgc,
    greet: Path,
    rows: Path,
    tmp_path: Path,
    place: str,
    scripted: ScriptedBackend,
) -> None:
    options = ("-o", tmp_path / "out.jsonl", "--trace", tmp_path / place)
    result = sgc_cli("run", greet, "--inputs", rows, *options)
    assert result.code == 2
    assert "trace" in result.err or "cannot write" in result.err or "output" in result.err
    assert scripted.calls == []


def test_a_resumed_run_goes_on_behind_the_first(
    sgc_cli: Sgc, work: Path, rows: Path, trace: Path, tmp_path: Path
) -> None:
    down = [True]

    def fail(prompt: str) -> Exception | None:
        return sgc.BackendError("gone") if down[0] and "Bo" in prompt and "Sub" in prompt else None

    sgc.set_default_backend(ScriptedBackend(lambda p, _: " Hi", fail=fail))
    run = ("run", f"{work}:work", "--inputs", rows, "-o", tmp_path / "out.jsonl", "--trace", trace)
    assert sgc_cli(*run).code == 1
    first = json.loads(trace.read_text())
    down[0] = False
    assert sgc_cli(*run, "--resume").code == 0
    events = json.loads(trace.read_text())
    assert events[: len(first)] == first
    added = events[len(first) :]
    assert {e["pid"] for e in first}.isdisjoint(e["pid"] for e in added)
    assert [e["name"] for e in added if e["ph"] == "i"] == ["sgc run"]
    assert min(e["ts"] for e in added if "ts" in e) >= max(e["ts"] for e in first if "ts" in e)
    shown = nodes(added)
    assert {process for process, _ in shown} == {"row 1"}
    assert shown["row 1", "g2"].category == "gen,restored"
    assert shown["row 1", "c0/g0"].category == "gen"


def test_nothing_is_appended_to_another_file(
    sgc_cli: Sgc, greet: Path, rows: Path, trace: Path, tmp_path: Path
) -> None:
    run = ("run", greet, "--inputs", rows, "-o", tmp_path / "out.jsonl", "--trace", trace)
    rows.write_text('{"name": "Mallory"}\n')
    assert sgc_cli(*run).code == 1
    trace.write_text('{"precious": 1}\n')
    result = sgc_cli(*run, "--resume")
    assert (result.code, trace.read_text()) == (2, '{"precious": 1}\n')
    assert "--trace" in result.err


SLOW = """
import os, signal, time
import sgc
from sgc.testing import ScriptedBackend

def reply(prompt, params):
    if "last" in prompt and "KILL" in os.environ:
        time.sleep(1.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return " Hi"

def delay(prompt):
    return (0.3 if "KILL" in os.environ else 60) if "last" in prompt else 0

sgc.set_default_backend(ScriptedBackend(reply, delay=delay))

@sgc.function
def slow(s, name: str):
    s += name + sgc.gen("x", max_tokens=2)
    s += sgc.gen("y", max_tokens=2)
"""


def start(folder: Path, trace: Path, **environ: str) -> subprocess.Popen[bytes]:
    (folder / "slow.py").write_text(SLOW)
    names = [f"n{i}" for i in range(20)] + ["last"]
    (folder / "in.jsonl").write_text("".join(json.dumps({"name": n}) + "\n" for n in names))
    command = [sys.executable, "-m", "sgc", "run", "slow.py", "--inputs", "in.jsonl"]
    command += ["-o", "out.jsonl", "--trace", str(trace), "--quiet"]
    environ = {**os.environ, "PYTHONPATH": PYTHONPATH, **environ}
    return subprocess.Popen(command, cwd=folder, env=environ)


def test_a_killed_run_leaves_what_can_be_loaded(tmp_path: Path, trace: Path) -> None:
    assert start(tmp_path, trace, KILL="1").wait(60) == -signal.SIGKILL
    text = trace.read_text()
    assert not text.rstrip().endswith("]")
    found = tracks(load(trace))
    done = [process for (process, _), own in found.items() if own[0].end is not None]
    assert len(done) == 20
    with_last = [own for (process, _), own in found.items() if process == "row 20"]
    assert [s.end for s in with_last[0]] == [None]


def test_an_interrupted_run_shows_what_was_in_flight(tmp_path: Path, trace: Path) -> None:
    run = start(tmp_path, trace)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (trace.exists() and '"row 20"' in trace.read_text()):
        time.sleep(0.05)
    run.send_signal(signal.SIGINT)
    assert run.wait(60) == 130
    found = tracks(json.loads(trace.read_text()))
    (node,) = [s for s in walk(found["row 20", "main"]) if "node" in s.args]
    state = node.args["state"]
    assert state in ("unfinished", "cancelled")  # as the signal finds it
    assert node.category == f"gen,{state}"
