"""What the library tells the user besides its results, as lines of the command."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sgc.cli.failure import one_line, say


@contextmanager
def notes_on_stderr(quiet: bool = False) -> Iterator[None]:
    """Show warnings of the tracer, and why a program runs interpreted; nothing when `quiet`."""
    logger = logging.getLogger("sgc")
    handler = logging.NullHandler() if quiet else _Lines()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say(f"sgc: {record.levelname.lower()}: {one_line(record.getMessage())}")
