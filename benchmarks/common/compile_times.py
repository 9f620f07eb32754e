"""What compiling costs: the gallery's programs, graphs of 10,000 nodes, artefacts that are read."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import sgc
from sgc.compile import compile_spec
from sgc.program import Program
from sgc_ir.codec import decode, encode
from sgc_ir.passes.manager import PASSES, defaults, run_passes

GOAL_PROGRAM_S = 0.1
GOAL_BIG_S = 2.0  # for 10,000 nodes
GOAL_LOAD_S = 1e-6  # a node
_GALLERY = Path(__file__).resolve().parents[2] / "programs"


@sgc.function
def chain(s, topic: str):  # type: ignore[no-untyped-def]
    """One stream, one gen after another."""
    for i in range(2000):
        s += f"Step {i} of " + topic + ":"
        s += sgc.gen(f"step_{i}", max_tokens=8)


@sgc.function
def forks(s, topic: str):  # type: ignore[no-untyped-def]
    """Many branches."""
    s += topic
    branches = s.fork(2500)
    for i, branch in enumerate(branches):
        branch += f"Question {i}:"
        branch += sgc.gen("answer", max_tokens=8)
    s += "\n".join(branch["answer"] for branch in branches)
    s += sgc.gen("end", max_tokens=8)


@sgc.function
def choices(s, topic: str):  # type: ignore[no-untyped-def]
    """Many conditions on what was selected."""
    s += topic
    for i in range(770):
        s += f"Is it {i}?"
        s += sgc.select(f"choice_{i}", ["yes", "no"])
        if s[f"choice_{i}"] == "yes":
            s += "Why?"
            s += sgc.gen(f"reason_{i}", max_tokens=4)
        else:
            s += "So?"


BIG = (chain, forks, choices)


def gallery() -> Iterator[Program]:
    """The programs of `programs/`, helpers included."""
    for path in sorted(_GALLERY.glob("*.py")):
        module = importlib.import_module(f"programs.{path.stem}")
        for value in vars(module).values():
            if isinstance(value, Program):
                yield value


def compile_times(repetitions: int = 5) -> dict[str, Any]:
    """Seconds of each program of the gallery: the first compilation, which imports what it needs,
    and the median of the others."""
    found: dict[str, Any] = {}
    for program in gallery():
        first, *others = (_seconds(program.compile) for _ in range(repetitions + 1))
        found[program.name] = {"first_s": round(first, 5), "median_s": round(median(others), 5)}
    slowest = max(entry["median_s"] for entry in found.values())
    return {
        "programs": found,
        "slowest_s": slowest,
        "goal_s": GOAL_PROGRAM_S,
        "met": slowest < GOAL_PROGRAM_S,
    }


def big_graphs() -> dict[str, Any]:
    """Seconds to trace, check and improve graphs of about 10,000 nodes; the better of two."""
    found: dict[str, Any] = {}
    for program in BIG:
        seconds = min(_seconds(program.compile) for _ in range(2))
        nodes = _nodes(program.compile().graph)
        found[program.name] = {
            "nodes": nodes,
            "seconds": round(seconds, 4),
            "seconds_of_10000": round(seconds * 10_000 / nodes, 4),
        }
    slowest = max(entry["seconds_of_10000"] for entry in found.values())
    return {**found, "goal_s": GOAL_BIG_S, "met": slowest < GOAL_BIG_S}


def artefact_loads(repetitions: int = 5) -> dict[str, Any]:
    """Milliseconds for 1,000 nodes from the bytes of an artefact to a checked program, and until
    all nodes are made, which happens when a graph is first asked for."""
    found: dict[str, Any] = {}
    for program in BIG:
        graph = program.compile().graph
        content, nodes = encode(graph), _nodes(graph)
        loads = [_seconds(partial(decode, content)) for _ in range(repetitions)]
        wholes = [_seconds(partial(_whole, content)) for _ in range(repetitions)]
        found[program.name] = {
            "nodes": nodes,
            "bytes": len(content),
            "ms_a_1000_nodes": round(1e6 * median(loads) / nodes, 3),
            "ms_a_1000_nodes_with_all_made": round(1e6 * median(wholes) / nodes, 3),
        }
    worst = max(entry["ms_a_1000_nodes"] for entry in found.values())
    return {**found, "goal_ms": 1e6 * GOAL_LOAD_S, "met": worst < 1e6 * GOAL_LOAD_S}


def pass_effects() -> dict[str, Any]:
    """What each pass changes in which program of the gallery, over the graph that those before it
    left: changes, and nodes before and behind it; only programs that it changes are named."""
    found: dict[str, Any] = {name: {"default": PASSES[name].default} for name in PASSES}
    for program in gallery():
        graph = compile_spec(program.spec, ()).graph
        for name in PASSES:
            begin = time.perf_counter()
            after, (report,) = run_passes(graph, (name,))
            seconds = time.perf_counter() - begin
            if report.changes:
                found[name][program.name] = {
                    "changes": len(report.changes),
                    "nodes": [_nodes(graph), _nodes(after)],
                    "seconds": round(seconds, 5),
                }
            if name in defaults():  # opt-in passes are looked at one by one
                graph = after
    return found


def _nodes(graph: Any) -> int:
    return sum(1 for _ in graph.walk())


def _whole(content: bytes) -> int:
    return _nodes(decode(content))


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
