"""Compiled programs: run, bind, save, load, tools."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sgc
from sgc.compile import CompiledProgram
from sgc.lang.tools import Tool
from sgc_ir.limits import MAX_ARTIFACT_BYTES

ROOT = Path(__file__).resolve().parent.parent.parent


@sgc.tool(effect="pure", name="compile_tests_shout")
def shout(text: str) -> str:
    return text.upper()


@sgc.function
def ask(s, q: str, n: int = None, *, tail: str = "?"):  # type: ignore[assignment]  # noqa: RUF013
    s += sgc.call(shout, q) + tail + sgc.gen("v", stop=".")
    return s["v"], n


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "ask.sgc"
    ask.compile().save(path)
    return path


def test_run_of_a_compiled_program(backend, prompts):
    program = ask.compile()
    assert isinstance(program, CompiledProgram)
    assert program.name == "ask"
    assert program.parameter_names == ("q", "n", "tail")
    state = program.run("a", backend=backend, temperature=0)
    assert state.mode == "compiled"
    assert state.value == (" 1", None)
    assert prompts() == {"g1": "A?"}
    assert backend.calls[0]["params"]["temperature"] == 0
    states = program.run_batch([("a",), {"q": "b", "n": 2}, {"q": "c", "n": "x"}], backend=backend)
    assert [s.value for s in states] == [(" 1", None), (" 1", 2), None]
    assert isinstance(states[2].error(), sgc.InputError)
    assert asyncio.run(program.arun("a", backend=backend)).value == (" 1", None)
    assert "".join(e.text for e in program.stream("a", backend=backend)) == " 1"
    with pytest.raises(sgc.InputError, match="interpret"):
        program.run("a", mode="interpreted", backend=backend)


def test_bound_and_static_arguments_are_constants(backend):
    for program in (ask.bind(tail="!").compile(), ask.compile(tail="!")):
        assert program.parameter_names == ("q", "n")
        program.run("a", backend=backend)
        assert backend.calls[-1]["prompt"] == "A!"
        with pytest.raises(sgc.InputError, match="tail"):
            program.run("a", tail="?", backend=backend)
    state = ask.bind(tail="!").run("a", backend=backend)
    assert (state.mode, backend.calls[-1]["prompt"]) == ("compiled", "A!")
    with pytest.raises(sgc.InputError, match="nope"):
        ask.compile(nope=1)


def test_save_and_load_give_the_same_calls(backend, saved):
    loaded = sgc.load(saved)
    assert loaded.graph == ask.compile().graph
    first, second = ask.run("a", 1, backend=backend), loaded.run("a", 1, backend=backend)
    assert first.value == second.value
    assert backend.calls[0] == backend.calls[1]


def test_save_replaces_the_file_at_once(saved, tmp_path):
    before = saved.read_bytes()
    ask.compile(tail="!").save(str(saved))
    assert saved.read_bytes() != before
    assert [p.name for p in tmp_path.iterdir()] == ["ask.sgc"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o666 & ~mask
    with pytest.raises(OSError):
        ask.compile().save(tmp_path / "no such folder" / "x.sgc")


def test_save_follows_links_and_leaves_devices_as_they_are(saved, tmp_path):
    link = tmp_path / "link.sgc"
    link.symlink_to(saved)
    ask.compile(tail="!").save(link)
    assert link.is_symlink()
    assert sgc.load(saved).parameter_names == ("q", "n")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        ask.compile(tail="!").save(pipe)
        assert read.result(timeout=30) == saved.read_bytes()
    assert pipe.is_fifo()


def test_broken_artefacts_are_refused(saved, tmp_path):
    data = saved.read_bytes()
    for broken in (b"", b"text", data[: len(data) // 2], data[:-1] + bytes([data[-1] ^ 1])):
        saved.write_bytes(broken)
        with pytest.raises(sgc.ArtifactError, match=r"ask\.sgc: "):
            sgc.load(saved)
    with pytest.raises(sgc.ArtifactError, match=r"missing\.sgc: cannot be read"):
        sgc.load(tmp_path / "missing.sgc")


def test_a_file_beyond_the_bound_is_not_read_whole(tmp_path):
    huge = tmp_path / "huge.sgc"
    with huge.open("wb") as file:
        file.truncate(MAX_ARTIFACT_BYTES + 1)  # a hole, no data on the disk
    with pytest.raises(sgc.ArtifactError, match=f"larger than {MAX_ARTIFACT_BYTES} bytes"):
        sgc.load(huge)


def test_tools_are_found_by_name_and_effect(backend, saved, monkeypatch):
    mine = Tool(lambda text: "mine", "compile_tests_shout", "pure")
    sgc.load(saved, tools=(mine,)).run("a", backend=backend)
    assert backend.calls[-1]["prompt"] == "mine?"
    changed = dataclasses.replace(mine, effect="irreversible")
    with pytest.raises(sgc.ToolError, match="irreversible"):
        sgc.load(saved, tools=[changed])
    monkeypatch.setattr("sgc.lang.tools._REGISTRY", {})
    with pytest.raises(sgc.ToolError, match="compile_tests_shout"):
        sgc.load(saved)
    sgc.load(saved, tools=(mine,))
    ask.compile().run("a", backend=backend)  # keeps the tool that it was traced with


def test_an_artefact_runs_elsewhere_without_its_source(saved, tmp_path):
    script = f"""
import json, sys
sys.path[:0] = {[str(ROOT / p) for p in (".", "ir", "runtime", "kernels")]!r}
import sgc
from sgc.testing import ScriptedBackend

@sgc.tool(effect="pure", name="compile_tests_shout")
def shout(text):
    return text.upper()

backend = ScriptedBackend(lambda prompt, params: " 1")
state = sgc.load("ask.sgc").run("a", backend=backend)
print(json.dumps([state.value, state.text(), state.vars, "torch" in sys.modules]))
"""
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found: list[Any] = json.loads(run.stdout)
    assert found == [[" 1", None], "A? 1", {"v": " 1"}, False]
