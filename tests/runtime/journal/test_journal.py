"""A run's journal: what one run notes is what the next one finds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sgc_ir.errors import GenerationError, JournalError
from sgc_ir.params import CallResult, SamplingParams, Usage
from sgc_runtime.executor.backend import Call
from sgc_runtime.executor.node_log import Finished, NodeLog
from sgc_runtime.journal.journal import Journal, create_journal, resume_journal
from sgc_runtime.journal.store import Line, Store


@dataclass(frozen=True)
class Tool:
    name: str
    effect: str

    def fn(self) -> None:
        raise AssertionError("the journal runs no tools")


PAY, LOOK = Tool("pay", "irreversible"), Tool("look", "pure")
RESULTS = [CallResult("text", [1, 2], "stop", "\n", True, Usage(5, 2), {"scores": [0.5]})]


class View:
    def __init__(self, text: str) -> None:
        self.text = text

    def sent_text(self) -> str:
        return self.text

    def messages(self) -> list[Any]:
        return []


def call(node: str = "g0", prompt: str = "p") -> Call:
    return Call(node, "", 0, SamplingParams(), (7,), view=View(prompt))


@dataclass
class Bench:
    path: Path
    lines: list[Line]

    def fresh(self, **facts: Any) -> Journal:
        return self._started(create_journal(self.path, facts))

    def resumed(self, **facts: Any) -> Journal:
        return self._started(resume_journal(self.path, facts))

    def _started(self, journal: Journal) -> Journal:
        journal.start(self._take)
        return journal

    def _take(self, lines: Sequence[Line]) -> None:
        self.lines += lines


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "j", [])


def begin(journal: Journal, row: int = 0, digest: bytes = b"d") -> NodeLog:
    assert journal.admit(row, digest)
    return journal.begin_row(row, "program")


def test_calls_of_an_unfinished_row_are_found(bench: Bench) -> None:
    journal = bench.fresh()
    log = begin(journal)
    assert log.finished_call(call()) is None
    log.record_call(call(), RESULTS)
    log.record_call(call("f0[1]/g0"), [*RESULTS, *RESULTS])
    journal.close()
    log = begin(bench.resumed())
    assert log.finished_call(call()) == RESULTS
    assert log.finished_call(call("f0[1]/g0")) == [*RESULTS, *RESULTS]
    assert log.finished_call(call("g1")) is None


def test_another_call_at_the_same_node_is_told(bench: Bench) -> None:
    journal = bench.fresh()
    begin(journal).record_call(call(), RESULTS)
    journal.close()
    log = begin(bench.resumed())
    for other in (
        call(prompt="q"),
        replace(call(), seeds=(8,)),
        replace(call(), params=SamplingParams(top_k=3)),
        replace(call(), end_of_turn=True),
    ):
        with pytest.raises(GenerationError, match=r"program\[0\] node g0: .*repeat itself"):
            log.finished_call(other)
    with pytest.raises(GenerationError, match="another tool"):
        log.finished_tool("g0", PAY, (), {})


def test_tools_are_found_with_their_values(bench: Bench) -> None:
    async def first(log: NodeLog) -> None:
        for node, tool, value in (("g0", PAY, {"a": [1, 2**70]}), ("g1", LOOK, None)):
            assert log.finished_tool(node, tool, (node,), {"k": 1}) is None
            await log.begin_tool(node, tool, (node,), {"k": 1})
            await log.end_tool(node, tool, value)

    journal = bench.fresh()
    asyncio.run(first(begin(journal)))
    journal.close()
    log = begin(bench.resumed())
    assert log.finished_tool("g0", PAY, ("g0",), {"k": 1}) == Finished({"a": [1, 2**70]})
    assert log.finished_tool("g1", LOOK, ("g1",), {"k": 1}) == Finished(None)
    with pytest.raises(GenerationError, match="another tool or arguments"):
        log.finished_tool("g1", LOOK, ("g2",), {"k": 1})


def test_an_irreversible_tool_is_in_the_file_before_it_runs_and_when_it_has(bench: Bench) -> None:
    async def main(journal: Journal, log: NodeLog) -> None:
        await log.begin_tool("g0", PAY, (), {})
        assert [(n.row, n.path, n.tool) for n in journal.unknown_outcomes()] == [(0, "g0", "pay")]
        await log.end_tool("g0", PAY, 1)
        assert journal.unknown_outcomes() == []

    journal = bench.fresh()
    asyncio.run(main(journal, begin(journal)))
    journal.close()


def test_unknown_outcomes_are_decided(bench: Bench) -> None:
    async def broken_off(log: NodeLog) -> None:
        await asyncio.gather(*(log.begin_tool(f"g{i}", PAY, (i,), {}) for i in range(3)))

    journal = bench.fresh()
    asyncio.run(broken_off(begin(journal)))
    journal.close()
    journal = resume_journal(bench.path, {})
    first, second, _ = journal.unknown_outcomes()
    journal.decide([(first, {"x": 1})], [second])
    journal.start(bench._take)
    with pytest.raises(GenerationError, match=r"node g2: outcome unknown: pay .*--rerun 0:g2"):
        begin(journal)
    journal.close()
    journal = resume_journal(bench.path, {})
    journal.decide([], journal.unknown_outcomes())
    journal.start(bench._take)
    log = begin(journal)
    assert log.finished_tool("g0", PAY, (0,), {}) == Finished({"x": 1})
    for i in (1, 2):
        assert log.finished_tool(f"g{i}", PAY, (i,), {}) is None
        asyncio.run(log.begin_tool(f"g{i}", PAY, (i,), {}))
    journal.close()


def test_lines_come_once_they_are_safe_and_good_rows_leave_no_nodes(bench: Bench) -> None:
    journal = bench.fresh()
    for row in range(3):
        begin(journal, row).record_call(call(), RESULTS)
    assert journal.flush()
    journal.finish_row(2, "two", failed=False)
    journal.finish_row(0, "zero", failed=True)
    assert journal.flush()
    assert [line.text for line in bench.lines] == ["two", "zero"]
    journal.close()
    store = Store.open(bench.path, create=False)
    assert store.counts() == (1, 2)
    store.close()
    journal = bench.resumed()
    assert journal.finished_rows() == 1
    assert not journal.admit(2, b"d")
    assert begin(journal, 0).finished_call(call()) == RESULTS  # failed, and runs again
    assert journal.line(0) is None
    journal.close()


def test_another_row_is_refused(bench: Bench) -> None:
    journal = bench.fresh()
    begin(journal, 4)
    journal.close()
    journal = bench.resumed()
    with pytest.raises(JournalError, match="input row 4 is not what it was"):
        journal.admit(4, b"other")
    journal.close()


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        ({"a": 1}, {"a": 2}, "a was 1 and is 2"),
        ({"a": "#1"}, {"a": "#2"}, "a is another one"),
        ({"a": None}, {"a": "#2"}, "a is new"),
        ({"a": "#1"}, {"a": None}, "a is missing"),
        ({}, {"a": 1}, "a is new"),
        ({"a": 1}, {}, "a is missing"),
        ({"a": [1], "b": None}, {"a": [], "b": False}, r"a was \[1\] .*, b was None and is False"),
    ],
)
def test_another_fingerprint_is_refused(
    bench: Bench, before: dict[str, Any], now: dict[str, Any], words: str
) -> None:
    bench.fresh(**before).close()
    with pytest.raises(JournalError, match=words):
        bench.resumed(**now)
    bench.resumed(**before).close()


def test_whoever_writes_hears_of_a_failure(bench: Bench) -> None:
    def full(lines: Sequence[Line]) -> None:
        raise OSError("no room")

    journal = create_journal(bench.path, {})
    journal.start(full)
    log = begin(journal)
    journal.finish_row(0, "zero", failed=False)
    assert journal.flush()
    for use in (journal.check, lambda: journal.finish_row(1, "one", False)):
        with pytest.raises(OSError, match="no room"):
            use()
    with pytest.raises(OSError, match="no room"):
        asyncio.run(log.begin_tool("g0", PAY, (), {}))
    journal.close()
    journal = bench.resumed()
    assert not journal.admit(0, b"d")  # the line itself was safe
    journal.close()


def test_nothing_begins_after_the_end(bench: Bench) -> None:
    journal = bench.fresh()
    log = begin(journal)
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        asyncio.run(log.begin_tool("g0", PAY, (), {}))


@pytest.mark.long
def test_memory_and_file_are_bounded_by_what_is_open(bench: Bench) -> None:
    """200,000 rows of five calls: of finished rows only lines stay, and those in the file."""
    import tracemalloc

    journal = bench.fresh()
    tracemalloc.start()
    for row in range(200_000):
        log = begin(journal, row)
        for i in range(5):
            log.record_call(call(f"g{i}"), RESULTS)
        journal.finish_row(row, "x" * 20, failed=False)
        bench.lines.clear()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    journal.flush()
    assert peak < 60e6
    assert bench.path.stat().st_size < 200_000 * 60 + 2e6
    journal.close()
