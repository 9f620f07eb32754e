"""The journal of `sgc run`: where it lies, whether it is resumed, and what the user decides."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sgc.cli.failure import CommandError
from sgc.cli.inputs import Row
from sgc_ir.json_text import read_json

if TYPE_CHECKING:  # brings in sqlite, which a run without a journal does not need
    from sgc_runtime.journal.journal import Journal
    from sgc_runtime.journal.store import Node

ASSUME_DONE, RERUN = "--assume-done", "--rerun"
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """What the command line says of the journal."""

    resume: bool = False
    keep: bool = True
    assume_done: tuple[str, ...] = ()
    rerun: tuple[str, ...] = ()

    def check(self, output: Path | None) -> None:
        """Raise CommandError for options that do not fit together."""
        if self.resume and not self.keep:
            raise CommandError("--resume together with --no-journal", "drop one")
        if (self.assume_done or self.rerun) and not self.resume:
            option = ASSUME_DONE if self.assume_done else RERUN
            raise CommandError(f"{option} without --resume", "add --resume")
        if self.resume and journal_path(output) is None:
            raise CommandError("--resume without a file to go on with", "give --output OUT")


def journal_path(output: Path | None) -> Path | None:
    """Where the journal of a run to `output` lies; None for what is no regular file."""
    if output is None or (output.exists() and not output.is_file()):
        return None
    if output.is_symlink():  # one file has one journal, by whatever name it is given
        output = Path(os.path.realpath(output))
    return output.with_name(output.name + ".journal")


def journal_files(path: Path) -> list[Path]:
    """The files that a journal at `path` may consist of."""
    return [path.with_name(path.name + suffix) for suffix in ("", "-wal", "-shm")]


def open_journal(path: Path, options: JournalOptions, fingerprint: Mapping[str, Any]) -> Journal:
    """The journal of a run that begins or goes on.

    Raises JournalError, and CommandError for a decision on a node that waits for none.
    """
    from sgc_runtime.journal.journal import create_journal, resume_journal

    if not options.resume:
        return create_journal(path, fingerprint)
    journal = resume_journal(path, fingerprint)
    try:
        _decide(journal, options)
    except BaseException:
        journal.close()
        raise
    return journal


def discard_journal(path: Path) -> None:
    """Make sure that no journal lies beside the output of a run that keeps none.

    Raises JournalError for one that holds finished work.
    """
    if path.exists():
        from sgc_runtime.journal.journal import create_journal

        create_journal(path, {}).close(delete=True)


def open_rows(rows: Iterable[Row], journal: Journal) -> Iterator[Row]:
    """The rows that have to run. Raises JournalError, and CommandError after the last one, where
    the rows are not those of the earlier run."""
    from sgc_runtime.journal.digests import digest

    count = 0
    for row in rows:
        count += 1
        if journal.admit(row.index, digest([row.arguments, row.problem])):
            yield row
    if journal.resumed and journal.last_row() >= count:
        cause = f"there are {count} input rows, but {journal.path} has {journal.last_row() + 1}"
        raise CommandError(cause, "give the same inputs")


def _decide(journal: Journal, options: JournalOptions) -> None:
    waiting = journal.unknown_outcomes()
    done: list[tuple[Node, Any]] = []
    for text in options.assume_done:
        name, given, value = text.partition("=")
        parsed = _value(text, value) if given else None
        done += [(node, parsed) for node in _named(ASSUME_DONE, name, waiting)]
    again = [node for text in options.rerun for node in _named(RERUN, text, waiting)]
    chosen = [(node.row, node.path) for node in [*(node for node, _ in done), *again]]
    for row, path in chosen:
        if chosen.count((row, path)) > 1:
            raise CommandError(f"node {row}:{path} is decided on twice", "decide once")
    if chosen:
        journal.decide(done, again)


def _named(option: str, name: str, waiting: Sequence[Node]) -> list[Node]:
    """The nodes that `[ROW:]PATH` means."""
    row, colon, path = name.rpartition(":")
    found = [n for n in waiting if n.path == path and (not colon or str(n.row) == row)]
    if not found:
        names = ", ".join(f"{node.row}:{node.path}" for node in waiting[:10]) or "none"
        raise CommandError(
            f"{option} {name}: no such node waits for a decision", f"these do: {names}"
        )
    return found


def _value(text: str, value: str) -> Any:
    """Data that a tool could have given."""
    from sgc_runtime.executor.tools import plain_json

    try:
        return plain_json(read_json(value))
    except ValueError as error:
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        raise CommandError(
            f"{ASSUME_DONE} {shown}: not JSON data: {error}", "give NODE=JSON"
        ) from None
