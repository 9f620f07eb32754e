"""Regions tell the backend what they know of their calls, and nothing of what Python does then."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from support.tracer import reply, scores

import sgc
from sgc.testing import ScriptedBackend
from sgc_runtime.executor.backend import Call, Media


class HintedBackend(ScriptedBackend):
    """Keeps the calls."""

    takes_hints = True

    def __init__(self) -> None:
        super().__init__(reply, select=scores)
        self.seen: dict[str, tuple[Call, str]] = {}

    async def begin(
        self, kind: str, prompt: str, media: Sequence[Media], call: Call
    ) -> dict[str, Any]:
        self.seen[call.node] = (call, prompt)
        return await super().begin(kind, prompt, media, call)


@sgc.function
def inner(s, x: str):
    s += f"On {x}: " + sgc.gen("one", max_tokens=3)
    s += " so " + sgc.gen("two", max_tokens=2)


@sgc.function
def program(s, x: str):
    s += "These words stand first.\n"
    s += x + sgc.gen("a", max_tokens=4)
    forks = s.fork(2)
    forks += sgc.gen("b", max_tokens=5)
    word = random.choice([s["a"]])
    s += "These come later: " + word
    s += sgc.gen("c", max_tokens=6)
    more = s.fork(2)
    more += "again" + sgc.gen("d", max_tokens=7)
    h = inner(word)
    forks.join()
    return h["two"], more[0]["d"]


def test_calls_of_regions_carry_hints() -> None:
    backend, silent = HintedBackend(), ScriptedBackend(reply, select=scores)
    rows = [{"x": "p"}, {"x": "q"}]
    told = program.run_batch(rows, backend=backend, parallel=1)
    plain = program.run_batch(rows, backend=silent, parallel=1, hints=False)
    assert [one.value for one in told] == [one.value for one in plain]
    calls = {node: call for node, (call, _) in backend.seen.items()}
    assert {node: call.most for node, call in calls.items()} == {
        "g0": 4, "f0[0]/g0": 5, "f0[1]/g0": 5, "g1": 6, "f1[0]/g0": 7, "f1[1]/g0": 7,
        "c0/g0": 3, "c0/g1": 2,
    }  # fmt: skip
    first = len("These words stand first.\n")
    assert [one.chars for one in calls["g0"].beginnings] == [first]
    assert [one.chars for one in calls["g1"].beginnings] in ([first], [])


def test_nobody_is_said_to_be_the_last_reader_of_a_stream_that_python_may_go_on_with() -> None:
    backend = HintedBackend()
    program.run(x="p", backend=backend)
    calls = {node: call for node, (call, _) in backend.seen.items()}
    inner_ones = {node: call.readers for node, call in calls.items() if node.startswith("c0")}
    assert inner_ones == {"c0/g0": 1, "c0/g1": 0}
    others = [call for node, call in calls.items() if not node.startswith("c0")]
    assert [call.readers for call in others] == [None] * 6
    assert all(one.readers is None for call in others for one in call.beginnings)


def test_what_later_regions_begin_with_is_not_taken_for_the_beginning_of_the_prompt() -> None:
    backend = HintedBackend()
    program.run_batch([{"x": x} for x in "pqr"], backend=backend, parallel=1)
    for call, prompt in backend.seen.values():
        for one in call.beginnings:
            assert 0 < one.chars <= len(prompt)
    starts = {
        node: [prompt[: one.chars] for one in call.beginnings]
        for node, (call, prompt) in backend.seen.items()
    }
    assert starts["f0[0]/g0"][0] == "These words stand first.\n"
    assert starts["f1[0]/g0"] == [backend.seen["f1[0]/g0"][1].removesuffix("again")]
