"""What the library tells the user besides its results, as lines of the command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sgc.cli.failure import one_line, say


@contextmanager
def notes_on_stderr(quiet: bool = False) -> Iterator[None]:
    """Show warnings of the tracer, why a program is not compiled as a whole, and what takes a
    while at the first use; nothing when `quiet`."""
    logger = logging.getLogger("sgc")
    level = logger.level
    logger.setLevel(logging.INFO)
    handler = logging.NullHandler() if quiet else _Lines()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        kind = "note" if record.levelno == logging.INFO else record.levelname.lower()
        say(f"sgc: {kind}: {one_line(record.getMessage())}")
