"""Reads the data folder (public evaluation sets), or gives the built-in text set."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.common import built_in
from benchmarks.common.agent_prompts import agent_call
from benchmarks.common.items import AgentCall, Ending, Passage, Question

SHOTS = 5
_SUBJECTS = (
    "anatomy",
    "astronomy",
    "college_biology",
    "computer_security",
    "econometrics",
    "global_facts",
    "high_school_geography",
    "machine_learning",
    "marketing",
    "nutrition",
)


class Data:
    """Rows of every workload.

    Args:
        folder: holds mmlu/, gsm8k/, hellaswag/, mt_bench/, generative_agents/ and rag/; None for
            the built-in set.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    @property
    def source(self) -> str:
        """What the rows are, for the result file."""
        if self._folder is None:
            return "built-in text set of this benchmark; no public evaluation set"
        return "public evaluation sets (MMLU, GSM8K, HellaSwag, MT-bench, agent calls, SQuAD)"

    def subjects(self, number: int) -> list[str]:
        """Names of MMLU subjects that are there."""
        if self._folder is None:
            return [f"subject {i}" for i in range(number)]
        there = sorted(p.name[: -len("_dev.csv")] for p in self._in("mmlu/dev").glob("*_dev.csv"))
        preferred = [s for s in _SUBJECTS if s in there]
        return (preferred + [s for s in there if s not in preferred])[:number]

    def mmlu(self, subject: str, number: int) -> tuple[list[Question], list[Question]]:
        """The solved examples of a subject, and its first `number` questions."""
        if self._folder is None:
            own = int(subject.split()[-1])
            rows = built_in.questions(own, SHOTS + number)
            return rows[:SHOTS], rows[SHOTS:]
        dev = self._csv(f"mmlu/dev/{subject}_dev.csv")
        return list(islice(dev, SHOTS)), list(
            islice(self._csv(f"mmlu/test/{subject}_test.csv"), number)
        )

    def gsm8k(self, number: int) -> list[str]:
        if self._folder is None:
            return built_in.problems(number)
        return [row["question"] for row in islice(self._jsonl("gsm8k/test.jsonl"), number)]

    def chats(self, number: int) -> list[str]:
        """First turns; no two begin alike."""
        if self._folder is None:
            return built_in.chats(number)
        rows = islice(self._jsonl("mt_bench/question.jsonl"), number)
        return [f"{row['category']} {row['question_id']}: {row['turns'][0]}" for row in rows]

    def hellaswag(self, number: int) -> list[Ending]:
        if self._folder is None:
            return built_in.endings(number)
        rows = islice(self._jsonl("hellaswag/val_2100.jsonl"), number)
        return [Ending(r["ctx"], tuple(r["endings"]), int(r["label"])) for r in rows]

    def agent_calls(self, number: int) -> list[AgentCall]:
        if self._folder is None:
            return built_in.agent_calls(number)
        rows = islice(self._jsonl("generative_agents/agent_calls.jsonl"), number)
        return [agent_call(*next(iter(row.items()))) for row in rows]

    def rag(self, number: int) -> tuple[list[Passage], list[tuple[str, list[int]]]]:
        """Passages, and questions with the indices of those to answer from: the right one and two
        of the same article, in the order of the collection."""
        if self._folder is None:
            return built_in.passages(number)
        found = [Passage(r["title"], r["text"]) for r in self._jsonl("rag/passages.jsonl")]
        by_title: dict[str, list[int]] = {}
        for i, passage in enumerate(found):
            by_title.setdefault(passage.title, []).append(i)
        asked = []
        for row in islice(self._jsonl("rag/questions.jsonl"), number):
            own = int(row["passage_id"])
            others = [i for i in by_title[found[own].title] if i != own][:2]
            asked.append((row["question"], sorted([own, *others])))
        return found, asked

    def _in(self, path: str) -> Path:
        assert self._folder is not None
        return self._folder / path

    def _csv(self, path: str) -> Iterator[Question]:
        with self._in(path).open(newline="", encoding="utf-8") as file:
            for text, a, b, c, d, answer in csv.reader(file):
                yield Question(text, (a, b, c, d), answer)

    def _jsonl(self, path: str) -> Iterator[Any]:
        with self._in(path).open(encoding="utf-8") as file:
            yield from map(json.loads, file)
