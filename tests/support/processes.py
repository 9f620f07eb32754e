"""Whether processes have ended."""

from __future__ import annotations

import time
from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet waited for does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def gone(pid: int | None, within_s: float = 5.0) -> bool:
    """Whether a process ends in that time."""
    assert pid is not None
    until = time.monotonic() + within_s
    while is_alive(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
