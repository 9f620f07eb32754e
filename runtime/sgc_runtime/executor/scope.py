"""The place of a program instance and of its nodes in program order."""

from __future__ import annotations

from sgc_ir.params import Usage

Order = tuple[int, ...]  # program order of nodes; compared item by item


class Scope:
    """One program instance: its name, its place in program order, its token counts."""

    __slots__ = ("_count", "prefix", "program", "usage")

    def __init__(self, program: str, prefix: Order = ()) -> None:
        self.program = program
        self.prefix = prefix
        self.usage = Usage()
        self._count = 0

    def order(self) -> Order:
        """Place of the next statement."""
        self._count += 1
        return (*self.prefix, self._count)
