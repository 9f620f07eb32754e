"""Verifier rules for single nodes: ids, attributes, operands, constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sgc_ir.expr import check
from sgc_ir.graph import UNSET, Node, Ref, is_constant, iter_refs
from sgc_ir.limits import MAX_VALUE_DEPTH
from sgc_ir.ops import OPS, Op
from sgc_ir.tokens import is_token
from sgc_ir.verify_scope import Faults, Scope

ROLES = ("system", "user", "assistant")
EFFECTS = ("pure", "repeatable", "irreversible")
FIELDS = (
    "value",
    "meta",
    "text",
    "messages",
    "result",
    "item",
    "stream_text",
    "stream_messages",
    "output",
    "kind",
    "error",
)
_OWN_STREAM = ("stream_text", "stream_messages")
_NO_VALUE = (Op.ROLE_BEGIN, Op.ROLE_END, Op.IMAGE, Op.VIDEO, Op.PREFIX_HINT, Op.RETURN)
Check = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _name(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _ref(value: Any) -> bool:
    return isinstance(value, Ref)


def _only_refs(value: Any) -> bool:
    return _sequence(value) and all(map(_ref, value))


def _number(value: Any) -> bool:
    return isinstance(value, Ref) or (isinstance(value, int) and not isinstance(value, bool))


def _natural(value: Any) -> bool:
    return _number(value) and (isinstance(value, Ref) or value >= 0)


def _sequence(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _sequence_or_ref(value: Any) -> bool:
    return isinstance(value, list | tuple | Ref)


def _named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _sequence_of_named(value: Any) -> bool:
    return _sequence(value) and all(map(_named, value))


def _names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_name(item) for item in value)


def _name_or_none(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _captures(value: Any) -> bool:
    return _named(value) and all(isinstance(ref, Ref) for ref in value.values())


def _refs(value: Any) -> bool:
    return isinstance(value, Ref) or (_sequence(value) and all(isinstance(v, Ref) for v in value))


def _tokens(value: Any) -> bool:
    return _sequence(value) and all(is_token(item) for item in value)


def _media(value: Any) -> bool:
    return isinstance(value, str | bytes | Ref)


def _one_of(allowed: tuple[str, ...]) -> Check:
    return lambda value: isinstance(value, str) and value in allowed


# attribute -> (what it must be, test); an op in the key overrides the general row.
ATTRIBUTES: dict[str | tuple[Op, str], tuple[str, Check]] = {
    "text": ("a string", _text),
    "name": ("a non-empty string", _name),
    (Op.VARIABLE, "name"): ("a string", _text),  # "" where the field is of a whole stream
    "of": ("a reference", _ref),
    "field": (f"one of {', '.join(FIELDS)}", _one_of(FIELDS)),
    "append": ("true or false", _flag),
    "fn": ("a name", _name),
    "args": ("a list or tuple", _sequence),
    (Op.SUB_PROGRAM, "args"): ("a dict with string keys", _named),
    "kwargs": ("a dict with string keys", _named),
    "ordinal": ("a number >= 0 or a reference", _natural),
    "choices": ("a list, tuple or reference", _sequence_or_ref),
    "width": ("a number or a reference", _number),
    "items": ("a list, tuple or reference", _sequence_or_ref),
    "copy": ("true or false", _flag),
    "fork": ("a reference", _ref),
    "more": ("a list or tuple of references", _only_refs),
    "index": ("a number or a reference", _number),
    "mode": ("gather or append", _one_of(("gather", "append"))),
    "vars": ("a dict with string keys", _named),
    "role": (f"one of {', '.join(ROLES)}", _one_of(ROLES)),
    "data": ("a string, bytes or a reference", _media),
    "num_frames": ("a number or a reference", _number),
    "tool": ("a name", _name),
    "effect": (f"one of {', '.join(EFFECTS)}", _one_of(EFFECTS)),
    "after": ("a reference, or several", _refs),
    "callee": ("a name", _name),
    "readers": ("a number >= 0 or a reference", _natural),
    (Op.PREFIX_HINT, "tokens"): ("a number >= 0 or a reference", _natural),
    "values": ("a list or tuple", _sequence),
    "tokens": ("pairs of a reference and an arm", _tokens),
    "on": ("failed", _one_of(("failed",))),
    "catch": ("a list or tuple of names", _names),
    "count": ("a number or a reference", _number),
    "among": ("a reference, or several", _refs),
    "reads": ("a reference, or several", _refs),
    "results": ("a list or tuple of dicts", _sequence_of_named),
    "max": ("a number or a reference", _number),
    "carried": ("a dict with string keys", _named),
    "kind": ("a number or a reference", _number),
    "over": ("a list or tuple", _sequence),
    "item_params": ("a list or tuple of names", _names),
    "index_param": ("a name or None", _name_or_none),
    "captures": ("a dict of references", _captures),
}


def ids(scope: Scope) -> Faults:
    for index, node in enumerate(scope.graph.nodes):
        if node.id != index:
            yield node, f"stands at position {index}; ids are positions"
        if node.op not in OPS:
            yield node, f"{node.op!r} is no kind of node"


def attributes(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        spec = OPS[node.op]
        for name in spec.required:
            if name not in node.attrs:
                yield node, f"lacks attribute {name}"
        for name, value in node.attrs.items():
            if name not in spec.required and name not in spec.optional:
                yield node, f"has an unknown attribute {name}"
            rule = ATTRIBUTES.get((node.op, name)) or ATTRIBUTES.get(name)
            if rule is not None and not rule[1](value):
                yield node, f"attribute {name} is {_short(value)}, it must be {rule[0]}"
        if node.op is Op.VARIABLE and "of" not in node.attrs:
            if node.attrs.get("field") not in _OWN_STREAM:
                yield node, "lacks attribute of, which only the text of its own stream may"
        if spec.owns_body != (node.body is not None):
            yield node, "lacks its body" if spec.owns_body else "owns a body, only a Loop may"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


_UNSETTABLE = ("values", "carried", "vars")  # see `sgc_ir.verify_control.unset`


def _without_unset(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: item for key, item in value.items() if item is not UNSET}
    return [item for item in value if item is not UNSET]


def values(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        for name, value in node.attrs.items():
            problem = attribute_problem(name, value)
            if problem:
                yield node, f"attribute {name} {problem}"


def attribute_problem(name: str, value: Any) -> str | None:
    """Why the value of an attribute is no operand, or None."""
    return value_problem(value if name not in _UNSETTABLE else _without_unset(value))


def value_problem(value: Any, depth: int = 0) -> str | None:
    """Why a value is no operand, or None."""
    if value is None or type(value) in (bool, int, float, str, bytes, Ref):
        return None
    if type(value) not in (list, tuple, dict):
        return f"holds a {type(value).__name__}, which a graph cannot"
    if depth >= MAX_VALUE_DEPTH:
        return f"nests deeper than {MAX_VALUE_DEPTH} containers"
    parts = list(value) if not isinstance(value, dict) else list(value.values())
    if isinstance(value, dict) and not all(is_constant(key) for key in value):
        return "has a reference as a key"
    keys = list(value) if isinstance(value, dict) else []
    problems = (value_problem(part, depth + 1) for part in keys + parts)
    return next((p for p in problems if p is not None), None)


def operands(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        for name, value in node.attrs.items():
            for ref in iter_refs(value):
                if not 0 <= ref.node < node.id:
                    yield node, f"attribute {name} refers to %{ref.node}, which is not earlier"
                elif scope.node(ref).op in _NO_VALUE and name != "after":
                    kind = scope.node(ref).op
                    yield node, f"attribute {name} reads %{ref.node}, a {kind} has no value"


def expressions(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is Op.EXPR:
            kwargs: Mapping[str, Any] = node.attrs.get("kwargs", {})
            reason = check(node.attrs["fn"], len(node.attrs["args"]), tuple(kwargs))
            if reason:
                yield node, reason
            if node.attrs["fn"] == "set" and not _name(node.attrs["args"][0]):
                yield node, "set takes the variable's name as its first operand"


def forks(scope: Scope) -> Faults:
    for node in scope.graph.nodes:
        if node.op is Op.FORK:
            yield from _fork_faults(node)
        elif node.op is Op.VIDEO and isinstance(node.attrs["num_frames"], int):
            if node.attrs["num_frames"] < 1:
                yield node, "num_frames must be at least 1"


def _fork_faults(node: Node) -> Faults:
    width = node.attrs.get("width")
    if ("width" in node.attrs) == ("items" in node.attrs):
        yield node, "takes either width or items"
    if isinstance(width, int) and width < 1:
        yield node, f"has width {width}, a fork needs at least one branch"
    if node.attrs.get("copy") and width != 1:
        yield node, "a copy has exactly one branch"
