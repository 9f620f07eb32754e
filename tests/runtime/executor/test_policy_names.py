"""Deadlines and retries by names that a program does not have."""

from __future__ import annotations

import asyncio
import logging

import pytest

import sgc
from sgc.testing import ScriptedBackend
from sgc_ir.errors import InputError

BACKEND = ScriptedBackend(lambda prompt, params: " ok")


@sgc.tool(effect="pure", name="policy_names_tool")
def twice(text):
    return text * 2


@sgc.function
def inner(s):
    s += "i" + sgc.gen("deep")
    return s["deep"]


@sgc.function
def outer(s, q: str):
    s += q + sgc.gen("v", max_tokens=2)
    forks = s.fork(2)
    for f in forks:
        f += sgc.gen("piece", max_tokens=2)
    forks.join()
    for _ in s.loop(max=2):
        s += sgc.select("go", ["yes", "no"])
    handle = inner()
    return sgc.call(twice, s["v"]) + handle.value


NAMES = ["deep", "go", "piece", "policy_names_tool", "v"]


@pytest.mark.parametrize("option", ["deadline", "retries"])
def test_a_compiled_program_refuses_unknown_names(option: str) -> None:
    words = f"{option} of TYPO: .*the names are {', '.join(NAMES)}$"
    given = {option: {"v": 3, "TYPO": 3, "*": 3}}
    for program in (outer, outer.compile()):
        with pytest.raises(InputError, match=words):
            program.run("q", backend=BACKEND, options=given)
        with pytest.raises(InputError, match=words):
            program.stream("q", backend=BACKEND, options=given)
        with pytest.raises(InputError, match=words):
            program.run_batch([], backend=BACKEND, iterate=True, options=given)


def test_every_node_and_tool_may_be_named() -> None:
    every = dict.fromkeys([*NAMES, "*"], 3)
    state = outer.run("q", backend=BACKEND, mode="compiled", deadline=every, retries=every)
    assert state.value == " ok ok ok"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    caplog.clear()
    return [text for text in found if "has that name" in text]


def test_an_interpreted_run_tells_at_its_end_once(caplog: pytest.LogCaptureFixture) -> None:
    options = {"mode": "interpreted", "backend": BACKEND}
    known = dict.fromkeys([*NAMES, "*"], 3)
    typos = {"deadline": {**known, "TYPO": 3}, "retries": {"v": 1, "W": 2}}
    told = ["deadline of TYPO, retries of W: no node or tool that ran has that name"]
    outer.run("q", **options, deadline=known, retries=known)
    assert warnings(caplog) == []
    outer.run("q", **options, **typos)
    assert warnings(caplog) == told
    asyncio.run(outer.arun("q", **options, **typos))
    assert warnings(caplog) == told
    list(outer.stream("q", **options, **typos))
    assert warnings(caplog) == told
    outer.run_batch([("a",), ("b",)], **options, **typos)
    assert warnings(caplog) == told
