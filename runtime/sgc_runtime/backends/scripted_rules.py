"""Constraints of the scripted backend: how far a reply keeps to its regex, schema or grammar."""

from __future__ import annotations

import json
from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple, Protocol

import jsonschema

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_ir.automata.check import Keyed, facts_of
from sgc_ir.automata.compile import constraint_automaton
from sgc_ir.automata.schema.python_schema import with_python_patterns
from sgc_ir.errors import ConstraintError
from sgc_ir.json_text import finite_float, refuse_constant
from sgc_ir.params import SamplingParams

_SHOWN = 200  # characters of what a validator says


class Limit(NamedTuple):
    """How far a reply can be followed.

    Attributes:
        end: characters that keep to the constraint.
        complete: the constraint is satisfied there and cannot go on.
        reason: what is wrong behind `end`.
    """

    end: int
    complete: bool
    reason: str = ""


class Rule(Protocol):
    """A constraint."""

    def limit(self, reply: str) -> Limit: ...

    def accepts(self, text: str) -> bool: ...


class AutomatonRule:
    """The whole text is one that an automaton accepts."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._lock = Lock()

    def accepts(self, text: str) -> bool:
        end, state = self._follow(text)
        return end == len(text) and self._automaton.is_accepting(state)

    def limit(self, reply: str) -> Limit:
        end, state = self._follow(reply)
        with self._lock:
            return Limit(end, self._automaton.is_final(state))

    def _follow(self, text: str) -> tuple[int, int]:
        """The characters that keep to it, and the state behind them."""
        state = self._automaton.start
        with self._lock:
            for end, char in enumerate(text):
                following = self._automaton.walk(state, char.encode("utf-8", "surrogatepass"))
                if following == DEAD:
                    return end, state
                state = following
        return len(text), state


class JsonRule:
    """The text is one JSON value that a schema accepts; blanks and the order of names are free,
    so that replies that were written by hand need no style."""

    def __init__(self, schema: Any) -> None:
        self._validator = jsonschema.validators.validator_for(schema)(with_python_patterns(schema))
        self._decoder = json.JSONDecoder(parse_constant=refuse_constant, parse_float=finite_float)

    def accepts(self, text: str) -> bool:
        try:
            value, end = self._decoder.raw_decode(text)
        except (ValueError, RecursionError):
            return False
        return end == len(text) and self._validator.is_valid(value)

    def limit(self, reply: str) -> Limit:
        try:
            value, end = self._decoder.raw_decode(reply)
        except json.JSONDecodeError as error:
            cut = error.msg.startswith("Unterminated string")
            return Limit(len(reply) if cut else error.pos, False, error.msg)
        except (ValueError, RecursionError) as error:
            return Limit(0, False, str(error))
        problem = jsonschema.exceptions.best_match(self._validator.iter_errors(value))
        if problem is not None:
            message = problem.message
            if len(message) > _SHOWN:  # of a large value, or a pattern with many characters
                message = f"{message[:_SHOWN]}..."
            return Limit(end, False, f"{message} (at {problem.json_path})")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return Limit(end, complete=not is_number)


def rule_of(params: SamplingParams) -> Rule | None:
    """The rule of the constraint on the text of `params`, or None.

    Raises:
        ConstraintError: the constraint cannot be used.
    """
    if not params.binds_text:
        return None
    if params.json_schema is not None:
        problem = facts_of(params).problem
        if problem is not None:
            raise ConstraintError(f"json_schema: {problem}")
        return JsonRule(params.json_schema)
    return _automaton_rule(Keyed(params))


@lru_cache(maxsize=256)
def _automaton_rule(keyed: Keyed) -> AutomatonRule:
    return AutomatonRule(constraint_automaton(keyed.params))
