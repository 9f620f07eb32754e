"""Cancelled calls give the local engine its KV slots back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.local import backend

import sgc
from sgc_runtime.backends.local import LocalBackend

pytest.importorskip("torch")


@sgc.function
def wide(s, q: str):
    forks = s.fork(4)
    for f in forks:
        f += q + sgc.gen("v", max_tokens=900, ignore_eos=True)


async def freed(local: LocalBackend) -> None:
    """Returns when nothing runs or waits; the engine has gone through a step since."""
    for _ in range(200):
        stats = local.stats()
        if stats["running"] == 0 and stats["waiting"] == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"still at work: {local.stats()}")


@pytest.mark.parametrize("how", ["cancel", "row deadline", "deadline"])
def test_calls_that_end_early_free_their_slots(folder: Path, how: str) -> None:
    with backend(folder, cache=False) as local:
        local.load()

        async def main() -> None:
            cache = (await local.engine()).engine.core.cache
            before = (cache.free, cache.owned, cache.referenced)
            options = {"row deadline": {"row_deadline": 0.5}, "deadline": {"deadline": 0.5}}
            task = asyncio.ensure_future(
                wide.arun("the fox", backend=local, **options.get(how, {}))
            )
            while not local.stats()["running"]:
                assert not task.done()
                await asyncio.sleep(0.005)
            if how == "cancel":
                task.cancel()
            with pytest.raises((asyncio.CancelledError, sgc.GenerationError)):
                await task
            await freed(local)
            assert (cache.free, cache.owned, cache.referenced) == before
            steps = local.stats()["decode_steps"]
            await asyncio.sleep(0.1)
            assert local.stats()["decode_steps"] == steps

        asyncio.run(main())


def test_loading_the_model_does_not_count_as_the_call(folder: Path) -> None:
    @sgc.function
    def short(s):
        s += "the" + sgc.gen("v", max_tokens=1)

    with backend(folder) as local:  # not loaded yet
        assert short.run(backend=local, deadline={"v": 5.0}).error() is None
