"""The text form of programs, the one that people read, diff and write tests in."""

from __future__ import annotations

from sgc_ir.textform.parser import parse_program
from sgc_ir.textform.printer import print_node, print_program, value_text

__all__ = ["parse_program", "print_node", "print_program", "value_text"]
