"""What the library logs, as lines of the command."""

from __future__ import annotations

import logging

import pytest

from sgc.cli.notes import notes_on_stderr


def test_notes_and_warnings_are_lines_and_quiet_hides_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("sgc")
    level = logger.level
    for quiet in (False, True):
        with notes_on_stderr(quiet):
            logger.info("compiling")
            logger.warning("twice")
            logger.debug("never")
        shown = capsys.readouterr().err
        assert shown == ("" if quiet else "sgc: note: compiling\nsgc: warning: twice\n")
    assert logger.level == level
