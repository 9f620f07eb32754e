"""A small text set of our own, for runs without the data folder: school arithmetic and shops."""

from __future__ import annotations

from benchmarks.common.items import AgentCall, Ending, Passage, Question

_NAMES = ("Ada", "Boris", "Chen", "Dalia", "Emil", "Fatou", "Goran", "Hana")
_THINGS = ("apples", "pencils", "stamps", "bricks", "candles", "marbles", "tickets", "shells")
_DOINGS = ("waters the garden", "repairs a bicycle", "bakes bread", "reads to the children")
_SHOPS = ("market", "library", "bakery", "workshop", "harbour", "school", "theatre", "mill")
LETTERS = "ABCD"


def questions(subject: int, number: int) -> list[Question]:
    """Multiple choice about sums; other subjects have other numbers."""
    return [_question(subject, i) for i in range(number)]


def _question(subject: int, i: int) -> Question:
    a, b = 7 + 3 * i + subject, 5 + (i * i) % 23
    right = (i + subject) % 4
    options = tuple(str(a + b + step - right) for step in range(4))
    text = (
        f"{_name(i)} has {a} {_thing(i + subject)} and gets {b} more from {_name(i + 3)}. "
        f"How many {_thing(i + subject)} does {_name(i)} have now?"
    )
    return Question(text, options, LETTERS[right])


def problems(number: int) -> list[str]:
    """Word problems of two steps."""
    return [
        f"{_name(i)} buys {3 + i % 5} boxes with {4 + i % 7} {_thing(i)} each and gives "
        f"{2 + i % 3} {_thing(i)} to {_name(i + 1)}. How many {_thing(i)} are left?"
        for i in range(number)
    ]


def chats(number: int) -> list[str]:
    """First turns of conversations; no two begin alike."""
    return [
        f"{_name(i)} number {i} asks: my {_SHOPS[i % 8]} sells {_thing(i)}. "
        f"Write a short story about somebody who {_DOINGS[i % 4]} beside the {_SHOPS[(i + 3) % 8]}."
        for i in range(number)
    ]


def endings(number: int) -> list[Ending]:
    """Sentences with four endings, of which one fits."""
    return [
        Ending(
            f"{_name(i)} goes to the {_SHOPS[i % 8]} on day {i} and {_DOINGS[i % 4]}. Then",
            tuple(f"{_name(i)} {_DOINGS[(i + k) % 4]} with {_thing(i + k)}." for k in range(4)),
        )
        for i in range(number)
    ]


def agent_calls(number: int) -> list[AgentCall]:
    """Calls of two kinds."""
    return [
        AgentCall(
            f"Here is what is known of {_name(i)}, who lives near the {_SHOPS[i % 8]} and likes "
            f"{_thing(i)}. On a scale of 1 to 10, how much does this matter: {_name(i)} "
            f"{_DOINGS[(i // 8) % 4]} at {i % 24} o'clock? Rating:",
            3,
        )
        for i in range(number)
    ]


def passages(number: int) -> tuple[list[Passage], list[tuple[str, list[int]]]]:
    """Texts, and questions with the numbers of the texts that answer them."""
    texts = [
        Passage(f"{_SHOPS[i % 8]} {i}", " ".join(problems(8)[j] for j in (i % 8, (i + 3) % 8)))
        for i in range(max(number // 4, 3))
    ]
    asked = [
        (f"How many {_thing(i)} are left?", [(i + k) % len(texts) for k in range(3)])
        for i in range(number)
    ]
    return texts, asked


def _name(i: int) -> str:
    return _NAMES[i % 8]


def _thing(i: int) -> str:
    return _THINGS[i % 8]
