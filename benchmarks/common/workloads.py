"""The programs of the benchmarks; every gen has a fixed length, so that token counts are given."""

from __future__ import annotations

from typing import Any

import sgc

WIDTH = 2  # branches of each fork of the tree
HEAT = 0.7  # these branches must differ
LENGTHS = {"plan": 48, "solution": 64, "check": 32, "answer": 6}  # tokens of the tree's gens


@sgc.function
def answer_letter(s: Any, examples: str, question: str) -> Any:
    """A multiple-choice question behind solved ones; one token is the answer."""
    s += examples
    s += question
    s += sgc.gen("answer", max_tokens=1)
    return s["answer"]


@sgc.function
def chat(s: Any, text: str, length: int) -> Any:
    """One turn of a conversation."""
    s += text + "\nAnswer:"
    s += sgc.gen("reply", max_tokens=length)
    return s["reply"]


@sgc.function
def say(s: Any, text: str, length: int, heat: float) -> Any:
    """Some tokens behind a text."""
    s += text
    s += sgc.gen("reply", max_tokens=length, temperature=heat)
    return s["reply"]


@sgc.function
def choose_ending(s: Any, examples: str, context: str, endings: list[str]) -> Any:
    """The likeliest of several endings."""
    s += examples
    s += context
    s += sgc.select("ending", endings)
    return s["ending"]


@sgc.function
def tree_of_thought(s: Any, question: str) -> Any:
    """Two plans, each carried out twice, each result checked; the majority wins."""
    s += sgc.system("You solve maths problems step by step.")
    s += sgc.user(f"{question}\nMake a short plan of two steps. Do not calculate yet.")
    answers = []
    plans = s.fork(WIDTH)
    for plan in plans:
        plan += sgc.assistant(sgc.gen("plan", max_tokens=LENGTHS["plan"], temperature=HEAT))
        plan += sgc.user("Carry out the plan and calculate.")
        leaves = plan.fork(WIDTH)
        for leaf in leaves:
            leaf += sgc.assistant(
                sgc.gen("solution", max_tokens=LENGTHS["solution"], temperature=HEAT)
            )
            leaf += sgc.user("Check each step of your solution. Then give the final number alone.")
            leaf += sgc.assistant(
                sgc.gen("check", max_tokens=LENGTHS["check"])
                + "\nThe final number is"
                + sgc.gen("answer", max_tokens=LENGTHS["answer"])
            )
            answers.append(leaf["answer"].strip(" *$:"))
    return {"answer": sgc.vote(answers), "answers": answers}


@sgc.function
def from_passages(s: Any, passages: list[str], question: str) -> Any:
    """An answer from numbered passages."""
    s += sgc.system("Answer from the given passages only, with one short sentence.")
    s += sgc.user("Passages:\n" + "\n".join(passages) + "\n\nQuestion: " + question)
    s += sgc.assistant(sgc.gen("answer", max_tokens=8))
    return s["answer"]


@sgc.function
def agent(s: Any, prompt: str, length: int) -> Any:
    """A short call."""
    s += prompt
    s += sgc.gen("reply", max_tokens=length)
    return s["reply"]
