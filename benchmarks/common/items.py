"""What the data files hold, as the workloads use it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """Multiple choice with four options; `answer` is A, B, C or D."""

    text: str
    options: tuple[str, ...]
    answer: str

    def ask(self) -> str:
        """The question as it stands in a prompt, up to `Answer:`."""
        lines = (f"{letter}. {option}" for letter, option in zip("ABCD", self.options, strict=True))
        return "\n".join((self.text, *lines, "Answer:"))


@dataclass(frozen=True, slots=True)
class Ending:
    """A context and four ways to go on; `label` is the index of the true one."""

    context: str
    endings: tuple[str, ...]
    label: int = 0


@dataclass(frozen=True, slots=True)
class AgentCall:
    """Prompt of one call of a town of agents, and its token limit."""

    prompt: str
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph to answer from."""

    title: str
    text: str
