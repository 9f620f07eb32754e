"""Helpers that several test folders share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import sgc


def load_program(path: Path) -> sgc.Program:
    """The program of a gallery file: the function named like its file."""
    spec = importlib.util.spec_from_file_location(f"gallery_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    program = getattr(module, path.stem)
    assert isinstance(program, sgc.Program)
    return program
