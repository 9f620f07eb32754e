"""What is known of a gen's constraint before anything runs; remembered for equal constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sgc_ir.automata.compile import constraint_automaton, constraint_key
from sgc_ir.errors import ConstraintError
from sgc_ir.params import COMPILED, SamplingParams

_OF_CONSTRAINTS = (*COMPILED, "json_style", "dtype", "min_tokens")


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one constraint.

    Attributes:
        problem: why it cannot be used, with the place inside it; None where it can.
        takes_nothing: whether the empty text is legal.
    """

    problem: str | None
    takes_nothing: bool = False


class Keyed:
    """Parameters that are equal where their constraints are; for memories of what was made.

    Raises:
        ConstraintError: the schema is no JSON data.
    """

    __slots__ = ("key", "params")

    def __init__(self, params: SamplingParams) -> None:
        self.key, self.params = constraint_key(params), params

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def facts_of(params: SamplingParams) -> Facts:
    """The facts of the constraint on the text of `params`, which have one."""
    try:
        return _facts(Keyed(params))
    except ConstraintError as error:  # it has no key: a schema that is no JSON data
        return Facts(str(error))


def constraint_params(values: Mapping[str, Any]) -> SamplingParams | None:
    """Of gen's arguments, checked ones, those that the texts depend on; None for no constraint."""
    found = SamplingParams(**{name: values[name] for name in _OF_CONSTRAINTS if name in values})
    return None if found.constraint is None else found


def constraint_problem(values: Mapping[str, Any]) -> str | None:
    """Why gen's arguments `values`, checked ones, have a constraint that cannot be used: its name,
    the place inside it, and the reason; or None."""
    name = next((name for name in COMPILED if values.get(name) is not None), None)
    params = constraint_params(values)
    if name is None or params is None:
        return None
    problem = facts_of(params).problem
    return None if problem is None else f"{name}: {problem}"


@lru_cache(maxsize=1024)
def _facts(keyed: Keyed) -> Facts:
    try:
        automaton = constraint_automaton(keyed.params)
    except ConstraintError as error:
        return Facts(str(error))
    return Facts(None, automaton.is_accepting(automaton.start))
