"""What the executor itself costs a node, on backends that answer at once.

    python -m benchmarks.executor_overhead

`straight` (24 nodes) and `fork8` (8 branches with a gen each), compiled and interpreted, one row
at a time and 64. Two backends: `null` does the least that a backend can do (it keeps nothing and
gives one fixed answer), `scripted` is `sgc.testing.ScriptedBackend` with a fixed reply. `floor`
makes the same calls on the same backend by hand, with plain asyncio.
`fork alone`: a program with a fork of 8 less the one that does the same in one stream, compiled on
`null`: what the fork, its branches and its join add.
Each figure is the least of the repeats' means over their rows: what else ran only adds time. What
is compared takes turns, repeat by repeat.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import sgc
from benchmarks.common.conditions import conditions
from benchmarks.common.results import ResultFile, default_path, result_path
from benchmarks.common.timing import Timed, interleave
from sgc_ir.graph import Program
from sgc_ir.params import CallResult, SamplingParams, Usage
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import Backend, Call, Piece, RunDefaults, Text
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.chatml import ChatML
from sgc_runtime.executor.context import RunContext
from sgc_runtime.executor.graph_executor import execute
from sgc_runtime.executor.loop import run_sync

ROWS = 64
GOAL_US = 20.0  # a node of `straight`, compiled, on `null`
FORK_GOAL_US = 200.0
ANSWER = [CallResult(text="fine", finish_reason="eos", usage=Usage(10, 1))]


class NullBackend:
    """Gives one fixed answer and keeps nothing."""

    name = "null"
    chat_template = ChatML()

    def open(self) -> NullBackend:
        return self

    def fork(self) -> NullBackend:
        return self

    def append(self, pieces: Sequence[Piece]) -> None:
        pass

    async def generate(self, call: Call) -> list[CallResult]:
        return ANSWER

    async def select(self, call: Call) -> CallResult:
        raise NotImplementedError("these programs select nothing")

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        pass

    def hint(self, **facts: Any) -> None:
        pass

    def stats(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        pass


# -- the programs


@sgc.function
def straight(s: Any, question: str) -> Any:
    """A chat turn and its answer, then raw text with gens, and one of them read again."""
    s += sgc.user("Question: " + question)
    s += sgc.assistant(sgc.gen("first", max_tokens=16))
    s += "Topic: " + sgc.gen("topic", max_tokens=16, stop="\n")
    s += "\nPlace: " + sgc.gen("place", max_tokens=16, temperature=0.0)
    s += "\nTime: " + sgc.gen("time", max_tokens=16)
    s += "\nOn " + s["topic"] + ": " + sgc.gen("more", max_tokens=16)
    return s["topic"]


@sgc.function
def fork8(s: Any, question: str) -> Any:
    """Eight branches that each say a text and generate."""
    s += "Question: " + question
    forks = s.fork(8)
    for i, f in enumerate(forks):
        f += f"\nTip {i}: "
        f += sgc.gen("tip", max_tokens=16)
    return [f["tip"] for f in forks]


@sgc.function
def texts(s: Any, question: str) -> Any:
    """Eight short texts in one stream."""
    s += "Question: " + question
    for i in range(8):
        s += f"\nTip {i}: "


@sgc.function
def fork_append(s: Any, question: str) -> Any:
    """`texts`, each in a branch, joined to the same text."""
    s += "Question: " + question
    forks = s.fork(8)
    for i, f in enumerate(forks):
        f += f"\nTip {i}: "
    forks.join("append")


@sgc.function
def fork_gather(s: Any, question: str) -> Any:
    """`texts`, each in a branch, joined by variables, of which there are none."""
    s += "Question: " + question
    forks = s.fork(8)
    for i, f in enumerate(forks):
        f += f"\nTip {i}: "
    forks.join()


@sgc.function
def gens(s: Any, question: str) -> Any:
    """`fork8` in one stream."""
    s += "Question: " + question
    for i in range(8):
        s += f"\nTip {i}: "
        s += sgc.gen(f"tip{i}", max_tokens=16)
    return [s[f"tip{i}"] for i in range(8)]


def straight_calls(question: str) -> list[tuple[str, SamplingParams]]:
    """What `straight` appends before each call, and the call's parameters."""
    chat = f"<|im_start|>user\nQuestion: {question}<|im_end|>\n<|im_start|>assistant\n"
    plain = SamplingParams(max_tokens=16)
    return [
        (chat, plain),
        ("<|im_end|>\nTopic: ", SamplingParams(max_tokens=16, stop=("\n",))),
        ("\nPlace: ", SamplingParams(max_tokens=16, temperature=0.0)),
        ("\nTime: ", plain),
        ("\nOn fine: ", plain),
    ]


async def straight_floor(backend: Backend, question: str) -> None:
    """The calls of `straight` by hand."""
    stream = backend.open()
    for i, (text, params) in enumerate(straight_calls(question)):
        stream.append([Text(text)])
        await stream.generate(Call(f"g{i}", "", 0, params, (i,)))
    stream.close()


async def fork8_floor(backend: Backend, question: str) -> None:
    """The calls of `fork8` by hand: one task a branch."""
    root = backend.open()
    root.append([Text("Question: " + question)])
    params = SamplingParams(max_tokens=16)

    async def branch(i: int) -> None:
        stream = root.fork()
        stream.append([Text(f"\nTip {i}: ")])
        await stream.generate(Call(f"f0[{i}]/g0", f"f0[{i}]", 0, params, (i,)))
        stream.close()

    await asyncio.gather(*[branch(i) for i in range(8)])
    root.close()


# -- measuring


async def per_row(row: Callable[[], Awaitable[Any]], at_a_time: int, rows: int) -> float:
    """Seconds a row, `at_a_time` rows side by side."""
    begin = time.perf_counter()
    for _ in range(rows // at_a_time):
        if at_a_time == 1:
            await row()
        else:
            await asyncio.gather(*[row() for _ in range(at_a_time)])
    return (time.perf_counter() - begin) / (rows // at_a_time * at_a_time)


def on_loop(row: Callable[[], Awaitable[Any]], at_a_time: int, rows: int) -> Timed:
    """Seconds a row on the runtime's event loop."""
    return lambda: run_sync(per_row(row, at_a_time, max(rows, at_a_time)))


def compiled_row(program: Program, source: BackendSource) -> Callable[[], Awaitable[Any]]:
    """One row of `execute`, with the journal and the policies of a plain run: none."""
    defaults = RunDefaults()

    async def row() -> None:
        ctx = RunContext(source, defaults, 0, program.main)
        state = await execute(program, {"question": "why?"}, ctx)
        if state.error() is not None:
            raise state.error() or AssertionError("no error")

    return row


def interpreted(program: Any, backend: Any, rows: int) -> Timed:
    """Seconds a row of `run(mode="interpreted")`, one after the other."""

    def work() -> float:
        begin = time.perf_counter()
        for _ in range(rows):
            program.run("why?", backend=backend, mode="interpreted")
        return (time.perf_counter() - begin) / rows

    return work


def interpreted_batch(program: Any, backend: Any) -> Timed:
    """Seconds a row of an interpreted batch, 64 rows at a time."""
    rows = [{"question": "why?"}] * ROWS

    def work() -> float:
        begin = time.perf_counter()
        program.run_batch(rows, backend=backend, mode="interpreted", parallel=ROWS)
        return (time.perf_counter() - begin) / len(rows)

    return work


def least_us(works: Mapping[str, Timed], repeats: int) -> dict[str, float]:
    """Microseconds of each work, the least of its repeats. They take turns, and the first one of
    each warms up."""

    def settled(work: Timed) -> float:
        gc.collect()
        return work()

    samples = interleave(
        {name: partial(settled, work) for name, work in works.items()}, repeats + 1
    )
    return {name: 1e6 * min(found.seconds[1:]) for name, found in samples.items()}


def backends() -> dict[str, Callable[[], Any]]:
    return {"null": NullBackend, "scripted": lambda: ScriptedBackend(lambda prompt, params: "fine")}


def measure(name: str, program: Any, floor: Any, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one program."""
    graph = program.compile().graph
    mix = Counter(node.op.value for node in graph.graph.nodes)
    num_nodes = sum(mix.values())
    result: dict[str, Any] = {"nodes": num_nodes, "mix": dict(mix.most_common())}
    for kind, make in backends().items():
        rows = options.rows
        source = BackendSource.of(make())
        row = compiled_row(graph, source)
        by_hand = partial(floor, make(), "why?")
        works = {
            "compiled": on_loop(row, 1, rows),
            "compiled, 64 at a time": on_loop(row, ROWS, rows),
            "floor": on_loop(by_hand, 1, rows),
            "interpreted": interpreted(program, make(), rows // 4),
            "interpreted, 64 at a time": interpreted_batch(program, make()),
        }
        figures = least_us(works, options.repeats)
        result[kind] = {
            what: {"us_a_row": round(us, 1), "us_a_node": round(us / num_nodes, 2)}
            for what, us in figures.items()
        }
        for what, us in figures.items():
            print(f"{name:9} {kind:9} {what:26} {us:9.1f} us/row {us / num_nodes:7.2f} us/node")
    return result


def fork_alone(options: argparse.Namespace) -> dict[str, Any]:
    """Microseconds that a fork of 8 adds, in three programs."""
    source = BackendSource.of(NullBackend())
    pairs = {
        "join append": (fork_append, texts),
        "join gather": (fork_gather, texts),
        "a gen in each branch": (fork8, gens),
    }
    programs = {program.name: program for pair in pairs.values() for program in pair}
    works = {
        name: on_loop(compiled_row(program.compile().graph, source), 1, options.rows)
        for name, program in programs.items()
    }
    us = least_us(works, options.repeats)
    result: dict[str, Any] = {"goal_us": FORK_GOAL_US}
    for name, (forked, flat) in pairs.items():
        with_fork, without = us[forked.name], us[flat.name]
        added = with_fork - without
        result[name] = {
            "us_a_row": round(with_fork, 1),
            "us_a_row_without_fork": round(without, 1),
            "us_added": round(added, 1),
            "met": added < FORK_GOAL_US,
        }
        print(f"fork alone, {name:21} {with_fork:7.1f} - {without:7.1f} = {added:7.1f} us")
    return result


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=64, help="rows a repeat")
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--output", type=result_path, default=default_path("executor_overhead"))
    options = parser.parse_args(argv)
    file = ResultFile(
        options.output,
        what=__doc__,
        conditions=conditions(threads=1),
        rows=options.rows,
        repeats=options.repeats,
    )
    found = measure("straight", straight, straight_floor, options)
    reached = found["null"]["compiled"]["us_a_node"]
    file.add("straight", {"goal_us_a_node": GOAL_US, "met": reached < GOAL_US, **found})
    file.add("fork8", measure("fork8", fork8, fork8_floor, options))
    file.add("fork alone", fork_alone(options))


if __name__ == "__main__":
    main()
