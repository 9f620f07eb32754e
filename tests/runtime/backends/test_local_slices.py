"""Constraints that take long: their gens stand aside, nothing else does, and nothing changes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from support.constrained import REGEXES, Asked, answer_all, asked
from support.local import backend, gen, run, stream

from sgc_ir.automata import limits
from sgc_ir.automata.limits import SliceEnded
from sgc_ir.errors import BackendError
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.constraints import bounded, matcher
from sgc_runtime.engine import host_runner, slices
from sgc_runtime.engine.request import State
from sgc_runtime.executor.backend import Call
from sgc_runtime.sampling.row import SamplingRow

SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.1, "top_p": 0.9, "logprobs": True, "top_logprobs": 2},
    {"temperature": 1.0, "stop": ("a", '"'), "min_tokens": 3},
)
TINY: dict[str, Any] = {"kv_tokens": 60, "reserve": 0.0, "hints": False}
SLOW = (
    r"(?=(?:[a-m ]{1,7}[n-z ]{1,5}){3,60}$)(?=(?:\w{1,6} ){2,80}$).{20,600}",
    "".join(f"(?=(?:.{{1,{n}}}[a-{c}])*$)" for n, c in zip((3, 5, 7, 9), "fkpz")) + ".{10,400}",
)


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[Asked]:
    calls = asked(SETTINGS)
    assert answer_all(folder, calls, 16)["aside_steps"] < 100
    return calls


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Each piece of work is cut off at its first look at the clock, and before it every other
    time; counted."""
    rng, counted = random.Random(1), Counter[str]()

    class Reluctant(bounded.Bounded):
        def __enter__(self) -> None:
            super().__enter__()
            counted["begun"] += 1
            if rng.random() < 0.5:
                counted["put off"] += 1
                self.__exit__(SliceEnded)
                raise SliceEnded

    monkeypatch.setattr(matcher, "Bounded", Reluctant)
    monkeypatch.setattr(slices, "FIRST_S", 0.0)
    monkeypatch.setattr(limits, "_BETWEEN_LOOKS", 0)
    return counted


@pytest.mark.parametrize(
    ("batch", "options"),
    [
        (1, {}),
        (16, {"jump": False}),
        (16, TINY),
        (16, {"jump": False, "cache": False, "prefill_tokens": 5, **TINY}),
    ],
    ids=str,
)
def test_standing_aside_changes_nothing(
    expected: list[Asked],
    folder: Path,
    cut_off: Counter[str],
    batch: int,
    options: dict[str, Any],
) -> None:
    calls = asked(SETTINGS)
    stats = answer_all(folder, calls, batch, **options)
    for call, other in zip(calls, expected, strict=True):
        assert call.summary == other.summary
        assert call.numbers == pytest.approx(other.numbers, abs=1e-3)
        assert "".join(call.pieces) == "".join(other.pieces)
    assert cut_off["put off"] > 200  # most tokens take no slice of time
    assert stats["aside_steps"] > 50
    assert (stats["retractions"] > 0) == ("reserve" in options)


def test_samples_of_a_call_stand_aside_each(folder: Path, cut_off: Counter[str]) -> None:
    async def main(owner: LocalBackend, seeds: tuple[int, ...]) -> list[Any]:
        params = SamplingParams(n=len(seeds), regex=REGEXES[0], max_tokens=40)
        return await stream(owner, "The fox").generate(Call("g0", "", 0, params, seeds))

    with backend(folder) as owner:
        together = run(lambda: main(owner, (5, 6, 7)))
        single = [run(lambda s=s: main(owner, (s,)))[0] for s in (5, 6, 7)]
    assert [r.text for r in together] == [r.text for r in single]
    assert cut_off["put off"] > 10


def told(result: Any) -> list[Any]:
    """What became of closed sets."""
    sets = result.meta.get("distribution", ())
    return [(s["begin"], s["texts"], [round(p, 4) for p in s["probabilities"]]) for s in sets]


@pytest.mark.parametrize(
    "params",
    [
        {"regex": r"(yes|no), I (am|am not) sure: [a-z]{1,8}\.", "distribution": "exact"},
        {"regex": "[a-z]{1,8}( [a-z]{1,5}){0,3}", "heal": True},
    ],
    ids=["exact", "healed"],
)
def test_other_ways_to_begin(
    folder: Path, params: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    async def main(owner: LocalBackend) -> list[Any]:
        calls = [
            gen(stream(owner, prompt), temperature=1.0, seeds=(seed,), max_tokens=30, **params)
            for prompt in ('He said "htt', "The qui", "In 2024")
            for seed in range(4)
        ]
        return list(await asyncio.gather(*calls))

    with backend(folder) as owner:
        expected = run(lambda: main(owner))
    counted = request.getfixturevalue("cut_off")
    with backend(folder) as owner:
        found = run(lambda: main(owner))
    assert [list(r.token_ids) for r in found] == [list(r.token_ids) for r in expected]
    assert [told(r) for r in found] == [told(r) for r in expected]
    assert counted["put off"] > 30


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is as much work as is done between two looks at the clock."""
    monkeypatch.setattr(slices, "FIRST_S", 0.0)
    monkeypatch.setattr(slices, "LONGEST_S", 0.0)
    monkeypatch.setattr(slices, "_LEAST_S", 1e-6)


def watch(core: Any, seen: list[tuple[int, int]]) -> None:
    """Note for each step with somebody aside: plain gens that run, and those that got farther."""
    step = core.step

    def watched() -> bool:
        before = {
            r: r.num_tokens for r in core.open if r.guide is None and r.state is State.RUNNING
        }
        aside = core._samples.num_aside
        busy: bool = step()
        if aside and core._samples.num_aside:
            seen.append((len(before), sum(r.num_tokens > n for r, n in before.items())))
        return busy

    core.step = watched


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("pattern", SLOW)
def test_others_go_on_meanwhile(folder: Path, pattern: str) -> None:
    seen: list[tuple[int, int]] = []

    async def main(owner: LocalBackend) -> None:
        watch((await owner.engine()).engine.core, seen)
        hostile = asyncio.ensure_future(
            gen(stream(owner, "The"), regex=pattern, max_tokens=30, temperature=1.0)
        )
        plain = [gen(stream(owner, f"The quick {i}"), max_tokens=300) for i in range(3)]
        fast = [gen(stream(owner, f"In {i}"), regex=REGEXES[0], max_tokens=40) for i in range(3)]
        for result in await asyncio.gather(*plain, *fast):
            assert result.text
        hostile.cancel()
        await asyncio.gather(hostile, return_exceptions=True)

    with backend(folder) as owner:
        run(lambda: main(owner))
        assert owner.stats()["aside_steps"] > 10
    assert len([running for running, _ in seen if running]) > 10
    assert all(running == farther for running, farther in seen)


@pytest.mark.usefixtures("short")
def test_too_slow_a_constraint_fails_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "_MOST_OVERDUE_S", 0.005)
    monkeypatch.setattr(bounded, "USUAL_S", 0.0)

    async def main(owner: LocalBackend) -> list[Any]:
        slow = gen(stream(owner, "The"), regex=SLOW[0], max_tokens=30)
        plain = [gen(stream(owner, "The quick"), max_tokens=20) for _ in range(2)]
        found = await asyncio.gather(slow, *plain, return_exceptions=True)
        core = (await owner.engine()).engine.core
        assert not core.open
        assert core.cache.referenced == 0
        return list(found)

    with backend(folder) as owner:
        slow, *plain = run(lambda: main(owner))
    assert isinstance(slow, BackendError)
    assert "more than 0.005 s beyond" in str(slow)
    assert all(result.text for result in plain)


def test_sampling_that_fails_later_fails_one_gen(
    folder: Path, cut_off: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = host_runner.choose

    def broken(logits: torch.Tensor, rows: Sequence[SamplingRow]) -> Any:
        if any(row.params.regex == "[a-z]{5}" for row in rows):
            raise ZeroDivisionError
        return real(logits, rows)

    monkeypatch.setattr(host_runner, "choose", broken)

    async def main(owner: LocalBackend) -> None:
        for _ in range(8):
            with pytest.raises(BackendError, match="the engine's step failed: ZeroDivisionError"):
                await gen(stream(owner, "The"), regex="[a-z]{5}")
        assert (await gen(stream(owner, "The"), regex="[a-z]{4}")).complete

    with backend(folder) as owner:
        run(lambda: main(owner))
    assert cut_off["put off"] > 4


@pytest.mark.usefixtures("cut_off")
def test_cancelled_while_aside(folder: Path) -> None:
    async def main(owner: LocalBackend) -> None:
        core = (await owner.engine()).engine.core
        for pause in (0.0, 0.01, 0.03, 0.1):
            calls = [
                asyncio.ensure_future(gen(stream(owner, "The"), regex="[a-z ]*", max_tokens=400))
                for _ in range(4)
            ]
            await asyncio.sleep(pause)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        result = await gen(stream(owner, "The"), regex=REGEXES[1])
        assert result.finish_reason == "constraint"
        assert core.cache.referenced == 0
        assert not core.open

    with backend(folder) as owner:
        run(lambda: main(owner))
