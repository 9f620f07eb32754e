"""Verifier rules for model calls: parameters, one constraint, a budget that can be met."""

from __future__ import annotations

from sgc_ir.checks import exact_problem
from sgc_ir.graph import Node, is_constant
from sgc_ir.ops import Op
from sgc_ir.params import (
    COMPILED,
    CONSTRAINTS,
    PARAM_NAMES,
    STYLE_ALONE,
    SamplingParams,
    normalize,
)
from sgc_ir.verify_scope import Faults, Scope


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
    if node.attrs.get("json_style") is not None and "json_schema" not in present:
        return STYLE_ALONE
    constant = {
        name: value
        for name, value in node.attrs.items()
        if name in PARAM_NAMES and is_constant(value)
    }
    if not syntax:
        constant.pop("stop_regex", None)  # its check compiles patterns
    try:
        values = normalize(constant)
    except (ValueError, TypeError) as error:
        return str(error)
    # A constraint that is known only later is taken for any regex.
    later = {} if set(present) <= set(constant) else {"regex": ""}
    problem = exact_problem(SamplingParams(**{**values, **later}))
    if problem is not None:
        return problem
    if not (syntax and any(name in values for name in COMPILED)):
        return None
    from sgc_ir.automata.check import constraint_problem  # numpy and more; few programs pay

    return constraint_problem(values)


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
        if value is not None and is_constant(value) and _needs_text(node, name, syntax):
            return f"max_tokens=0, but its {name} needs at least one character"
    return None


def _needs_text(node: Node, name: str, syntax: bool) -> bool:
    if name in ("dtype", "json_schema"):
        return True  # a value, whatever its type, has at least one character
    if not syntax:
        return False
    from sgc_ir.automata.check import facts_of

    return not facts_of(SamplingParams(**{name: node.attrs[name]})).takes_nothing
