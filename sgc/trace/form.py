"""What is known of a run-time value: its type, and where it holds handles and other structure.

Types decide which expressions cannot fail (total ones may be recorded where Python would evaluate
them only sometimes). Structure lets a list of handles stay a list of handles across a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sgc.lang.primitives import is_symbolic
from sgc_ir.graph import Param
from sgc_ir.types import check_value, parse_type


@dataclass(frozen=True)
class Form:
    """The type of a run-time value, as far as it is known.

    Attributes:
        kind: "str" | "int" | "num" (int or float) | "bool" | "list" | "tuple" | "dict" | "bytes" |
            "none" | "handle" | "branch", or "" when unknown.
        item: form of the items of a list.
        parts: forms of the parts of a tuple, list or dict whose structure is known.
        keys: keys of a dict whose structure is known.
        fields: keys that a dict certainly has, beside others maybe, and the forms of their values.
        target: the sub-program of a handle, the family of a branch.
    """

    kind: str = ""
    item: Form | None = None
    parts: tuple[Form, ...] | None = None
    keys: tuple[Any, ...] | None = None
    target: Any = None
    fields: tuple[tuple[str, Form], ...] = ()

    @property
    def is_data(self) -> bool:
        """Whether the value is plain data all through."""
        inner = [*(self.parts or ()), *([self.item] if self.item else [])]
        return self.kind not in ("handle", "branch") and all(f.is_data for f in inner)


UNKNOWN = Form()
STR = Form("str")
INT = Form("int")
NUM = Form("num")
BOOL = Form("bool")
LIST = Form("list")
DICT = Form("dict")
_SCALARS = ("str", "int", "float", "bool", "bytes", "None")
_NAMES = {"str": "str", "int": "int", "float": "num", "bool": "bool", "bytes": "bytes"}


def form_of_annotation(text: str) -> Form:
    """The form of a value whose annotation is checked before the run."""
    return _of_type(parse_type(text)) if text else UNKNOWN


def _of_type(form: Any) -> Form:
    if form.kind in _NAMES:
        return Form(_NAMES[form.kind])
    if form.kind == "list":
        return Form("list", _of_type(form.args[0]) if form.args else None)
    if form.kind == "dict":
        return DICT
    if form.kind == "Literal" and all(type(a) is str for a in form.args):
        return STR
    return UNKNOWN


def fits(form: Form, annotation: str) -> bool:
    """Whether a value of this form is certainly of the type."""
    return _fits(form, parse_type(annotation))


def _fits(form: Form, kind: Any) -> bool:
    if kind.kind == "|":
        return any(_fits(form, member) for member in kind.args)
    if kind.kind == "list" and form.kind == "list":
        items = form.parts if form.parts is not None else (form.item or UNKNOWN,)
        return not kind.args or all(_fits(item, kind.args[0]) for item in items)
    if kind.kind == "dict" and form.kind == "dict":
        return not kind.args
    expected = {"float": ("int", "num"), "None": ("none",)}.get(kind.kind, (kind.kind,))
    return kind.kind == "Any" or (kind.kind in _SCALARS and form.kind in expected)


def form_of_param(param: Param, default_counts: bool) -> Form:
    """The form of a parameter; a default that breaks the annotation is not checked at run time."""
    if not param.annotation:
        return UNKNOWN
    if default_counts:
        try:
            check_value(param.default, param.annotation)
        except ValueError:
            return UNKNOWN
    return form_of_annotation(param.annotation)


def form_of_constant(value: Any) -> Form:
    """The form of a concrete value."""
    kinds = {str: "str", int: "int", float: "num", bool: "bool", bytes: "bytes", dict: "dict"}
    if value is None:
        return Form("none")
    if type(value) is tuple:
        return Form("tuple")
    return Form("list") if type(value) is list else Form(kinds.get(type(value), ""))


def form_of_gen(params: Mapping[str, Any]) -> Form:
    """The form of what a gen with these parameters writes."""
    samples = params.get("n", 1)
    if type(samples) is not int:
        return UNKNOWN
    if is_symbolic(params.get("json_schema")):
        return UNKNOWN
    if "json_schema" in params:
        from sgc.trace.schema_form import form_of_schema

        form = form_of_schema(params["json_schema"])
        return form if samples == 1 else Form("list", form)
    if samples != 1:
        return LIST
    dtype = params.get("dtype")
    if dtype is None:
        return STR
    name = dtype if type(dtype) is str else getattr(dtype, "__name__", "")
    return Form(_NAMES[name]) if name in _NAMES else UNKNOWN


def common_form(forms: list[Form]) -> Form:
    """What is known of a value that has one of several forms."""
    if not forms:
        return UNKNOWN
    first = forms[0]
    if all(form == first for form in forms):
        return first
    kinds = {form.kind for form in forms}
    if kinds <= {"int", "num"}:
        return Form("num")
    if kinds == {"list"}:
        items = [f.item for f in forms if f.item is not None or f.parts != ()]
        known = [item for item in items if item is not None]
        return Form("list", common_form(known) if known and len(known) == len(items) else None)
    return Form(first.kind) if len(kinds) == 1 and first.is_data else UNKNOWN


_NUMBERS = ("int", "num", "bool")
_TEXT_RESULTS = frozenset(
    "text concat str repr ascii format str.format .strip .lstrip .rstrip .lower .upper .title "
    ".capitalize .swapcase .casefold .replace .removeprefix .removesuffix .join .format .zfill "
    ".ljust .rjust .center .expandtabs".split()
)
# Operators that give what their left operand is, or fail.
_LEFT_DECIDES = frozenset([("+", "str"), ("+", "list"), ("*", "str"), ("*", "list"), ("%", "str")])
_BOOL_RESULTS = frozenset(
    "== != < <= > >= in is not bool any all .startswith .endswith .isdigit .isalpha .isalnum "
    ".isspace .isupper .islower .isdecimal .isnumeric .isascii".split()
) | {"not in", "is not"}
_LIST_RESULTS = frozenset(
    "list list_of sorted range zip enumerate reversed unpack argsort .split .rsplit "
    ".splitlines appended extended".split()
)


def form_of_expr(fn: str, args: tuple[Form, ...]) -> Form:
    """The form of an expression's value from those of its operands."""
    first = args[0] if args else UNKNOWN
    if fn in _TEXT_RESULTS:
        return STR
    if fn in _BOOL_RESULTS:
        return BOOL
    if fn in ("len", "int", ".find", ".rfind", ".count", ".index", ".rindex"):
        return INT
    if fn in _LIST_RESULTS:
        return _list_form(fn, first)
    if fn == "float":
        return NUM
    if fn in ("if", "and", "or"):
        values = args[1:] if fn == "if" else args
        return values[0] if all(v == values[0] for v in values) else UNKNOWN
    if fn in ("getitem", "vote"):
        return STR if first.kind == "str" and fn == "getitem" else first.item or UNKNOWN
    if fn == "getslice":
        return first if first.kind in ("str", "list") else UNKNOWN
    return _arithmetic(fn, args)


def _list_form(fn: str, first: Form) -> Form:
    if fn in (".split", ".rsplit", ".splitlines"):
        return Form("list", STR)
    if fn == "range":
        return Form("list", INT)
    return Form("list", first.item) if fn in ("list_of", "sorted", "reversed") else LIST


def _arithmetic(fn: str, args: tuple[Form, ...]) -> Form:
    kinds = [a.kind for a in args]
    if len(args) == 2 and (fn, kinds[0]) in _LEFT_DECIDES:
        return args[0] if fn != "+" or args[0] == args[1] else Form(kinds[0])
    if fn in ("+", "-", "*", "//", "%", "abs", "min", "max", "neg", "pos") and kinds:
        if all(k in ("int", "bool") for k in kinds):
            return INT
        if all(k in _NUMBERS for k in kinds):
            return NUM
    return NUM if fn == "/" and all(k in _NUMBERS for k in kinds) else UNKNOWN


_TOTAL = frozenset(["not", "is", "is not", "and", "or", "if", "bool", "list", "tuple"])
_TEXT_METHODS = frozenset(
    ".strip .lstrip .rstrip .lower .upper .title .capitalize .swapcase .casefold .isdigit "
    ".isalpha .isalnum .isspace .isupper .islower .isdecimal .isnumeric .isascii".split()
)
_TEXT_SEARCHES = frozenset(
    ".startswith .endswith .find .rfind .count .removeprefix .removesuffix".split()
)


def is_total(fn: str, args: tuple[Form, ...]) -> bool:
    """Whether the expression cannot fail, whatever values of these forms it gets."""
    kinds = [a.kind for a in args]
    if fn in _TOTAL:
        return True
    if fn in ("==", "!="):
        return True
    if fn in ("text", "str", "repr", "ascii", "concat"):
        return all(k in ("str", "bool") for k in kinds)
    if fn == "len":
        return kinds[0] in ("str", "list", "dict", "bytes")
    if fn in ("<", "<=", ">", ">="):
        return all(k in _NUMBERS for k in kinds) or kinds == ["str", "str"]
    if fn in ("in", "not in"):
        return kinds[1] in ("list", "tuple") or kinds == ["str", "str"]
    if fn in ("neg", "pos", "abs"):
        return kinds[0] in _NUMBERS
    if fn in _TEXT_METHODS:
        return kinds[0] == "str" and all(k == "str" for k in kinds[1:])
    if fn in _TEXT_SEARCHES:
        return kinds == ["str", "str"]
    return fn == "getslice" and kinds[0] in ("str", "list") and set(kinds[1:]) <= {"int", "none"}
