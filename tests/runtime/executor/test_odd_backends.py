"""Backends that hang, die or answer nonsense fail their node alone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from support.odd_backend import (
    MODES,
    Answer,
    Odd,
    failed,
    pair,
    words,
)

import sgc
from sgc_ir.params import CallResult
from sgc_runtime.executor.backend import Call


@sgc.function
def mixed(s, q: str):
    forks = s.fork(3)
    forks[0] += q + "|0|" + sgc.gen("v", n=2)
    forks[1] += q + "|1|" + sgc.gen("v", n=2)
    forks[2] += q + "|2|" + sgc.select("v", ["x", "y"])


def changed(**fields: Any) -> Answer:
    return lambda call, results: [replace(r, **fields) for r in results]


def dies(call: Call, results: list[CallResult]) -> list[CallResult]:
    raise ConnectionResetError("the server went away")


def cancels(call: Call, results: list[CallResult]) -> list[CallResult]:
    raise asyncio.CancelledError


def leaves(call: Call, results: list[CallResult]) -> list[CallResult]:
    raise SystemExit(3)


def breaks_off(call: Call, results: list[CallResult]) -> list[CallResult]:
    raise KeyboardInterrupt


NONSENSE = {
    "samples": ("|1|", lambda call, results: results[:1], "gave 1 samples for n=2"),
    "no list": ("|1|", lambda call, results: None, "gave None for n=2"),
    "no result": ("|1|", lambda call, results: ["a", "b"], "a str in place of a result"),
    "no text": ("|1|", changed(text=b"bytes"), "a text of type bytes"),
    "negative id": ("|1|", changed(token_ids=[3, -1]), "token id -1, which is outside"),
    "unknown id": ("|1|", changed(token_ids=[3, 100]), "token id 100, which is outside"),
    "no ids": ("|1|", changed(token_ids=None), "token_ids of type NoneType"),
    "texts as ids": ("|1|", changed(token_ids=["a", "b"]), "token ids that are no integers"),
    "mixed ids": ("|1|", changed(token_ids=[3, None, "b"]), "token ids that are no integers"),
    "fractions": ("|1|", changed(token_ids=[3.5]), "token ids that are no integers"),
    "no usage": ("|1|", changed(usage=None), "usage of type NoneType"),
    "no meta": ("|1|", changed(meta=None), "meta of type NoneType"),
    "no reason": ("|1|", changed(finish_reason=None), "finish_reason of type NoneType"),
    "pending text": ("|1|", changed(pending="a"), "pending of type str"),
    "death": ("|1|", dies, "ConnectionResetError: the server went away"),
    "exit": ("|1|", leaves, "the backend raised SystemExit: 3"),
    "interrupt": ("|1|", breaks_off, "the backend raised KeyboardInterrupt"),
    "cancelled": ("|1|", cancels, "the backend cancelled the call"),
    "scores": ("|2|", changed(meta={"scores": [0.5]}), "1 scores for 2 choices"),
    "nan": ("|2|", changed(meta={"scores": [0.5, float("nan")]}), "scored 'y' as nan"),
    "no scores": ("|2|", changed(meta={"scores": 3}), "scores 3 for 2 choices"),
    "text scores": ("|2|", changed(meta={"scores": ["a", 1]}), "scored 'x' as 'a'"),
    "choice": ("|2|", changed(text="z"), "chose 'z', which is no choice"),
}


@MODES
@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_fails_its_node_alone(mode: str, case: str) -> None:
    bad, answer, message = NONSENSE[case]
    backend = Odd(answer, bad="a" + bad)
    rows = [{"q": "a"}, {"q": "b"}]
    first, second = mixed.run_batch(rows, backend=backend, mode=mode)
    error = failed(first)
    assert message in str(error)
    assert error.node == f"f0[{bad[1]}]/g0"
    assert error.source is not None
    assert second.error() is None
    done = {call["prompt"] for call in backend.calls if call["result"] is not None}
    assert {"a|0|", "a|1|", "a|2|", "b|0|", "b|1|", "b|2|"} == done


def test_a_program_that_takes_nonsense_goes_on_with_what_the_backend_has() -> None:
    @sgc.function
    def take(s):
        s += "|1|" + sgc.gen("v", n=2)
        try:
            s["v"]
        except sgc.GenerationError:
            pass
        s += " then" + sgc.gen("w", stop="never")

    backend = Odd(lambda call, results: results[:1] if call.params.n == 2 else results)
    state = take.run(backend=backend, mode="interpreted")
    assert state.text() == "|1| ok then ok"
    assert backend.calls[-1]["prompt"] == "|1| ok then"


@MODES
def test_a_backend_that_leaves_when_it_is_opened_fails_its_rows(mode: str) -> None:
    class Leaves(Odd):
        def open(self) -> Any:
            raise SystemExit("no licence")

    for state in pair.run_batch([{"q": "a"}, {"q": "b"}], backend=Leaves(dies), mode=mode):
        assert "SystemExit: no licence" in str(failed(state))
    assert pair.run("a", backend=Odd(dies, bad="nothing"), mode=mode).value == " ok ok"


def test_five_hundred_programs_at_once_end() -> None:
    odd = Odd(dies, bad="7|1|")
    rows = [{"q": str(i)} for i in range(500)]
    states = pair.run_batch(rows, backend=odd, parallel=500)
    assert [s.error() is not None for s in states] == [str(i)[-1] == "7" for i in range(500)]
    assert odd.running == 0


def test_independent_gens_of_a_slow_backend_overlap() -> None:
    @sgc.function
    def wide(s):
        forks = s.fork(20)
        for f in forks:
            f += sgc.gen("v")
        return [f["v"] for f in forks]

    odd = Odd(words, bad="nothing")  # type: ignore[arg-type]
    odd.delay = lambda prompt: 0.2
    begin = time.monotonic()
    assert wide.run(backend=odd).value == [" ok"] * 20
    assert time.monotonic() - begin < 2
    assert odd.most == 20
