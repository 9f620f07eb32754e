"""What is told of calls to come changes no result, in this process and in one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import backend, gen, prompts, run, stream

import sgc
from sgc_ir.params import CallResult, SamplingParams
from sgc_runtime.backends.engine_backend import engine_backend
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Beginning, Call, Text


@pytest.fixture(scope="module", params=["off", "on"])
def owner(folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    made: Any = engine_backend(folder, dtype="float32", kv_tokens=4000, process=request.param)
    made.load()
    yield made
    made.close()


def test_a_prompt_is_computed_before_its_call(owner: Any) -> None:
    first, then = prompts(2, seed=5)

    async def main() -> CallResult:
        before = owner.stats()["ahead_tokens"]
        opened = owner.open()
        opened.append([Text(first)])
        opened.hint(ahead=[[then, False]])
        while owner.stats()["ahead_tokens"] <= before:
            await asyncio.sleep(0.01)
        opened.append([Text(then)])
        return await gen(opened)

    found = run(main)
    expected = run(lambda: gen(_with_text(owner, first + then)))
    assert found.token_ids == expected.token_ids
    assert found.usage.prompt_tokens == expected.usage.prompt_tokens
    assert found.usage.cached_tokens == 0, "nobody else has computed it"
    assert expected.usage.cached_tokens > 0


def _with_text(owner: Any, text: str) -> Any:
    opened = owner.open()
    opened.append([Text(text)])
    return opened


def test_a_hint_is_no_text(owner: Any) -> None:
    """What is not appended later is not there."""
    text = prompts(1, seed=6)[0]

    async def main() -> list[CallResult]:
        hinted = _with_text(owner, text)
        hinted.hint(ahead=[["never said", False]])
        hinted.hint(ahead=[["<|im_end|>", True]], readers=3)
        hinted.hint(readers=1, tokens=5, other="unknown")
        branch = hinted.fork()
        hinted.hint(ahead=[])
        plain = _with_text(owner, text)
        found = [await gen(one, ignore_eos=True) for one in (hinted, branch, plain)]
        branch.hint(ahead=[["after", False]])
        for one in (hinted, branch, plain):
            one.close()
        return found

    found = run(main)
    assert found[0].token_ids == found[1].token_ids == found[2].token_ids
    assert {result.usage.prompt_tokens for result in found} == {found[0].usage.prompt_tokens}


def test_an_empty_stream_has_nothing_to_compute(owner: Any) -> None:
    before = owner.stats()["ahead_tokens"]
    opened = owner.open()
    opened.hint(ahead=[])
    opened.close()
    other = owner.open()
    other.append([Text("One.")])
    assert run(lambda: gen(other)).usage.prompt_tokens > 0  # the engine has had a step
    assert owner.stats()["ahead_tokens"] == before


def test_false_hints_cost_time_only(folder: Path) -> None:
    """Beginnings longer than the prompt, too few readers, a bound that does not hold."""
    texts = prompts(12, seed=7)
    wrong = (Beginning(3, 0, 0), Beginning(40, None), Beginning(10_000, 2, 1))

    async def answer(made: LocalBackend, number: int, **said: Any) -> list[int]:
        opened, params = stream(made, texts[number]), SamplingParams(temperature=0.0, max_tokens=12)
        out: list[int] = []
        for _ in range(3):
            call = Call("g0", "", 0, params, (0,), instance=number, **said)
            out += (await opened.generate(call))[0].token_ids
            opened.append([Text(" and")])
        return out

    async def all_of_them(made: LocalBackend, **said: Any) -> list[list[int]]:
        return await asyncio.gather(*(answer(made, i, **said) for i in range(len(texts))))

    with backend(folder) as made:
        expected = run(lambda: all_of_them(made))
    with backend(folder, kv_tokens=150) as made:
        found = run(
            lambda: all_of_them(
                made, most=2, readers=0, next_use=0, beginnings=wrong, more_tokens=10**9
            )
        )
    assert found == expected


@sgc.function
def _judge(s: sgc.State, essay: str) -> Any:
    s += "Essay: " + essay + "\n"
    forks = s.fork(3)
    for f, name in zip(forks, ["brown", "fox", "dog"], strict=True):
        f += "Is it " + name + "? " + sgc.gen("one", max_tokens=6)
        f += " So " + sgc.gen("two", max_tokens=5)
    s += "It is " + "".join(f["two"] for f in forks) + sgc.gen("all", max_tokens=7)
    s += sgc.select("grade", ["quick", "lazy"])
    return s["grade"]


def test_programs_say_the_same_with_and_without_hints(folder: Path) -> None:
    rows = [{"essay": text} for text in prompts(8, seed=8)]
    found, counters = [], []
    for tokens, engine, hints in ((4000, True, True), (260, True, True), (260, False, False)):
        with backend(folder, kv_tokens=tokens, hints=engine) as made:
            states = _judge.run_batch(rows, backend=made, mode="compiled", options={"hints": hints})
            found.append([(state.text(), state.value) for state in states])
            assert [state.error() for state in states] == [None] * len(rows)
            counters.append(made.stats())
    assert found[0] == found[1] == found[2]
    assert counters[1]["retractions"] == 0
    assert counters[1]["hit_rate"] > counters[2]["hit_rate"]
    for stats in counters:
        assert stats["hit_rate"] <= stats["optimal_hit_rate"] + 1e-9
