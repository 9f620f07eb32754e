"""Bounds of a program that every reader and writer keeps; nesting cannot exhaust a stack."""

from __future__ import annotations

MAX_VALUE_DEPTH = 64  # containers inside containers in one operand or constant
MAX_BODY_DEPTH = 16  # loops inside loops
MAX_ARTIFACT_BYTES = 64 * 2**20  # default cap of the reader; larger programs need the option
MAX_NODES = 200_000  # of all graphs and bodies together
