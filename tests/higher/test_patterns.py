"""`sgc.map`, `reduce`, `best_of`, `retry_until`: what they give, and compiled as interpreted."""

from __future__ import annotations

from typing import Any

import pytest
from support.tracer import assert_equal, reply

import sgc
from sgc.testing import ScriptedBackend


@sgc.function
def describe(s, thing: str, tone: str = "plain"):
    s += f"Describe {thing} in a {tone} tone:" + sgc.gen("text", max_tokens=8)
    return s["text"]


@sgc.function
def combine(s, so_far: str, item: str):
    s += f"{so_far} and {item} are:" + sgc.gen("both", max_tokens=8)
    return s["both"]


@sgc.function
def propose(s, question: str):
    s += question + sgc.gen("answer", max_tokens=8)
    return s["answer"]


@sgc.function
def grade(s, answer: str):
    s += f"Grade{answer}:" + sgc.select("grade", ["1", "2", "3", "4"])
    return int(s["grade"])


@sgc.tool(effect="pure")
def length(text: str) -> int:
    return len(text)


@sgc.function
def described(s, things: list[str], tone: str):
    found = sgc.map(describe, things, tone)
    s += " ".join(found) + sgc.gen("last", max_tokens=4)
    return found


@sgc.function
def described_constants(s):
    return sgc.map(describe, ("a lion", "a lamb"), tone="grave")


@sgc.function
def folded(s, things: list[str]):
    return sgc.reduce(combine, things)


@sgc.function
def folded_from(s, first: str):
    return sgc.reduce(combine, [first, "b", "c"])


@sgc.function
def best_by_program(s, n: int, question: str):
    return sgc.best_of(n, propose, grade, question)


@sgc.function
def best_by_length(s, question: str):
    s += "Best:" + sgc.best_of(4, propose, lambda answer: len(answer), question=question)
    s += sgc.gen("why", max_tokens=4)


@sgc.function
def best_by_tool(s, question: str):
    return sgc.best_of(3, propose, length, question)


@sgc.function
def retried(s, tries: int, question: str, word: str):
    answer = sgc.retry_until(propose, lambda a: word in a, tries, question)
    s += "Accepted:" + answer + sgc.gen("next", max_tokens=4)
    return answer


@sgc.function
def retried_by_program(s, question: str):
    return sgc.retry_until(propose, judged, max=3, question=question)


@sgc.function
def judged(s, answer: str):
    s += f"Is{answer} right?" + sgc.select("verdict", ["yes", "no"])
    return s["verdict"] == "yes"


def two(item):
    return [describe(item).value, "end"]


@sgc.function
def in_arms(s, things: list[str]):
    values = list(things)
    if len(values) > 1:
        values = sgc.map(describe, ["x", "y"])
    elif len(values) == 1:
        values = two("z")
    values = [value + "!" for value in values]
    s += " ".join(values) + sgc.gen("last", max_tokens=4)
    return values


ROWS: list[tuple[sgc.Program, list[dict[str, Any]]]] = [
    (described, [{"things": t, "tone": "dry"} for t in ([], ["a"], ["a", "b", "c"])]),
    (described_constants, [{}]),
    (folded, [{"things": t} for t in (["a"], ["a", "b", "c", "d"], [])]),
    (folded_from, [{"first": "a"}]),
    (best_by_program, [{"n": n, "question": "Why?"} for n in (1, 4, 0)]),
    (best_by_length, [{"question": q} for q in ("Why?", "How?")]),
    (best_by_tool, [{"question": "Why?"}]),
    (
        retried,
        [
            {"tries": n, "question": q, "word": w}
            for n in (0, 1, 4)
            for q in ("Why?", "How?")
            for w in (" ", "nowhere")
        ],
    ),
    (in_arms, [{"things": t} for t in ([], ["a"], ["a", "b"])]),
    (retried_by_program, [{"question": f"{i}?"} for i in range(6)]),
]


@pytest.mark.parametrize(("program", "rows"), ROWS, ids=[p.name for p, _ in ROWS])
def test_compiled_as_interpreted(program: sgc.Program, rows: list[dict[str, Any]]) -> None:
    assert_equal(program, *rows)


@pytest.mark.parametrize(
    ("program", "row"),
    [
        (described, {"things": ["a", "FAIL", "c"], "tone": "dry"}),
        (folded, {"things": ["a", "FAIL", "c"]}),
        (best_by_program, {"n": 2, "question": "FAIL"}),
        (retried, {"tries": 2, "question": "FAIL", "word": "x"}),
    ],
)
def test_a_run_that_fails_fails_the_row(program: sgc.Program, row: dict[str, Any]) -> None:
    assert_equal(program, row)
    with pytest.raises(sgc.GenerationError, match="told to fail"):
        program.run(**row, backend=backend(fail=lambda p: _told(p)))


def _told(prompt: str) -> Exception | None:
    return RuntimeError("told to fail") if "FAIL" in prompt else None


def backend(**kwargs: Any) -> ScriptedBackend:
    return ScriptedBackend(kwargs.pop("reply", reply), **kwargs)


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_what_they_give(mode: str) -> None:
    echo = backend(reply=lambda p, _: p.removeprefix("Describe ")[:1])
    assert described.run(["x", "y"], "dry", backend=echo, mode=mode).value == ["x", "y"]
    joined = backend(reply=lambda p, _: "(" + p.removesuffix(" are:").replace(" and ", "+") + ")")
    assert folded.run(["a", "b", "c"], backend=joined, mode=mode).value == "((a+b)+c)"
    assert folded.run(["a"], backend=joined, mode=mode).value == "a"


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_the_best_is_the_first_of_equal_ones(mode: str) -> None:
    replies = iter([" b", " a", " a", " c"])
    by_turn = backend(
        reply=lambda p, _: next(replies),
        select=lambda p, choices: [float(c == ("3" if " a" in p else "1")) for c in choices],
    )
    state = best_by_program.run(4, "Q", backend=by_turn, mode=mode)
    assert state.value == " a"


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_it_retries_no_longer_than_it_must(mode: str) -> None:
    replies = iter([" no", " no", " yes", " yes", " no"])
    counted = backend(reply=lambda p, _: next(replies) if p == "Q" else " on")
    state = retried.run(4, "Q", "yes", backend=counted, mode=mode)
    assert state.value == " yes"
    assert [c["node"] for c in counted.calls] == ["c0/g0", "c1/g0", "c2/g0", "g0"]


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_runs_have_paths_and_so_seeds_of_their_own(mode: str) -> None:
    seen = backend()
    best_by_length.run("Q", backend=seen, mode=mode)
    assert sorted(c["node"] for c in seen.calls) == ["c0/g0", "c1/g0", "c2/g0", "c3/g0", "g0"]


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_errors_name_the_line_that_called(mode: str) -> None:
    line = retried.spec.first_line + 2
    with pytest.raises(ValueError, match="no run of propose passed") as caught:
        retried.run(2, "Q", "nowhere", backend=backend(), mode=mode)
    assert str(getattr(caught.value, "source", "")).endswith(f"test_patterns.py:{line}")


def test_nodes_name_the_line_that_called() -> None:
    graph = retried.compile().graph
    nodes = [n for n in graph.graphs[graph.main].walk() if n.source.file]
    assert nodes
    assert {n.source.file.rpartition("/")[2] for n in nodes} == {"test_patterns.py"}


@sgc.function
def no_program(s, things: list[str]):
    return sgc.map(len, things)


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(sgc.CompileError, match=r"test_patterns.py:\d+: .*no program"):
        no_program.compile()
    with pytest.raises(sgc.CompileError, match="is no program; give one"):
        no_program.run(["a"], mode="interpreted")
