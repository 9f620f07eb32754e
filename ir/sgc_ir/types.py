"""Types of program arguments as text: written down, checked, and used to convert CSV cells.

    type  = member ("|" member)*
    member = "str" | "int" | "float" | "bool" | "None" | "bytes" | "Any"
           | "list" ["[" type "]"] | "dict" ["[" type "," type "]"]
           | "tuple" ["[" type ("," type)* | type ", ..." "]"] | "Literal[" constant, ... "]"

The empty text accepts anything. A list may be given where a tuple is expected and vice versa
(JSON has only one of them); an int fits float, a bool fits only bool.
"""

from __future__ import annotations

import ast
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sgc_ir.json_text import read_json
from sgc_ir.parsing import parse_expression
from sgc_ir.quote import quote

MAX_TYPE_CHARS = 1000
_SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "bytes": (bytes,),
    "None": (type(None),),
}
_ALIASES = {
    "List": "list",
    "Sequence": "list",
    "Iterable": "list",
    "Dict": "dict",
    "Mapping": "dict",
    "Tuple": "tuple",
}
_CONTAINER_ORIGINS: dict[Any, str] = {
    list: "list",
    Sequence: "list",
    Iterable: "list",
    dict: "dict",
    Mapping: "dict",
    tuple: "tuple",
}


@dataclass(frozen=True, slots=True)
class TypeForm:
    """A parsed type: `kind` is a scalar name, `Any`, `list`, `dict`, `tuple`, `tuple...` (of any
    length), `Literal` or `|`; `args` are its member types, or the constants of a Literal."""

    kind: str
    args: tuple[Any, ...] = ()

    def __str__(self) -> str:
        if self.kind == "|":
            return " | ".join(str(arg) for arg in self.args)
        if self.kind == "Literal":
            return f"Literal[{', '.join(_literal_text(arg) for arg in self.args)}]"
        if self.kind == "tuple...":
            return f"tuple[{self.args[0]}, ...]"
        return f"{self.kind}[{', '.join(str(a) for a in self.args)}]" if self.args else self.kind


def _literal_text(value: Any) -> str:
    return quote(value) if isinstance(value, str) else repr(value)


def annotation_to_text(tp: Any) -> str:
    """The text of a Python annotation (object or string), "" for what cannot be expressed."""
    if isinstance(tp, str):
        try:
            form = parse_type(tp)
        except ValueError:
            return ""
        return "" if form.kind == "Any" else str(form)
    try:
        form = _from_object(tp)
    except _Inexpressible:
        return ""
    return "" if form.kind == "Any" else str(form)


class _Inexpressible(Exception):
    pass


_REFUSED = (SyntaxError, RecursionError, MemoryError, ValueError, TypeError, _Inexpressible)


def _from_object(tp: Any) -> TypeForm:
    if tp is None or tp is type(None):
        return TypeForm("None")
    if tp is Any:
        return TypeForm("Any")
    if isinstance(tp, str):
        return _from_text(tp)
    if isinstance(tp, type) and tp.__name__ in _SCALARS and tp in _SCALARS[tp.__name__]:
        return TypeForm(tp.__name__)
    origin, args = typing.get_origin(tp) or tp, typing.get_args(tp)
    if origin is typing.Union or origin is types.UnionType:
        return _union([_from_object(arg) for arg in args])
    if origin is typing.Literal:
        return _literal(args)
    if origin is typing.Annotated:
        return _from_object(args[0])
    try:
        kind = _CONTAINER_ORIGINS.get(origin)
    except TypeError as error:  # unhashable
        raise _Inexpressible from error
    if kind is None:
        raise _Inexpressible
    if kind == "tuple" and len(args) == 2 and args[1] is Ellipsis:
        return TypeForm("tuple...", (_from_object(args[0]),))
    return TypeForm(kind, tuple(_from_object(arg) for arg in args))


def _from_text(text: str) -> TypeForm:
    try:
        return parse_type(text)
    except ValueError as error:
        raise _Inexpressible from error


def _union(members: list[TypeForm]) -> TypeForm:
    flat: list[TypeForm] = []
    for member in members:
        parts: tuple[TypeForm, ...] = member.args if member.kind == "|" else (member,)
        for part in parts:
            if part.kind == "Any":
                return part
            if part not in flat:
                flat.append(part)
    return flat[0] if len(flat) == 1 else TypeForm("|", tuple(flat))


def _literal(values: tuple[Any, ...]) -> TypeForm:
    if not values or not all(isinstance(v, str | int | bool | None) for v in values):
        raise _Inexpressible
    return TypeForm("Literal", values)


@lru_cache(maxsize=512)
def parse_type(text: str) -> TypeForm:
    """The form of a type text; nothing is evaluated. Raises ValueError."""
    if not text:
        return TypeForm("Any")
    if len(text) > MAX_TYPE_CHARS:
        raise ValueError(f"type longer than {MAX_TYPE_CHARS} characters")
    try:
        return _from_ast(parse_expression(text.strip()))
    except _REFUSED as error:
        raise ValueError(f"not a type of the language: {text!r}") from error


def _from_ast(node: ast.expr) -> TypeForm:
    match node:
        case ast.Constant(value=None):
            return TypeForm("None")
        case ast.Constant(value=str(inner)):
            return parse_type(inner)
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _union([_from_ast(left), _from_ast(right)])
        case ast.Name() | ast.Attribute():
            return _named(_bare_name(node))
        case ast.Subscript(value=value, slice=index):
            args = index.elts if isinstance(index, ast.Tuple) else [index]
            return _generic(_bare_name(value), args)
    raise _Inexpressible


def _bare_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr  # typing.List, collections.abc.Sequence
    if isinstance(node, ast.Name):
        return node.id
    raise _Inexpressible


def _named(name: str) -> TypeForm:
    name = _ALIASES.get(name, name)
    if name in _SCALARS or name in ("Any", "list", "dict", "tuple"):
        return TypeForm(name)
    raise _Inexpressible


def _generic(name: str, args: Sequence[ast.expr]) -> TypeForm:
    name = _ALIASES.get(name, name)
    if name == "Literal":
        return _literal(tuple(ast.literal_eval(arg) for arg in args))
    if name == "Optional" and len(args) == 1:
        return _union([_from_ast(args[0]), TypeForm("None")])
    if name == "Union" and args:
        return _union([_from_ast(arg) for arg in args])
    if name == "tuple" and len(args) == 2 and _is_ellipsis(args[1]):
        return TypeForm("tuple...", (_from_ast(args[0]),))
    arity = {"list": 1, "dict": 2}.get(name)
    if (name == "tuple" and args) or arity == len(args):
        return TypeForm(name, tuple(_from_ast(arg) for arg in args))
    raise _Inexpressible


def is_canonical(text: str) -> bool:
    """Whether `text` is a type written exactly as `annotation_to_text` writes it."""
    try:
        return str(parse_type(text)) == text
    except ValueError:
        return False


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def check_value(value: Any, text: str) -> None:
    """Refuse a value that does not fit the type `text`; raises ValueError with the reason."""
    problem = _problem(value, parse_type(text), "")
    if problem:
        raise ValueError(problem)


def _problem(value: Any, form: TypeForm, place: str) -> str | None:
    if _fits_shallow(value, form):
        return _inner_problem(value, form, place)
    if form.kind == "|" and any(_problem(value, arg, place) is None for arg in form.args):
        return None
    return f"{place}expected {form}, got {_describe(value)}"


def _fits_shallow(value: Any, form: TypeForm) -> bool:
    if form.kind == "Any":
        return True
    if form.kind == "Literal":
        return any(type(value) is type(arg) and value == arg for arg in form.args)
    if form.kind in _SCALARS:
        if isinstance(value, bool):
            return form.kind == "bool"
        return isinstance(value, _SCALARS[form.kind])
    if form.kind == "dict":
        return isinstance(value, Mapping)
    if form.kind == "tuple" and form.args:
        return isinstance(value, list | tuple) and len(value) == len(form.args)
    return form.kind in ("list", "tuple", "tuple...") and isinstance(value, list | tuple)


def _inner_problem(value: Any, form: TypeForm, place: str) -> str | None:
    if form.kind == "dict" and form.args:
        pairs = [(k, form.args[0], f"{place}key {k!r}: ") for k in value]
        pairs += [(v, form.args[1], f"{place}[{k!r}]: ") for k, v in value.items()]
    elif form.kind == "tuple" and form.args:
        pairs = [
            (v, f, f"{place}[{i}]: ") for i, (v, f) in enumerate(zip(value, form.args, strict=True))
        ]
    elif form.kind in ("list", "tuple...") and form.args:
        pairs = [(v, form.args[0], f"{place}[{i}]: ") for i, v in enumerate(value)]
    else:
        return None
    problems = (_problem(v, f, p) for v, f, p in pairs)
    return next((p for p in problems if p is not None), None)


def _describe(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


def convert_text(cell: str, text: str) -> Any:
    """The value of a CSV cell or of `--arg NAME=TEXT` for the type `text`.

    Lists, dicts and tuples are read as JSON; without a type the cell stays text. Raises
    ValueError with the reason.
    """
    return _convert(cell, parse_type(text))


def _convert(cell: str, form: TypeForm) -> Any:
    kind = form.kind
    if kind in ("Any", "str"):
        return cell
    if kind == "|":
        return _convert_union(cell, form)
    if kind == "Literal":
        for arg in form.args:
            if cell == str(arg):
                return arg
    elif kind in ("list", "dict", "tuple", "tuple..."):
        return _convert_json(cell, form)
    elif kind == "bytes":
        return cell.encode("utf-8")
    else:
        return _convert_scalar(cell.strip(), form)
    raise ValueError(f"expected {form}, got {_describe(cell)}")


def _convert_scalar(cell: str, form: TypeForm) -> Any:
    if form.kind == "int" and re.fullmatch(r"[+-]?[0-9]+", cell):
        return int(cell)
    if form.kind == "float" and "_" not in cell:
        try:
            return float(cell)
        except ValueError:
            pass  # the one refusal below names the type
    if form.kind == "bool" and cell.lower() in ("true", "false", "1", "0"):
        return cell.lower() in ("true", "1")
    if form.kind == "None" and cell.lower() in ("", "null", "none"):
        return None
    raise ValueError(f"expected {form}, got {_describe(cell)}")


def _convert_union(cell: str, form: TypeForm) -> Any:
    order = ["Literal", "None", "bool", "int", "float", "list", "dict", "tuple", "tuple..."]
    members = sorted(form.args, key=lambda f: order.index(f.kind) if f.kind in order else 99)
    numeric = any(f.kind in ("int", "float") for f in members)
    for member in members:
        if member.kind == "None" and not cell and any(f.kind == "str" for f in members):
            continue  # an empty cell is a text where a text is allowed
        if member.kind == "bool" and numeric and cell.strip() in ("0", "1"):
            continue
        try:
            return _convert(cell, member)
        except ValueError:
            continue  # the next member may take it; none: refused below
    raise ValueError(f"expected {form}, got {_describe(cell)}")


def _convert_json(cell: str, form: TypeForm) -> Any:
    try:
        value = read_json(cell)
    except ValueError as error:
        raise ValueError(f"expected {form} as JSON, got {_describe(cell)}: {error}") from error
    problem = _problem(value, form, "")
    if problem:
        raise ValueError(problem)
    return value
