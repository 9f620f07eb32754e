"""The output of `sgc run`: a gapless prefix of the rows, in input order, as they finish."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, TextIO

from sgc.cli.failure import CommandError, advice


class RowOutput(Protocol):
    """Where the lines of a run go."""

    def put(self, index: int, line: str, failed: bool) -> None:
        """Take the line (without its end) of row `index`."""
        ...

    def check(self) -> None:
        """Raise what has ended the writing, if anything did."""
        ...

    def close(self, wait_s: float = -1) -> None:
        """Put down what is finished, also behind a gap, waiting at most `wait_s` seconds for
        another thread that writes (-1 is for ever). Does so once."""
        ...

    def finish(self, all_good: bool) -> None:
        """The run has ended, after `close`."""
        ...


class OrderedWriter:
    """Writes one line a row, in index order whatever the order in which rows finish.

    Safe to use from several threads; after `close`, or a write that failed, further rows are
    dropped. A failed write raises CommandError.

    Args:
        name: what messages call the output.
    """

    def __init__(self, handle: TextIO, name: str = "the output", close_handle: bool = True) -> None:
        self._handle = handle
        self._name = name
        self._close_handle = close_handle
        self._lock = Lock()
        self._waiting: dict[int, str] = {}
        self._next = 0
        self._closed = False

    def put(self, index: int, line: str, failed: bool = False) -> None:
        """Take the line (without its end) of row `index`; write what has become gapless."""
        with self._lock:
            if self._closed:
                return
            self._waiting[index] = line
            if index == self._next:
                self._guarded(self._write_gapless)

    def _write_gapless(self) -> None:
        while (line := self._waiting.pop(self._next, None)) is not None:
            self._handle.write(line + "\n")
            self._next += 1
        self._handle.flush()

    def close(self, wait_s: float = -1) -> None:
        """Append the rows that wait behind a gap, in index order, and close. Does so once.

        Args:
            wait_s: how long to wait for a thread that writes; -1 is for ever.
        """
        if not self._lock.acquire(timeout=wait_s):
            return
        try:
            if not self._closed:
                self._closed = True
                self._guarded(self._write_rest)
        finally:
            self._lock.release()

    def check(self) -> None:
        """A failed write has been raised where it happened."""

    def finish(self, all_good: bool) -> None:
        """There is nothing left to do."""

    def _write_rest(self) -> None:
        for index in sorted(self._waiting):
            self._handle.write(self._waiting[index] + "\n")
        self._handle.flush()
        if self._close_handle:
            self._handle.close()

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError:
            self._closed = True
            if self._close_handle:
                with suppress(OSError):  # closing tries to write again what could not be written
                    self._handle.close()
            with writing(self._name):
                raise


def open_output(path: Path | None) -> OrderedWriter:
    """A writer on `path`, which is emptied, or on standard output for None."""
    if path is not None:
        return OrderedWriter(open(path, "w", encoding="utf-8", newline="\n"), str(path))
    return OrderedWriter(standard_output(), "standard output", close_handle=False)


def standard_output() -> TextIO:
    """Standard output in UTF-8. Raises CommandError in a process that was started without it."""
    if sys.stdout is None:
        raise CommandError("cannot write standard output: it is closed", "write to a file")
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    return sys.stdout


@contextmanager
def writing(name: object) -> Iterator[None]:
    """Turn an OSError of the block into a CommandError that says what could not be written."""
    try:
        yield
    except OSError as error:
        cause = f"cannot write {name}: {error.strerror or error}"
        usual = "make room, or write elsewhere"
        if isinstance(error, BrokenPipeError):
            usual = "write to a file, or keep the reader open"
        raise CommandError(cause, advice(error, usual)) from error


def check_output(path: Path | None, others: Mapping[str, Path | None]) -> None:
    """Refuse a path that cannot be written, or that is one of `others` (what it is -> path).

    Nothing is changed on the disk. Raises CommandError.
    """
    if path is None:
        return
    for what, other in others.items():
        if other is not None and is_same_file(path, other):
            raise CommandError(f"output {path} is the {what}", "write to another file")
    problem = _problem(path)
    if problem:
        raise CommandError(f"cannot write {path}: {problem}", "give another path")


def is_same_file(path: Path, other: Path) -> bool:
    """Whether two paths, which need not exist, are one file."""
    if path.exists() and other.exists():
        return os.path.samefile(path, other) and not path.is_char_device()
    return os.path.realpath(path) == os.path.realpath(other)


def _problem(path: Path) -> str:
    if str(path) == "-":
        return "it is no name of a file here"
    if path.is_dir():
        return "it is a folder"
    if path.is_symlink() and not path.exists():
        return "it is a link to a file that is not there"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    try:
        if path.is_file():
            path.open("ab").close()
        elif path.exists():
            return "" if os.access(path, os.W_OK) else "permission denied"
        else:
            path.open("xb").close()
            path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def output_data(value: Any, place: str = "value") -> Any:
    """`value` as JSON data: tuples become lists, mappings dicts.

    Raises ValueError that names the part which JSON cannot hold.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return _short_integer(value, place)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise ValueError(f"{place} is {value}, which JSON cannot hold")
    if isinstance(value, list | tuple):
        return [output_data(item, f"{place}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        return _plain_object(value, place)
    kind = type(value).__name__
    raise ValueError(f"{place} is a {kind}, which JSON cannot hold; return text, numbers or lists")


def _short_integer(value: int, place: str) -> int:
    try:
        str(value)  # Python refuses to write very long ones
    except ValueError:
        digits = round(value.bit_length() * math.log10(2))
        raise ValueError(
            f"{place} is an integer of about {digits} digits, too long to write; make it a float"
        ) from None
    return value


def _plain_object(value: Mapping[Any, Any], place: str) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise ValueError(f"{place} has the key {key!r}; keys of JSON objects are texts")
    return {key: output_data(item, f"{place}[{key!r}]") for key, item in value.items()}


def encode_line(record: Mapping[str, Any]) -> str:
    """One line of JSON; half surrogate pairs, which no file can hold, are escaped."""
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False)
    return line
