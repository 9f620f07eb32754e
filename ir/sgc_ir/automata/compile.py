"""From a gen's parameters to the automaton of the texts that it may give."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sgc_ir.automata.digest import language_digest
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.errors import ConstraintError
from sgc_ir.params import SamplingParams

if TYPE_CHECKING:  # the front ends load when a constraint of their kind is made
    from sgc_ir.automata.automaton import Automaton

NUMBER_STOPS = (" ", "\n")  # what ends a number of `dtype`; it is no part of the text
DEFAULT_STYLE = "spaced"

_NUMBERS = {"int": "-?[0-9]+", "float": r"-?[0-9]+(\.[0-9]+)?"}
# Escapes of one half of a surrogate pair alone are no text.
_ESCAPE = (
    r'\\(["\\/bfnrt]|u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_WORDS = {"bool": "True|False", "str": rf'"([^"\\\x00-\x1f]|{_ESCAPE})*"'}
# A number may be followed by a stop and whatever the model says then: the stop ends the text, and
# a token that begins with it, such as ` apples`, is as good a sign of the end as a lone blank.
_GOES_ON = r"([ \n](?s:.)*)?"
_ONE_STOP = r"[ \n]?"  # stops that `min_tokens` holds back are text


def constraint_automaton(params: SamplingParams, limits: Limits = DEFAULT_LIMITS) -> Automaton:
    """The automaton of the texts that `regex`, `json_schema`, `grammar` or `dtype` allows.

    Raises:
        ConstraintError: the constraint cannot be used.
        ValueError: `params` have none of them.
    """
    if params.regex is not None:
        return _regex(params.regex, limits)
    if params.dtype is not None:
        return _regex(_dtype_regex(params), limits)
    if params.json_schema is not None:
        from sgc_ir.automata.schema.compile import schema_automaton

        return schema_automaton(params.json_schema, params.json_style or DEFAULT_STYLE, limits)
    if params.grammar is not None:
        from sgc_ir.automata.grammar.grammar import grammar_automaton

        return grammar_automaton(params.grammar, limits)
    raise ValueError("these parameters have no constraint on their text")


def constraint_key(params: SamplingParams) -> bytes:
    """32 bytes that name the constraint of `params`: equal ones have equal automata.

    Raises:
        ConstraintError: the schema is no JSON data.
        ValueError: `params` have no constraint on their text.
    """
    if params.regex is not None:
        return language_digest("regex", params.regex)
    if params.dtype is not None:
        return language_digest("regex", _dtype_regex(params))
    if params.json_schema is not None:
        schema = json_text(params.json_schema)  # the order of properties is that of the text
        return language_digest("schema", params.json_style or DEFAULT_STYLE, schema)
    if params.grammar is not None:
        return language_digest("grammar", params.grammar)
    raise ValueError("these parameters have no constraint on their text")


def json_text(schema: Any) -> str:
    """A schema as JSON.

    Raises:
        ConstraintError: it is no JSON data ("malformed"), or nested too deeply ("limit").
    """
    try:
        return json.dumps(schema)
    except RecursionError as error:
        raise ConstraintError("the schema is nested too deeply; flatten it", where="#") from error
    except (TypeError, ValueError) as error:
        raise ConstraintError(
            f"the schema is no JSON data ({error}); give a dict of plain values, true or false",
            kind="malformed",
        ) from error


def _regex(pattern: str, limits: Limits) -> Automaton:
    from sgc_ir.automata.regex import regex_automaton

    return regex_automaton(pattern, limits)


def _dtype_regex(params: SamplingParams) -> str:
    assert params.dtype is not None
    number = _NUMBERS.get(params.dtype)
    if number is None:
        return _WORDS[params.dtype]
    return f"({number})" + (_ONE_STOP if params.min_tokens > 0 else _GOES_ON)
