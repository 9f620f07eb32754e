"""The switches that measure what the cache and the order bring: what they do, and that nothing of
it changes a result (`test_scheduler_machine` has them among its settings)."""

from __future__ import annotations

import asyncio
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.local import backend, gen, run, select, stream, tiny_folder
from support.scheduling import Simulation, check_laws, plain_output

from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.executor.backend import Text

HEAD = list(range(2, 32))


def cached(sim: Simulation, prompt: list[int], max_new: int = 3) -> int:
    """Tokens of a prompt that the cache had, asked alone."""
    request = sim.add(prompt, max_new)
    sim.run()
    check_laws(sim)
    assert request.output.tolist() == plain_output(prompt, max_new)
    assert request.cached_tokens is not None
    return request.cached_tokens


@pytest.mark.parametrize(("tree", "found"), [(True, 30), (False, 0)])
def test_without_the_tree_a_common_beginning_is_not_found(tree: bool, found: int) -> None:
    sim = Simulation(400, cache_tree=tree)
    assert cached(sim, [*HEAD, 40, 41]) == 0
    assert cached(sim, [*HEAD, 42, 43]) == found


@pytest.mark.parametrize("tree", [True, False])
def test_without_the_tree_whole_texts_are_found(tree: bool) -> None:
    sim = Simulation(400, cache_tree=tree)
    cached(sim, HEAD, 3)
    answer = plain_output(HEAD, 3)
    assert cached(sim, HEAD) == len(HEAD) - 1, "the same prompt again"
    assert cached(sim, [*HEAD, 49, 48]) == len(HEAD), "it begins with a whole prompt"
    later = [*HEAD, *answer, 49]
    assert cached(sim, later) == len(HEAD) + 2, "the next turn; the last token has no KV"
    assert cached(sim, [*later, 5]) == len(later)


def test_without_the_tree_prompts_that_come_together_share_nothing() -> None:
    sim = Simulation(400, cache_tree=False)
    for own in range(40, 44):
        sim.add([*HEAD, own])
    sim.run()
    assert sim.hit_rate == 0.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_so_many_of_the_calls_find_anything(share: float) -> None:
    sim = Simulation(2_000, match_share=share)
    sim.add(HEAD)
    sim.run()
    found = [cached(sim, [*HEAD, 40 + i % 9, i % 40], 1) > 0 for i in range(300)]
    assert abs(sum(found) / len(found) - share) < 0.08
    assert found == again(share), "the same ones in every run"


def again(share: float) -> list[bool]:
    sim = Simulation(2_000, match_share=share)
    sim.add(HEAD)
    sim.run()
    return [cached(sim, [*HEAD, 40 + i % 9, i % 40], 1) > 0 for i in range(300)]


def test_a_lot_names_who_is_served() -> None:
    sim = Simulation(300, order="random", max_running=1)
    rng = random.Random(1)
    asked = [sim.add([rng.randrange(2, 50) for _ in range(9)]) for _ in range(60)]
    sim.run()
    assert sorted(r.arrival for r in sim.started) == list(range(60))
    ups = sum(a.arrival < b.arrival for a, b in pairwise(sim.started))
    assert 20 < ups < 40
    assert sim.done == sim.started
    assert len(asked) == 60


SWITCHES: list[dict[str, Any]] = [
    {"cache": False},
    {"cache_tree": False},
    {"match_share": 0.5},
    {"order": "fcfs"},
    {"order": "random"},
    {"hints": False, "jump": False},
]


@pytest.mark.parametrize("switch", SWITCHES, ids=str)
def test_a_model_says_the_same(switch: dict[str, Any], tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path)
    assert told(folder, kv_tokens=300, **switch) == told(folder)


def told(folder: Path, **options: Any) -> list[tuple[str, ...]]:
    """Two gens and a select in each of eight chats that begin alike, four of them at once."""

    async def chat(owner: LocalBackend, i: int) -> tuple[str, ...]:
        on = stream(owner, "The quick brown fox jumps over the lazy dog. " * 3 + f"Answer {i}:")
        first = await gen(on)
        on.append([Text(f" and {i}")])
        second = await gen(on, regex="(yes|no), [0-9]{3}")
        on.append([Text(" or")])
        return first.text, second.text, (await select(on, [" dog", " fox", " lazy fox"])).text

    with backend(folder, **options) as owner:

        async def chats() -> list[tuple[str, ...]]:
            at_once = asyncio.Semaphore(4)

            async def one(i: int) -> tuple[str, ...]:
                async with at_once:
                    return await chat(owner, i)

            return list(await asyncio.gather(*map(one, range(8))))

        found: list[tuple[str, ...]] = run(chats)
        return found
