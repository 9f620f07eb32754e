"""What a chat template writes behind an assistant's content."""

from __future__ import annotations

import re

from jinja2.exceptions import TemplateError

from sgc_ir.errors import ModelError
from sgc_runtime.executor.backend import Message
from sgc_runtime.tokenizer.chat import JinjaChatTemplate

_ANSWER = "sgcanswer"
_CONVERSATION: tuple[Message, ...] = (
    {"role": "user", "content": "sgcquestion"},
    {"role": "assistant", "content": _ANSWER},
    {"role": "user", "content": "sgcquestion"},
)


def sample_conversation(template: JinjaChatTemplate) -> str:
    """The template's text for a short conversation; "" without a template that takes one."""
    return _render(template, 2) + _render(template, 3)


def end_of_turn_tokens(template: JinjaChatTemplate, control: re.Pattern[str]) -> set[str]:
    """Control tokens that follow an assistant's content, blanks between them left aside.

    They are looked for where the answer ends the conversation and, as some templates close a
    turn only when the next one begins, where a question follows.
    """
    for num_messages in (2, 3):
        _, found, rest = _render(template, num_messages).partition(_ANSWER)
        token = control.match(rest.lstrip()) if found else None
        if token is not None:
            return {token[0]}
    return set()


def _render(template: JinjaChatTemplate, num_messages: int) -> str:
    try:
        return template.render(_CONVERSATION[:num_messages])
    except (TemplateError, ModelError, TypeError, ValueError, LookupError):
        return ""  # a template that refuses this conversation says so when it is used
