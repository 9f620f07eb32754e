"""Puts the source roots of a bare clone on the import path, so that it works without an install."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

ROOMS = ("ir", "runtime", "kernels")


def bootstrap() -> None:
    """Append each room that stands beside this package, unless the packages are installed."""
    if find_spec("sgc_ir") is not None:
        return
    root = Path(__file__).resolve().parent.parent
    sys.path.extend(str(root / room) for room in ROOMS if (root / room / f"sgc_{room}").is_dir())


bootstrap()
