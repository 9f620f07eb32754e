"""The parts of `engine_cpu`: which program runs over which rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.common.data import Data
from benchmarks.common.items import Question
from benchmarks.common.sgc_engine import Job
from benchmarks.common.workloads import answer_letter, chat, choose_ending, tree_of_thought

ENDING_SHOTS = 10


@dataclass(frozen=True, slots=True)
class Part:
    """One workload.

    Attributes:
        what: in one sentence.
        make: its rows, at most `limit` of them when that is not None.
        repetitions: timed ones at most, unless the user says otherwise.
        warm_up: rows of the run that warms every engine up; all when None.
        shares: whether the goal follows from the tokens that sharing saves.
        goals: least speed ratio against a peer, by the beginning of its name.
    """

    what: str
    make: Callable[[Data, int | None], Job]
    repetitions: int = 3
    warm_up: int | None = None
    shares: bool = False
    goals: tuple[tuple[str, float], ...] = ()


def _mmlu(data: Data, limit: int | None) -> Job:
    (subject,) = data.subjects(1)
    examples, questions = data.mmlu(subject, _at_most(64, limit))
    head = f"Questions about {subject.replace('_', ' ')}.\n\n" + solved(examples)
    return Job(answer_letter, [{"examples": head, "question": q.ask()} for q in questions])


def _chats(data: Data, limit: int | None) -> Job:
    rows = data.chats(_at_most(32, limit))
    return Job(chat, [{"text": text, "length": _length(128, limit)} for text in rows])


def _alone(data: Data, limit: int | None) -> Job:
    (text,) = data.chats(1)
    return Job(chat, [{"text": text, "length": _length(128, limit)}])


def _tree(data: Data, limit: int | None) -> Job:
    return Job(tree_of_thought, [{"question": q} for q in data.gsm8k(_at_most(8, limit))])


def _endings(data: Data, limit: int | None) -> Job:
    rows = data.hellaswag(ENDING_SHOTS + _at_most(64, limit))
    shots = "".join(f"{r.context} {r.endings[r.label]}\n\n" for r in rows[:ENDING_SHOTS])
    return Job(
        choose_ending,
        [
            {"examples": shots, "context": r.context, "endings": [f" {e}" for e in r.endings]}
            for r in rows[ENDING_SHOTS:]
        ],
    )


def _unshared_prompts(data: Data, limit: int | None) -> Job:
    """Prompts as long as those of part a that have nothing in common."""
    number = _at_most(16, limit)
    (subject,) = data.subjects(1)
    _, questions = data.mmlu(subject, 6 * number)
    groups = [questions[i::number] for i in range(number)]
    rows = [
        {"examples": f"{i}. {solved(group[:-1])}", "question": group[-1].ask()}
        for i, group in enumerate(groups)
    ]
    return Job(answer_letter, rows)


def _unshared_decode(data: Data, limit: int | None) -> Job:
    rows = data.chats(_at_most(32, limit))
    return Job(chat, [{"text": text, "length": _length(32, limit)} for text in rows])


def solved(questions: list[Question]) -> str:
    """Questions with their answers."""
    return "".join(f"{q.ask()} {q.answer}\n\n" for q in questions)


def _at_most(number: int, limit: int | None) -> int:
    return number if limit is None else min(number, limit)


def _length(number: int, limit: int | None) -> int:
    """Generated tokens: a limited run is a short one."""
    return number if limit is None else min(number, 8 * limit)


_PEERS_A = (("llama.cpp", 3.0),)
_PEERS_B = (("transformers", 1.8), ("llama.cpp", 2.0))
_PEERS_C = (("transformers", 4.0), ("llama.cpp", 1.0))

PARTS = {
    "a": Part(
        "64 rows of 5-shot MMLU of one subject, one-letter answers", _mmlu, 3, 16, True, _PEERS_A
    ),
    "b": Part("32 chats x 128 new tokens, nothing shared", _chats, 3, goals=_PEERS_B),
    "c": Part("one chat, 128 new tokens", _alone, 5, goals=_PEERS_C),
    "d": Part("tree of thought over 8 problems", _tree, 3, 2, True),
    "e": Part("select over 4 endings of 64 HellaSwag rows, 10 shots", _endings, 2, 8, True),
}
CALIBRATION = {
    "prefill": Part("16 unshared prompts as long as those of part a", _unshared_prompts),
    "decode": Part("32 chats x 32 new tokens, nothing shared", _unshared_decode),
}
