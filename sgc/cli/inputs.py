"""Input rows of `sgc run`: JSONL, JSON, CSV or standard input, read lazily, each with its place."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from sgc.cli.failure import CommandError
from sgc_ir.json_text import STRICT, read_json

STDIN = "-"
_FORMATS = {".json": "json", ".csv": "csv"}  # any other ending is read as JSONL
_MAX_DEPTH = 200  # containers in containers; the places that walk values use the call stack
_ENCODING = "utf-8-sig"  # a byte order mark at the begin is not part of the first row


@dataclass(frozen=True, slots=True)
class Row:
    """One input row.

    Attributes:
        index: 0-based position among the rows.
        place: `FILE:LINE` where the row begins, 1-based.
        arguments: name -> value, or None when the row cannot be read.
        problem: why it cannot be read, or "".
        shared_chars: of its first prompt, which rows that start later begin with too, if known.
    """

    index: int
    place: str
    arguments: Mapping[str, Any] | None
    problem: str = ""
    shared_chars: int = 0


class Inputs:
    """The rows of one source.

    Args:
        source: path, or `-` for standard input (JSONL).
        convert: `(name, cell) -> value` for CSV cells; raises ValueError.
    """

    def __init__(self, source: str, convert: Callable[[str, str], Any]) -> None:
        self.source = source
        self._convert = convert
        self._format = "jsonl" if source == STDIN else _FORMATS.get(_suffix(source), "jsonl")

    @property
    def path(self) -> Path | None:
        """The file, or None for standard input."""
        return None if self.source == STDIN else Path(self.source)

    def count(self) -> int | None:
        """Number of rows, None for standard input.

        Reads the file once. Raises CommandError when it cannot be opened, decoded or (JSON, CSV)
        parsed, so that such a file is refused before anything runs.
        """
        if self.path is None:
            return None
        if not self.path.is_file():
            if self.path.exists() and not self.path.is_dir():
                return None  # a pipe can be read only once
            self._refuse("is a folder" if self.path.is_dir() else "there is no such file")
        return sum(1 for _ in self._guarded(self._parts()))

    def rows(self) -> Iterator[Row]:
        """The rows in order. Raises CommandError where the source cannot be read any further."""
        for index, (line, part) in enumerate(self._guarded(self._parts())):
            yield self._row(index, f"{self._name}:{line}", part)

    @property
    def _name(self) -> str:
        return "stdin" if self.source == STDIN else self.source

    def _parts(self) -> Iterator[tuple[int, Any]]:
        # (line, raw row); a raw row is text, a decoded JSON value or the cells of a CSV line
        readers = {"jsonl": _jsonl_parts, "json": _json_parts, "csv": _csv_parts}
        if self.path is None:
            if sys.stdin is None:
                self._refuse("standard input is closed")
            sys.stdin.reconfigure(encoding=_ENCODING, errors="strict")  # type: ignore[union-attr]
            yield from readers[self._format](sys.stdin)
            return
        with open(self.path, encoding=_ENCODING, newline="") as handle:
            yield from readers[self._format](handle)

    def _guarded(self, parts: Iterable[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        try:
            yield from parts
        except UnicodeDecodeError as error:
            self._refuse(f"is not UTF-8 text ({error.reason} at byte {error.start} of a block)")
        except json.JSONDecodeError as error:
            self._refuse(f"is not JSON: line {error.lineno}: {error.msg}")
        except csv.Error as error:
            self._refuse(f"is not CSV: {error}")
        except OSError as error:
            self._refuse(error.strerror or str(error))

    def _refuse(self, why: str) -> NoReturn:
        raise CommandError(f"inputs {self._name}: {why}", "give a readable JSONL, JSON or CSV file")

    def _row(self, index: int, place: str, part: Any) -> Row:
        try:
            if self._format == "csv":
                arguments = self._cells(part)
            else:
                arguments = _json_object(_parse_line(part) if self._format == "jsonl" else part)
        except ValueError as error:
            return Row(index, place, None, str(error))
        return Row(index, place, arguments)

    def _cells(self, cells: Mapping[str | None, Any]) -> dict[str, Any]:
        if None in cells:
            raise ValueError(f"has {len(cells[None])} cells more than the header")
        return {
            name: self._convert(name, cell)
            for name, cell in cells.items()
            if name is not None and cell is not None
        }


def _suffix(source: str) -> str:
    return Path(source).suffix.lower()


def _jsonl_parts(handle: TextIO) -> Iterator[tuple[int, str]]:
    for line, text in enumerate(handle, 1):
        if text.strip():
            yield line, text


def _json_parts(handle: TextIO) -> Iterator[tuple[int, Any]]:
    """The members of a JSON list, each with its line; an object alone is one row."""
    text = handle.read()
    decoder = json.JSONDecoder(**STRICT)
    position = _skip_blanks(text, 0)
    if text[position : position + 1] != "[":
        value, end = _decode(decoder, text, position)
        _expect_end(text, end)
        yield _line_of(text, position), value
        return
    position = _skip_blanks(text, position + 1)
    line, counted = 1, 0
    while text[position : position + 1] != "]":
        line, counted = line + text.count("\n", counted, position), position
        value, end = _decode(decoder, text, position)
        yield line, value
        position = _skip_blanks(text, end)
        if text[position : position + 1] == ",":
            position = _skip_blanks(text, position + 1)
            if text[position : position + 1] == "]":
                raise json.JSONDecodeError("a comma before the end of the list", text, position)
        elif text[position : position + 1] != "]":
            raise json.JSONDecodeError("expected ',' or ']'", text, position)
    _expect_end(text, position + 1)


def _decode(decoder: json.JSONDecoder, text: str, position: int) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, position)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text, position) from None
    except ValueError as error:
        raise json.JSONDecodeError(str(error), text, position) from None


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _expect_end(text: str, position: int) -> None:
    position = _skip_blanks(text, position)
    if position < len(text):
        raise json.JSONDecodeError("more text after the value", text, position)


def _line_of(text: str, position: int) -> int:
    return 1 + text.count("\n", 0, position)


def _csv_parts(handle: TextIO) -> Iterator[tuple[int, dict[str | None, Any]]]:
    csv.field_size_limit(2**31 - 1)  # documents may be long
    reader = csv.reader(handle, strict=True)
    header = next(reader, None)
    if header is None:
        return
    if len(set(header)) < len(header):
        raise csv.Error("a column name stands twice in the header")
    line = reader.line_num + 1
    for cells in reader:
        begin, line = line, reader.line_num + 1
        if cells:
            named: dict[str | None, Any] = dict(zip(header, cells, strict=False))
            if len(cells) > len(header):
                named[None] = cells[len(header) :]
            yield begin, named


def _json_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"is no JSON object of arguments but {_kind(value)}")
    _check_depth(value)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no text") from None
    return value


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        inner = [part.values() if isinstance(part, dict) else part for part in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
        if not level:
            return
    raise ValueError(f"is nested too deeply; {_MAX_DEPTH} levels are the most")


def _parse_line(text: str) -> Any:
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"is not JSON: {error.msg} at column {error.colno}") from None


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
