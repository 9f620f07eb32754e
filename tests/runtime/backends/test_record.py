"""Recorded runs, replayed without a model: same bytes, and misses that say what differs."""

from __future__ import annotations

import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sgc
from sgc.testing import RecordingBackend, ReplayBackend, ScriptedBackend
from sgc_ir.errors import BackendError

JINJA = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"


@sgc.function
def judge(s, essay: str, width: int = 2):
    s += sgc.system("You grade.") + sgc.user(essay)
    forks = s.fork(width)
    for f in forks:
        f += sgc.assistant(sgc.gen("note", stop="\n", n=2))
    s += sgc.user("Grade") + sgc.assistant(sgc.select("grade", ["A", "B"]))
    return s["grade"], [f["note"] for f in forks]


class Plain:
    """A chat template of a kind that no file can describe."""

    control_tokens = ("<t>",)

    def render(self, messages: Any, add_generation_prompt: bool = False) -> str:
        turns = [f"<t>{m['role']}={m['content']}\n" for m in messages]
        return "".join(turns) + ("<t>assistant=" if add_generation_prompt else "")


def scripted(template: Any = None) -> ScriptedBackend:
    count = iter(range(10**6))  # another answer each time: only a record can repeat it
    return ScriptedBackend(
        lambda prompt, params: f" {next(count)} \ud83d é{len(prompt)}\n", chat_template=template
    )


def run(backend: Any, essays: Any, **options: Any) -> list[Any]:
    states = judge.run_batch([{"essay": e} for e in essays], backend=backend, **options)
    for state in states:
        if state.error() is not None:
            raise state.error()
    return [(s.value, s.text(), s.messages(), s.meta("grade"), s.usage) for s in states]


@pytest.mark.parametrize("template", [None, JINJA, Plain()])
@pytest.mark.parametrize("mode", ["compiled", "interpreted"])
def test_a_replay_gives_what_was_recorded(tmp_path: Path, template: Any, mode: str) -> None:
    recording = RecordingBackend(scripted(template), tmp_path / "r")
    recorded = run(recording, "abc", mode=mode)
    recording.close()
    replay = ReplayBackend(tmp_path / "r")
    assert replay.name == "replay:scripted"
    assert run(replay, "abc", mode=mode) == recorded
    assert run(ReplayBackend(tmp_path / "r"), "abc", parallel=1) == recorded
    replay.close()


def test_a_record_on_a_full_disk_keeps_whole_lines(tmp_path: Path) -> None:
    recording = RecordingBackend(scripted(), tmp_path / "r")
    recorded = run(recording, "a")
    size = (tmp_path / "r").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, before[1]))
    try:
        with pytest.raises(sgc.GenerationError, match=r"cannot record to .*: File too large"):
            run(recording, "b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert (tmp_path / "r").stat().st_size == size
    later = run(recording, "c")
    recording.close()
    replay = ReplayBackend(tmp_path / "r")
    assert run(replay, "a") == recorded
    assert run(replay, "c") == later


def test_a_call_recorded_several_times_is_served_in_order(tmp_path: Path) -> None:
    recording = RecordingBackend(scripted(), tmp_path / "r")
    recorded = [run(recording, "a") for _ in range(3)]
    replay = ReplayBackend(tmp_path / "r")
    assert [run(replay, "a") for _ in range(4)] == [*recorded, recorded[-1]]


def test_a_session_that_goes_on_replaces_calls_of_the_one_before(tmp_path: Path) -> None:
    first = RecordingBackend(scripted(), tmp_path / "r")
    run(first, "ab")
    first.close()
    run(RecordingBackend(scripted(), tmp_path / "r", append=True), "a")
    other = RecordingBackend(ScriptedBackend(lambda p, q: " new\n"), tmp_path / "r", append=True)
    later = run(other, "a")
    replayed = run(ReplayBackend(tmp_path / "r"), "ab")
    assert replayed[:1] == later
    run(RecordingBackend(scripted(), tmp_path / "r"), "c")  # without append it begins anew
    with pytest.raises(sgc.GenerationError, match="another prompt"):
        run(ReplayBackend(tmp_path / "r"), "a")


def test_misses_say_what_differs(tmp_path: Path) -> None:
    run(RecordingBackend(scripted(), tmp_path / "r"), ["short", "other"])

    def refused(match: str, essays: list[str], **options: Any) -> None:
        with pytest.raises(sgc.GenerationError, match=match) as info:
            run(ReplayBackend(tmp_path / "r"), essays, **options)
        assert "\n" not in str(info.value)

    refused(r"another prompt \(from character \d+ on 'short.*, now 'long", ["long", "other"])
    refused(
        r"other parameters \(temperature=1.0, now 0.5\)", ["short"], options={"temperature": 0.5}
    )
    refused(
        r"no call of node f0\[0\]/g0 is recorded for row 2, but for row 0", ["short", "other", "x"]
    )
    with pytest.raises(sgc.GenerationError, match=r"node f0\[2\]/g0 is recorded for any row"):
        judge.run(essay="short", width=3, backend=ReplayBackend(tmp_path / "r"), mode="interpreted")


def test_a_torn_last_line_counts_as_not_written(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recording = RecordingBackend(scripted(), path)
    recorded = run(recording, "ab", parallel=1)
    recording.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert run(ReplayBackend(path), "a") == recorded[:1]
    with pytest.raises(sgc.GenerationError, match="no call of node g0 is recorded for row 1"):
        run(ReplayBackend(path), "ab")
    run(RecordingBackend(scripted(), path, append=True), "ab")
    lines = path.read_bytes().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    run(ReplayBackend(path), "ab")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_hostile_bytes_give_one_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "r"
    path.write_bytes(data)
    with pytest.raises(BackendError) as info:
        ReplayBackend(path)
    assert "\n" not in str(info.value)


def test_files_that_cannot_be_had_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot read"):
        ReplayBackend(tmp_path / "none")
    with pytest.raises(BackendError, match="cannot write"):
        RecordingBackend(scripted(), tmp_path / "no" / "folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_fails_the_call() -> None:
    with pytest.raises(sgc.GenerationError, match="cannot record to /dev/full: No space left"):
        run(RecordingBackend(scripted(), "/dev/full"), "a")


def _changed(line: bytes, **members: Any) -> bytes:
    return json.dumps({**json.loads(line), **members}).encode()


def test_damaged_lines_are_refused_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recording = RecordingBackend(scripted(), path)
    run(recording, "a", parallel=1)
    recording.close()
    header, call, *rest = path.read_bytes().splitlines()
    rendering = b'{"rendering": "zz", "text": ""}'
    for damaged in (b"{}", _changed(call, row=[1]), _changed(call, params=3), rendering):
        path.write_bytes(b"\n".join([header, damaged, *rest, b""]))
        opened = len(os.listdir("/proc/self/fd"))
        with pytest.raises(BackendError, match=":2 is no line of a record") as info:
            ReplayBackend(path)
        assert len(os.listdir("/proc/self/fd")) == opened, info  # which keeps the frame alive
    path.write_bytes(b"[" * 100_000 + b"\n")
    with pytest.raises(BackendError, match=":1 is no line of a record"):
        ReplayBackend(path)
    for template in (None, {}, {"kind": "jinja", "control_tokens": []}):
        path.write_bytes(_changed(header, chat_template=template) + b"\n" + call + b"\n")
        with pytest.raises(BackendError, match="header without backend or template"):
            ReplayBackend(path)


@pytest.mark.parametrize("results", ["!!!", "kg==", "wA==", "kQE="])
def test_damaged_results_fail_their_node(tmp_path: Path, results: str) -> None:
    path = tmp_path / "r"
    recording = RecordingBackend(scripted(), path)
    run(recording, "a", parallel=1)
    recording.close()
    header, *calls = path.read_bytes().splitlines()
    lines = [header, *(_changed(call, results=results) for call in calls)]
    path.write_bytes(b"\n".join([*lines, b""]))
    with pytest.raises(sgc.GenerationError, match=r"the results of row 0 node .* are damaged"):
        run(ReplayBackend(path), "a")
