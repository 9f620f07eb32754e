"""What `@sgc.function` knows of a program's function: its source text, parameters and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, MethodType
from typing import Any

from sgc.lang.source import shown_file, source_at
from sgc_ir.errors import CompileError
from sgc_ir.graph import MISSING, Param, Source
from sgc_runtime.executor.arguments import Signature


@dataclass(frozen=True)
class ProgramSpec:
    """A program as written.

    Attributes:
        fn: the function, or bound method, that was decorated.
        first_line: 1-based line in `file` on which `source` begins.
        source: text of the function, taken when it was decorated; None when there is none.
        params: parameters without the state, in order; annotations in the form of `sgc_ir.types`.
        outputs: declared outputs, or None when every node is one.
        bound: values that `bind` fixed.
    """

    fn: Callable[..., Any]
    name: str
    file: str
    first_line: int
    source: str | None
    params: tuple[Param, ...]
    outputs: tuple[str, ...] | None = None
    bound: Mapping[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> Source:
        return source_at(self.file, self.first_line)

    @property
    def signature(self) -> Signature:
        return Signature(self.name, self.params, self.bound)

    def bind(self, values: Mapping[str, Any]) -> ProgramSpec:
        """The program with more arguments fixed. Raises InputError for unknown or bound names."""
        return replace(self, bound=self.signature.bind(values).bound)

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name -> value of every parameter. Raises InputError; see `Signature.arguments`."""
        return self.signature.arguments(args, kwargs)


def make_spec(fn: Any, outputs: Iterable[str] | None = None) -> ProgramSpec:
    """Look at `fn` and refuse by name what cannot be a program. Raises CompileError."""
    code = _code(fn)
    source, first_line = _source_text(code)
    place = source_at(code.co_filename, first_line)
    _check_kind(fn, place)
    return ProgramSpec(
        fn=fn,
        name=fn.__name__,
        file=shown_file(code.co_filename),
        first_line=first_line,
        source=source,
        params=_params(fn, place),
        outputs=_check_outputs(fn, outputs, place),
    )


def _code(fn: Any) -> Any:
    if isinstance(fn, FunctionType | MethodType) and hasattr(fn, "__code__"):
        return fn.__code__
    kind = type(fn).__name__
    raise CompileError(f"@sgc.function: {fn!r} is a {kind}; decorate a plain Python function")


def _source_text(code: Any) -> tuple[str | None, int]:
    try:
        lines, first = inspect.getsourcelines(code)
    except (OSError, TypeError, SyntaxError, IndexError):
        return None, code.co_firstlineno
    return "".join(lines), first or code.co_firstlineno


def _refuse(place: Source, message: str) -> CompileError:
    return CompileError(message, place.file, place.line)


def _check_kind(fn: Any, place: Source) -> None:
    name = fn.__name__
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise _refuse(
            place, f"{name} is an async function; write `def {name}`, calls overlap anyway"
        )
    if inspect.isgeneratorfunction(fn):
        raise _refuse(place, f"{name} is a generator; a program appends and returns, drop `yield`")


def _params(fn: Any, place: Source) -> tuple[Param, ...]:
    from sgc_ir.types import annotation_to_text

    signature = inspect.signature(fn)
    parameters = list(signature.parameters.values())
    _check_state(fn, parameters, place)
    types = _annotations(fn)
    out = []
    for p in parameters[1:]:
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            stars = "*" if p.kind is p.VAR_POSITIONAL else "**"
            raise _refuse(place, f"{fn.__name__}: {stars}{p.name} is refused; name the arguments")
        if p.kind is p.POSITIONAL_ONLY:
            raise _refuse(place, f"{fn.__name__}: {p.name} is positional-only; drop the `/`")
        annotation = types.get(p.name, p.empty)
        out.append(
            Param(
                name=p.name,
                annotation="" if annotation is p.empty else annotation_to_text(annotation),
                default=MISSING if p.default is p.empty else p.default,
                keyword_only=p.kind is p.KEYWORD_ONLY,
            )
        )
    return tuple(out)


def _check_state(fn: Any, parameters: list[inspect.Parameter], place: Source) -> None:
    name = fn.__name__
    first = parameters[0] if parameters else None
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise _refuse(place, f"{name} takes no state; write `def {name}(s, ...)`")
    owner = fn.__qualname__.rpartition(".")[0]
    in_class = bool(owner) and not owner.endswith("<locals>")
    if in_class and not isinstance(fn, MethodType) and first.name in ("self", "cls"):
        raise _refuse(
            place,
            f"{name} is a method of {owner}; decorate a function, or the bound method of an object",
        )


def _annotations(fn: Any) -> dict[str, Any]:
    """Annotations as objects; a name that is not known where the function stands is left out."""
    base = inspect.unwrap(fn)
    found = {}
    for name, annotation in inspect.get_annotations(base).items():
        if not isinstance(annotation, str):
            found[name] = annotation
            continue
        cells = inspect.getclosurevars(base).nonlocals if base.__closure__ else {}
        try:
            found[name] = eval(annotation, base.__globals__, dict(cells))
        except (NameError, AttributeError, TypeError, SyntaxError):
            continue  # a type that exists for checkers only says nothing at run time
    return found


def _check_outputs(fn: Any, outputs: Iterable[str] | None, place: Source) -> tuple[str, ...] | None:
    if outputs is None:
        return None
    if isinstance(outputs, str):
        raise _refuse(place, f"{fn.__name__}: outputs is a string; give a list of variable names")
    names = tuple(outputs)
    if not all(isinstance(n, str) and n for n in names) or len(set(names)) != len(names):
        raise _refuse(
            place, f"{fn.__name__}: outputs={list(names)!r}; give distinct variable names"
        )
    return names
