"""Verifier rules for model calls: parameters, one constraint, a budget that can be met."""

from __future__ import annotations

import re
from typing import Any

from sgc_ir.graph import Node
from sgc_ir.ops import Op
from sgc_ir.params import CONSTRAINTS, PARAM_NAMES, normalize
from sgc_ir.verify_scope import Faults, Scope, is_constant

# Parameters whose check compiles a pattern, schema or grammar; and their plain types.
_SYNTAX: dict[str, type | tuple[type, ...]] = {
    "regex": str,
    "stop_regex": (str, list, tuple),
    "json_schema": (dict, bool, str),
    "grammar": str,
}


def parameters(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op in (Op.GEN, Op.SELECT):
            reason = _parameter_problem(node, scope.syntax)
            if reason:
                yield node, reason


def _parameter_problem(node: Node, syntax: bool) -> str | None:
    present = [n for n in CONSTRAINTS if node.attrs.get(n) is not None]
    if len(present) > 1:
        return f"has {' and '.join(present)}, a gen takes one constraint"
    constant = {
        name: value
        for name, value in node.attrs.items()
        if name in PARAM_NAMES and is_constant(value)
    }
    if not syntax:
        for name, types in _SYNTAX.items():
            value = constant.pop(name, None)
            if value is not None and not isinstance(value, types):
                return f"{name} is a {type(value).__name__}"
    try:
        normalize(constant)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def budgets(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is Op.GEN:
            reason = _budget_problem(node, scope.syntax)
            if reason:
                yield node, reason


def _budget_problem(node: Node, syntax: bool) -> str | None:
    """Only what is certain without a tokenizer."""
    low, high = node.attrs.get("min_tokens", 0), node.attrs.get("max_tokens")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        return f"min_tokens={low} is more than max_tokens={high}; it can never end"
    if high != 0 or not isinstance(high, int):
        return None
    for name in ("dtype", "json_schema", "regex", "grammar"):
        value = node.attrs.get(name)
        if value is not None and is_constant(value) and _needs_text(name, value, syntax):
            return f"max_tokens=0, but its {name} needs at least one character"
    return None


def _needs_text(name: str, value: Any, syntax: bool) -> bool:
    if name in ("dtype", "json_schema"):
        return True  # a value, whatever its type, has at least one character
    if not syntax:
        return False
    if name == "regex":
        return re.fullmatch(value, "") is None
    return not _grammar_takes_nothing(value)


def _grammar_takes_nothing(grammar: str) -> bool:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

    try:
        Lark(grammar, parser="earley", lexer="dynamic", import_paths=[]).parse("")
    except UnexpectedInput:
        return False
    return True
