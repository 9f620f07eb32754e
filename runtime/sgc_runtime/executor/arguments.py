"""The arguments of a call against a program's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sgc_ir.errors import InputError
from sgc_ir.graph import MISSING, Param


@dataclass(frozen=True)
class Signature:
    """Parameters of the program `name`; `bound` holds values that are fixed."""

    name: str
    params: tuple[Param, ...]
    bound: Mapping[str, Any] = field(default_factory=dict)

    def bind(self, values: Mapping[str, Any]) -> Signature:
        """With more arguments fixed. Raises InputError for unknown names and bound ones."""
        self._check_names(values)
        self._check_types(values)
        return replace(self, bound={**self.bound, **values})

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Name -> value of every parameter, in order.

        Positional arguments fill the parameters that are not bound and not keyword-only. Raises
        InputError for a missing, unknown or doubled argument and for one of the wrong type.
        """
        self._check_names(kwargs)
        given = {**self._positional(args, kwargs), **kwargs}
        self._check_types(given)
        values = {p.name: p.default for p in self.params} | dict(self.bound) | given
        missing = [name for name, value in values.items() if value is MISSING]
        if missing:
            raise InputError(f"{self.name}: missing argument {', '.join(missing)}; give a value")
        return values

    def _positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        names = [p.name for p in self.params if not p.keyword_only and p.name not in self.bound]
        if len(args) > len(names):
            raise InputError(
                f"{self.name}: {len(args)} positional arguments, but it takes {len(names)}"
                f" ({', '.join(names) or 'none'})"
            )
        given = dict(zip(names, args, strict=False))
        for name in given:
            if name in kwargs:
                raise InputError(f"{self.name}: argument {name} is given twice; drop one")
        return given

    def _check_names(self, values: Mapping[str, Any]) -> None:
        names = [p.name for p in self.params]
        for name in values:
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(f"{self.name}: unknown argument {name}; its arguments are {known}")
            if name in self.bound:
                raise InputError(f"{self.name}: argument {name} is bound already; leave it out")

    def _check_types(self, values: Mapping[str, Any]) -> None:
        from sgc_ir.types import check_value

        for param in self.params:
            if param.name in values and param.annotation:
                try:
                    check_value(values[param.name], param.annotation)
                except ValueError as error:
                    raise InputError(f"{self.name}: argument {param.name}: {error}") from None
