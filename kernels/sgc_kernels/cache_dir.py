"""The directory for what is made once on a machine and kept: compiled code, converted weights,
fetched models."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`$SGC_CACHE`, else `$XDG_CACHE_HOME/sgc`, else `~/.cache/sgc`."""
    if own := os.environ.get("SGC_CACHE"):
        return Path(own).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).expanduser() / "sgc"
    return Path("~/.cache/sgc").expanduser()
