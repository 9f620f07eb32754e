"""Skeleton of thought (arXiv 2307.15337): five short tips in sequence, each expanded at once.

An expansion is a program of its own that starts as soon as its tip is there, while later tips are
still being written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import Record, make_rows, read_jsonl, sample_rows
from sgc.eval.suite import LoadOptions, Row, Suite

NUM_TIPS = 5
EXAMPLES = """Please explain a tip in one detailed paragraph.

USER: A tip about sleeping well: go to bed at the same hour.
ASSISTANT: Your body follows a clock of its own, and that clock likes habits. When you go to bed \
at the same hour on every day of the week, it learns when to make you tired. After two weeks most \
people fall asleep faster and wake up without an alarm.

USER: A tip about learning a language: read texts that you love.
ASSISTANT: What we enjoy we do more often, and often is what counts in learning. Choose comics, \
recipes or sports news instead of a textbook, and look up only the words that you meet again. The \
words then come with a story attached, which makes them easy to remember.

USER: A tip about growing tomatoes: water the soil, not the leaves.
ASSISTANT: Wet leaves invite blight, the disease that spoils most tomatoes. Pour the water slowly \
at the foot of the plant in the morning, so that it sinks in before the sun is high. A layer of \
straw keeps the soil moist and earth from splashing up.

"""


@sgc.function
def expand_tip(s: Any, topic: str, tip: str) -> Any:
    """One paragraph about a tip."""
    s += EXAMPLES + f"USER: A tip about {topic}: {tip.strip()}.\nASSISTANT:"
    s += sgc.gen("paragraph", max_tokens=128, stop="\n\n")
    return s["paragraph"].strip()


@sgc.function
def skeleton_of_thought(s: Any, topic: str) -> Any:
    """The tips and their paragraphs."""
    s += "Please act as a helpful assistant who gives useful tips on a topic.\n"
    s += f"USER: Give some tips about {topic}.\n"
    s += f"ASSISTANT: Here are {NUM_TIPS} short tips, each below eight words:\n"
    paragraphs = []
    for i in range(1, NUM_TIPS + 1):
        s += f"{i}." + sgc.gen(f"tip_{i}", max_tokens=24, stop=[".", "\n"]) + "\n"
        paragraphs.append(expand_tip(topic, s[f"tip_{i}"]))
    for i, paragraph in enumerate(paragraphs):
        s += f"Tip {i + 1}: {paragraph.value}\n"
    return {
        "tips": [s[f"tip_{i}"].strip() for i in range(1, NUM_TIPS + 1)],
        "paragraphs": [paragraph.value for paragraph in paragraphs],
    }


def load(folder: Path, options: LoadOptions) -> list[Row]:
    """A row for each line `{"topic": ...}`."""
    records = read_jsonl(folder / "topic.jsonl", fields=("topic",))
    return sample_rows(make_rows(records, _row), options.limit, options.seed)


def _row(index: int, record: Record) -> Row:
    if not isinstance(record.data["topic"], str):
        raise ValueError("topic is no text")
    return Row(str(index), {"topic": record.data["topic"]})


SUITE = Suite(
    name="skeleton-of-thought",
    title="Skeleton of thought",
    program="skeleton_of_thought",
    folder="tip_suggestion",
    load=load,
    score=None,
    metric="",
    files=("tip_suggestion/topic.jsonl",),
    defaults={"temperature": 0.0, "parallel": 64},
    notes="No accuracy. Five tips for every topic, as published: the number in the file is not "
    "used.",
)
