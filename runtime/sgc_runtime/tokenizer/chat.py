"""A model's own chat template, rendered as transformers' `apply_chat_template` renders it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from sgc_ir.errors import ModelError
from sgc_runtime.executor.backend import Message
from sgc_runtime.executor.rendering import Splice
from sgc_runtime.tokenizer.locality import splice_of


class JinjaChatTemplate:
    """Implements the executor's `ChatTemplate` over a Jinja template.

    Args:
        template: the Jinja source, or None for a model that has no chat template.
        variables: what the template sees beside the messages (`bos_token`, `eos_token` ...).
        control_tokens: texts of the tokenizer's control tokens.
    """

    def __init__(
        self,
        template: str | None,
        variables: Mapping[str, str],
        control_tokens: Sequence[str] = (),
    ) -> None:
        self.source = template
        self._variables = dict(variables)
        self._control_tokens = tuple(control_tokens)

    @cached_property
    def splice(self) -> Splice | None:
        """Which messages the template need not see to render the others; None: all are needed."""
        if self.source is None:
            return None
        try:
            return splice_of(_environment().parse(self.source))
        except TemplateSyntaxError:
            return None  # `render` says what is wrong

    @property
    def control_tokens(self) -> Sequence[str]:
        return self._control_tokens

    @property
    def variables(self) -> Mapping[str, str]:
        """What the template sees beside the messages."""
        return self._variables

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        """The template's text for `messages`. What the template raises passes through.

        Raises:
            ModelError: the model has no chat template, or one that is not valid Jinja.
        """
        template = self._compiled
        if not messages and not add_generation_prompt:
            return ""
        plain = [{key: value for key, value in m.items() if value is not None} for m in messages]
        return template(
            messages=plain,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **self._variables,
        )

    @cached_property
    def _compiled(self) -> Callable[..., str]:
        if self.source is None:
            raise ModelError(
                "this model has no chat template: write the roles as plain text, "
                "or take a model with a chat template"
            )
        try:
            return _environment().from_string(self.source).render
        except TemplateSyntaxError as error:
            raise ModelError(
                f"the model's chat template is not valid Jinja (line {error.lineno}: "
                f"{error.message}): repair it in the model's files"
            ) from error


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["namespace"] = _PlainNamespace
    return environment


class _GenerationBlock(Extension):
    """`{% generation %}` marks the assistant's text for training; here its body is just text."""

    tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)


class _PlainNamespace(Namespace):
    """A namespace that keeps no underscore names, so that none reaches Python's internals."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, positional = args[0], args[1:]
        values = dict(*positional, **kwargs)
        for name in values:
            _refuse_underscore(name)
        Namespace.__init__(self, values)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_underscore(name)
        Namespace.__setitem__(self, name, value)


def _refuse_underscore(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a chat template may not store the attribute {name!r}")


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
