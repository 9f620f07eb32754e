"""A chat template given as Jinja source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sgc_runtime.executor.backend import Message

_CONTROL = re.compile(r"<\|[^|<>{}\s]+\|>|</?s>|<[a-z]+_of_[a-z]+>|\[/?[A-Z_]+\]")


class JinjaTemplate:
    """Renders messages by Jinja source, in the dialect of Hugging Face's chat templates.

    Args:
        source: the template; it sees `messages`, `add_generation_prompt`, `bos_token`,
            `eos_token`, `raise_exception` and `strftime_now`.
        bos_token, eos_token: texts of those tokens.
        control_tokens: texts of the control tokens; without them, what looks like one in the
            source (`<|...|>`, `<s>`, `[INST]`) and the two tokens above.
    """

    def __init__(
        self,
        source: str,
        bos_token: str = "",
        eos_token: str = "",
        control_tokens: Sequence[str] | None = None,
    ) -> None:
        env = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
        )
        env.globals["raise_exception"] = _raise_exception
        env.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self._template = env.from_string(source)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        found = control_tokens
        if found is None:
            found = [*_CONTROL.findall(source), bos_token, eos_token]
        self.control_tokens: Sequence[str] = tuple(dict.fromkeys(t for t in found if t))

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The template's text. Raises what the template raises (`jinja2.TemplateError`)."""
        variables: dict[str, Any] = {
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            **self._tokens,
        }
        return str(self._template.render(**variables))


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
