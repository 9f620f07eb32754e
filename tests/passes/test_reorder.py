"""Constant motion on graphs: what prompts become, what is never crossed, and the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.executor import GraphBuilder, echo, program_of, prompts, run_graph
from support.templates import graph_of, slots, templates

import sgc
from sgc.compile import compile_spec
from sgc.testing import ScriptedBackend
from sgc_ir.codec import decode, encode
from sgc_ir.errors import ArtifactError
from sgc_ir.graph import Program
from sgc_ir.ops import Op
from sgc_ir.passes.manager import defaults, run_passes
from sgc_ir.passes.reorder import restore
from sgc_ir.text import parse_program, print_program

RULES = "Grade strictly from A to D. Reply with a single letter, and leave out any explanation."


def reordered(program: Program) -> Program:
    return run_passes(program, ["reorder"], check=True)[0]


def prompts_of(program: Program, **args: Any) -> dict[str, str]:
    backend = ScriptedBackend(echo)
    run_graph(program, backend, args)
    return prompts(backend)


@pytest.mark.parametrize("template", templates("movable"), ids=lambda t: t["name"])
def test_the_prompt_is_that_of_the_template_so_ordered(template: dict[str, Any]) -> None:
    before = graph_of(template)
    after = reordered(before)
    if after is before:
        return
    args = {name: f"<{i} {name}>" for i, name in enumerate(slots(template["prompt"]))}
    assert prompts_of(after, **args) == prompts_of(graph_of(template, template["after"]), **args)
    assert restore(after) == before
    assert restore(decode(encode(after))) == before
    assert parse_program(print_program(after)) == after
    assert reordered(after) is after


@sgc.function
def judge(s, essay: str, name: str):
    s += sgc.system("You grade essays.")
    text = f"Essay of {name}:\n{essay}\n\n{RULES}"
    s += sgc.user(text)
    s += sgc.assistant(sgc.gen("grade", max_tokens=2))
    return s["grade"]


def test_texts_inside_of_expressions_are_edited() -> None:
    plain = compile_spec(judge.spec)
    moved = compile_spec(judge.spec, [*defaults(), "reorder"])
    backend = ScriptedBackend(echo)
    moved.run("E", "N", backend=backend)
    assert backend.calls[0]["prompt"] == (
        "<|im_start|>system\nYou grade essays.<|im_end|>\n"
        f"<|im_start|>user\n{RULES}\n\nEssay of N:\nE<|im_end|>\n<|im_start|>assistant\n"
    )
    (move,) = moved.graph.notes["reorder"]["moves"]
    assert move["before"] == f"Essay of {{name}}:\n{{essay}}\n\n{RULES}"
    assert move["moved"] == [RULES]
    assert move["gain"] == len(RULES.split())
    assert restore(moved.graph) == plain.graph


def test_a_text_that_is_read_elsewhere_too_is_left_alone() -> None:
    b = GraphBuilder(x="")
    text = b.expr("concat", "Essay:\n", b.arg("x"), f"\n\n{RULES}\n\nGrade:")
    b.put(text)
    b.gen("g")
    program = program_of(b.done(text))
    assert reordered(program) is program


def chat(*parts: Any) -> Program:
    """A user turn of texts and slots (None), each in a stream node of its own."""
    b = GraphBuilder(x="?")
    b.add(Op.ROLE_BEGIN, role="user")
    for part in parts:
        if part is None:
            b.arg("x", append=True)
        elif part == "GEN":
            b.gen("inner")
        elif part == "FORK":
            b.static_fork(1)
        elif part == "TURN":
            b.add(Op.ROLE_END, role="user")
            b.add(Op.ROLE_BEGIN, role="user")
        else:
            b.text(part)
    b.add(Op.ROLE_END, role="user")
    b.gen("g")
    return program_of(b.done())


@pytest.mark.parametrize("border", ["GEN", "FORK", "TURN"])
def test_nothing_crosses_a_border(border: str) -> None:
    assert reordered(chat("Essay:\n", None, f"\n\n{RULES}")).notes
    program = chat("Essay:\n", None, "\n\n", border, RULES)
    assert reordered(program) is program


def test_a_turn_behind_one_that_differs_is_left_alone() -> None:
    """Nothing in it can be shared, so nothing is gained."""
    program = chat("Name: ", None, "TURN", "Essay:\n", None, f"\n\n{RULES}")
    assert reordered(program) is program


def test_a_slot_at_the_very_start_gets_the_text_in_front() -> None:
    program = reordered(chat(None, f"\n\n{RULES}"))
    prompt = prompts_of(program, x="E")["g0"]
    assert prompt.startswith(f"<|im_start|>user\n{RULES}\n\nE<|im_end|>")


def test_a_block_that_stays_holds_back_those_behind_it() -> None:
    program = chat("Essay:\n", None, "\n\nGrade this essay.\n\n", RULES)
    found, (report,) = run_passes(program, ["reorder"])
    assert found is program
    assert [r.text for r in report.remarks] == [
        "keeps 'Grade this essay.': 'this' points at other text"
    ]


def test_branches_of_a_loop_share_what_their_passes_append() -> None:
    @sgc.function
    def grade_all(s, essays: list[str]):
        forks = s.fork_each(essays)
        for f in forks:
            f += sgc.user(f"Essay:\n{f.item}\n\n{RULES}")
            f += sgc.assistant(sgc.gen("grade", max_tokens=1))
        return [f["grade"] for f in forks]

    program = compile_spec(grade_all.spec, ["reorder"])
    backend = ScriptedBackend(echo)
    program.run(["one", "two"], backend=backend)
    for call, essay in zip(backend.calls, ["one", "two"]):
        assert f"user\n{RULES}\n\nEssay:\n{essay}<|im_end|>" in call["prompt"]


def test_a_broken_record_is_no_way_back() -> None:
    program = reordered(chat("Essay:\n", None, f"\n\n{RULES}"))
    record = {**program.notes["reorder"], "original": "graph nothing"}
    with pytest.raises(ArtifactError, match="record of its original order is broken"):
        restore(replace(program, notes={"reorder": record}))
