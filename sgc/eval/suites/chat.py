"""Multi-turn chats of random text: four turns, short answers or long ones.

The rows are made from the seed and read no file: what is said does not matter here, only how much.
"""

from __future__ import annotations

import random
import string
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.suite import LoadOptions, Row, Suite

NUM_CHATS = 20
NUM_TURNS = 4
SEED = 42  # of the published script
LETTERS = string.ascii_letters + string.digits
TOKENS_OF_QUESTION = (256, 512)
TOKENS_OF_SHORT = (4, 8)
TOKENS_OF_LONG = (256, 512)
CHARS_PER_TOKEN = 1.24  # of such text, with the default model's tokenizer


@sgc.function
def chat(s: Any, questions: list[str], lengths: list[int]) -> Any:
    """The answers, of exactly `lengths` tokens each."""
    answers = []
    for turn in range(NUM_TURNS):
        s += questions[turn]
        s += sgc.gen(f"answer_{turn + 1}", max_tokens=lengths[turn], ignore_eos=True)
        answers.append(s[f"answer_{turn + 1}"])
    return answers


def make_chats(options: LoadOptions, answer: tuple[int, int]) -> list[Row]:
    """The first `limit` of the 20 chats of a seed; `answer`: fewest and most tokens of a reply."""
    source = random.Random(SEED + options.seed)
    rows = [_row(index, source, answer) for index in range(NUM_CHATS)]
    return rows[: options.limit]


def _row(index: int, source: random.Random, answer: tuple[int, int]) -> Row:
    questions, lengths = [], []
    for _ in range(NUM_TURNS):
        chars = round(source.randint(*TOKENS_OF_QUESTION) * CHARS_PER_TOKEN)
        questions.append("".join(source.choices(LETTERS, k=chars)))
        lengths.append(source.randint(*answer))
    return Row(str(index), {"questions": questions, "lengths": lengths})


def load_short(folder: Path, options: LoadOptions) -> list[Row]:
    """Chats with answers of 4 to 8 tokens."""
    return make_chats(options, TOKENS_OF_SHORT)


def load_long(folder: Path, options: LoadOptions) -> list[Row]:
    """Chats with answers of 256 to 512 tokens."""
    return make_chats(options, TOKENS_OF_LONG)


def _suite(name: str, load: Any, answers: str) -> Suite:
    return Suite(
        name=name,
        title="Multi-turn chat",
        program="chat",
        folder="chat",
        load=load,
        score=None,
        metric="",
        files=(),
        defaults={"temperature": 0.0, "parallel": 64},
        notes="No accuracy: 20 chats of random letters and digits in four turns, answers of "
        f"{answers} tokens whatever they say. Needs no data. The length of a question is counted "
        "in characters, 1.24 for each of its 256 to 512 tokens of the default model; other "
        "tokenizers make another number of it. The published seed is 42; --seed is added to it.",
    )


SUITES = (
    _suite("chat-short", load_short, "4 to 8"),
    _suite("chat-long", load_long, "256 to 512"),
)
