"""Renders a conversation that grows: only its new turns, where the template allows it.

A chat template is arbitrary code, so most of them see the whole conversation at each call. One
that says in its attribute `splice` that each turn's text depends on little more than the turn
itself (see `Splice`) is shown the first turns and the new ones, without those in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sgc_runtime.executor.backend import ChatTemplate
from sgc_runtime.executor.escape import Escaper


class Splice(NamedTuple):
    """A template's promise: a multiple of `period` neighbouring turns, none of them among the
    first `head`, can be left out, and the text of all others stays what it was."""

    head: int  # at least 1
    period: int  # at least 1


class Turns(Protocol):
    """A role turn, as far as rendering knows it."""

    def escaped_message(self, escaper: Escaper) -> dict[str, str]: ...


class Rendering:
    """Remembers the text of the closed turns of one conversation, which never change."""

    __slots__ = ("_escaper", "_heads", "_num_turns", "_template", "_text")

    def __init__(self) -> None:
        self._template: ChatTemplate | None = None
        self._escaper: Escaper | None = None
        self._num_turns = 0
        self._text = ""  # of the first `_num_turns` turns
        self._heads: dict[int, str] = {}  # texts of so many first turns

    def copy(self) -> Rendering:
        """An independent one that knows the same."""
        other = Rendering()
        other._template, other._escaper = self._template, self._escaper
        other._num_turns, other._text = self._num_turns, self._text
        other._heads = dict(self._heads)
        return other

    def closed(self, template: ChatTemplate, escaper: Escaper, turns: Sequence[Turns]) -> str:
        """Text of `turns`, which are closed, all of them or the first ones of the conversation.

        What the template raises passes through, here and in `opened`.
        """
        if self._knows(template, escaper) and len(turns) == self._num_turns:
            return self._text
        text = self._render(template, escaper, turns, None, False)
        if len(turns) > self._num_turns or not self._knows(template, escaper):
            if not self._knows(template, escaper):
                self._heads = {}
            self._template, self._escaper = template, escaper
            self._num_turns, self._text = len(turns), text
        return text

    def opened(
        self,
        template: ChatTemplate,
        escaper: Escaper,
        turns: Sequence[Turns],
        last: dict[str, str] | None,
    ) -> str:
        """Text of the closed `turns` and one more message, or the prompt for one."""
        return self._render(template, escaper, turns, last, last is None)

    def _knows(self, template: ChatTemplate, escaper: Escaper) -> bool:
        return self._template is template and self._escaper is escaper

    def _render(
        self,
        template: ChatTemplate,
        escaper: Escaper,
        turns: Sequence[Turns],
        last: dict[str, str] | None,
        add_generation_prompt: bool,
    ) -> str:
        known = self._num_turns if self._knows(template, escaper) else 0
        keep = _kept(template, known)
        if keep >= known or known > len(turns):
            messages = [turn.escaped_message(escaper) for turn in turns]
            return template.render(messages + _listed(last), add_generation_prompt)
        first = [turn.escaped_message(escaper) for turn in turns[:keep]]
        new = [turn.escaped_message(escaper) for turn in turns[known:]]
        head = self._heads.get(keep)
        if head is None:
            head = self._heads[keep] = template.render(first)
        text = template.render([*first, *new, *_listed(last)], add_generation_prompt)
        assert text.startswith(head), "a chat template does not keep what its splice promises"
        return self._text + text[len(head) :]


def _kept(template: ChatTemplate, known: int) -> int:
    """How many of the first `known` turns the template must see."""
    splice: Splice | None = getattr(template, "splice", None)
    if splice is None:
        return known
    return splice.head + (known - splice.head) % splice.period


def _listed(last: dict[str, str] | None) -> list[dict[str, str]]:
    return [] if last is None else [last]
