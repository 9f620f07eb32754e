"""Bounded, ordered running of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sgc_runtime.executor.batch import run_rows
from sgc_runtime.executor.loop import run_sync


def test_order_is_kept_and_the_bound_holds() -> None:
    running: set[int] = set()
    peak = 0

    async def one(index: int, row: float) -> int:
        nonlocal peak
        running.add(index)
        peak = max(peak, len(running))
        await asyncio.sleep(row)
        running.discard(index)
        return index

    async def main() -> list[int]:
        rows = [0.02 if i % 3 == 0 else 0.001 for i in range(20)]
        return [result async for result in run_rows(rows, one, parallel=4)]

    assert run_sync(main()) == list(range(20))
    assert peak == 4


def test_rows_are_taken_lazily_from_an_endless_iterator() -> None:
    taken = 0

    def rows() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    async def one(index: int, row: int) -> int:
        await asyncio.sleep(0.05 if index == 0 else 0.0)
        return row

    async def main() -> list[int]:
        got = []
        results = run_rows(rows(), one, parallel=2, ahead=5)
        async for result in results:
            got.append(result)
            assert taken <= len(got) + 5
            if len(got) == 12:
                break
        await results.aclose()
        return got

    assert run_sync(main()) == list(range(1, 13))


def test_an_early_end_cancels_what_runs() -> None:
    ended: list[int] = []

    async def one(index: int, row: int) -> int:
        try:
            await asyncio.sleep(0.0 if index == 0 else 10.0)
        finally:
            ended.append(index)
        return index

    async def main() -> None:
        results: Any = run_rows(range(10), one, parallel=3)
        assert await anext(results) == 0
        await asyncio.sleep(0.01)
        await results.aclose()

    run_sync(main())
    assert sorted(ended) == [0, 1, 2, 3]  # row 3 took the place of row 0


def test_an_exception_comes_in_its_turn() -> None:
    async def one(index: int, row: int) -> int:
        await asyncio.sleep(0.0 if index == 2 else 0.01)
        if index == 2:
            raise LookupError("row 2")
        return index

    async def main() -> list[int]:
        got: list[int] = []
        results: Any = run_rows([0] * 5, one, parallel=2)
        got += [await anext(results), await anext(results)]
        with pytest.raises(LookupError, match="row 2"):
            await anext(results)
        return got

    assert run_sync(main()) == [0, 1]


def test_parallel_must_be_positive_and_no_rows_are_no_results() -> None:
    async def one(index: int, row: int) -> int:
        return row

    async def main(rows: list[int], parallel: int) -> list[int]:
        return [r async for r in run_rows(rows, one, parallel)]

    assert run_sync(main([], 1)) == []
    with pytest.raises(ValueError, match="parallel"):
        run_sync(main([1], 0))
