"""What is known of the calls that may still follow, and that the backend is told."""

from __future__ import annotations

from typing import Any

import pytest
from support.executor import GraphBuilder, program_of, run_graph

from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.params import SamplingParams
from sgc_runtime.backends.scripted import ScriptedBackend
from sgc_runtime.executor.backend import Call, RunDefaults
from sgc_runtime.executor.token_bounds import call_bound, node_bound

DEFAULTS = SamplingParams(max_tokens=100)


def branching() -> Program:
    b = GraphBuilder()
    b.text("start")
    b.gen("a", max_tokens=7)
    _, branches = b.static_fork(2)
    for i, branch in enumerate(branches):
        b.gen(f"b{i}", branch, max_tokens=3, n=2)
    b.gen("c")
    b.select("d", choices=("x", "y"))
    return program_of(b.done())


TOTAL = 7 + 2 * 6 + 100 + 1


def test_nodes_of_a_graph_without_loops_have_exact_bounds() -> None:
    program = branching()
    bounds = [node_bound(program, node, DEFAULTS) for node in program.graph.nodes]
    assert sum(bound or 0 for bound in bounds) == TOTAL
    assert None not in bounds


def test_what_the_run_decides_has_no_bound() -> None:
    b = GraphBuilder(limit=5)
    limit = b.arg("limit")
    b.text("start")
    b.gen("a", max_tokens=limit)
    program = program_of(b.done())
    (gen,) = (node for node in program.graph.nodes if node.op is Op.GEN)
    assert node_bound(program, gen, DEFAULTS) is None


@pytest.mark.parametrize(
    ("params", "bound"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "n": 3}, 15),
        ({"max_tokens": 0}, 1),
        ({"choices": ("a", "b")}, 1),
    ],
)
def test_bound_of_one_call(params: dict[str, Any], bound: int) -> None:
    assert call_bound(SamplingParams(**params)) == bound


def test_each_call_says_what_may_still_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Call] = []
    backend = ScriptedBackend(lambda prompt, params: "word")
    backend.takes_hints = True
    stream = type(backend.open())

    def spy(name: str) -> None:
        real = getattr(stream, name)

        async def call(self: Any, call: Call) -> Any:
            seen.append(call)
            return await real(self, call)

        monkeypatch.setattr(stream, name, call)

    spy("generate")
    spy("select")
    state = run_graph(branching(), backend, defaults=RunDefaults(DEFAULTS))
    assert state.error() is None
    # In the order of their issue each one's own bound has gone.
    bounds = [c.more_tokens for c in seen]
    left = TOTAL
    for call, told in zip(seen, bounds, strict=True):
        left -= call_bound(call.params)
        assert told == left
    assert left == 0
