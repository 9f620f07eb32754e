"""White space of JSON texts: three fixed styles, as `json.dumps` writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sgc_ir.errors import ConstraintError


@dataclass(frozen=True, slots=True)
class Style:
    """Separators.

    Attributes:
        comma: between members and items, where they are not on lines of their own.
        colon: between name and value.
        indent: spaces for each level, members and items on lines of their own; 0: one line.
    """

    comma: str
    colon: str
    indent: int = 0

    def before(self, started: bool, depth: int) -> bytes:
        """What stands before a member or item inside `depth` containers."""
        if not self.indent:
            return self.comma.encode() if started else b""
        return ("," * started + "\n" + " " * self.indent * depth).encode()

    def after(self, started: bool, depth: int) -> bytes:
        """What stands before the closing bracket of a container inside `depth` containers."""
        return ("\n" + " " * self.indent * depth).encode() if self.indent and started else b""


class Level(NamedTuple):
    """How a value is written at its place.

    Attributes:
        depth: how many containers it is in.
        single: each value has one text, so that different texts are different values.
    """

    depth: int
    single: bool = False

    @property
    def below(self) -> Level:
        return self._replace(depth=self.depth + 1)

    @property
    def name(self) -> str:
        return f"{self.depth}{'s' * self.single}"


STYLES = {
    "compact": Style(",", ":"),
    "spaced": Style(", ", ": "),
    "pretty": Style(",", ": ", 2),
}


def style_named(name: str) -> Style:
    """The style of a name; raises `ConstraintError` for others."""
    if name not in STYLES:
        raise ConstraintError(
            f"{name!r} is no style of JSON; take one of {', '.join(STYLES)}", kind="malformed"
        )
    return STYLES[name]
