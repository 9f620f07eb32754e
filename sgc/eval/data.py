"""Reads the files of a benchmark row by row, and says of every fault in which line it stands."""

from __future__ import annotations

import csv
import io
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sgc.eval.suite import Row
from sgc_ir.errors import EvalDataError
from sgc_ir.json_text import read_json

BUILTIN = Path(__file__).with_name("builtin")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a file.

    Attributes:
        place: `FILE:LINE`, 1-based; FILE is relative to the folder of the suite.
        data: the JSON value, the cells (a list), or the cells by column name.
        problem: why it cannot be used, with the place, or "".
    """

    place: str
    data: Any = None
    problem: str = ""

    def broken(self, why: str) -> Record:
        """The same row, which cannot be used."""
        return Record(self.place, self.data, f"{self.place}: {why}")


def find_files(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` that match, by name. Raises EvalDataError where there are none."""
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not found:
        raise EvalDataError(f"there is no file {folder / pattern}; {_ADVICE}")
    return found


def read_jsonl(path: Path, fields: Sequence[str] = ()) -> list[Record]:
    """The JSON values of a file of one a line; blank lines are left out.

    Args:
        fields: names that every object has. A row without one is broken; a name that no row has
            is a wrong file.

    Raises EvalDataError for a file that cannot be read and for a field that no row has.
    """
    records = []
    for line, text in enumerate(_lines(path), 1):
        if text.strip():
            records.append(_parsed(Record(place(path, line)), text))
    return _with_fields(path, records, fields)


def read_json_file(path: Path) -> Any:
    """The JSON value of a file. Raises EvalDataError."""
    try:
        return read_json(_text(path))
    except ValueError as error:
        raise EvalDataError(f"{path}: not JSON: {error}; {_ADVICE}") from None


def read_csv(path: Path, columns: Sequence[str], header: bool = True) -> list[Record]:
    """The rows of a csv file, by column name; blank lines are left out.

    Args:
        columns: names of the columns that are needed, found in the header; without one these are
            all columns of the file, in order.

    Raises EvalDataError for a file that cannot be read, and for a column that is not there.
    """
    lines = _csv_lines(path)
    names = list(columns)
    if header:
        names = next(lines, (0, []))[1]
        for column in columns:
            if column not in names:
                raise EvalDataError(
                    f"{place(path, 1)}: there is no column {column!r} but {', '.join(names)}; "
                    f"{_ADVICE}"
                )
    records = [_named(Record(place(path, line)), names, cells) for line, cells in lines]
    if records and all(record.problem for record in records):
        raise EvalDataError(f"{records[0].problem}, and so in all rows; {_ADVICE}")
    return records


def read_lines(path: Path) -> list[Record]:
    """The lines of a text file, without blank ones. Raises EvalDataError."""
    lines = enumerate(_lines(path), 1)
    return [Record(place(path, n), text) for n, text in lines if text.strip()]


def _lines(path: Path) -> list[str]:
    # Not splitlines(): JSON may hold other line separators, such as U+2028, inside its texts.
    return _text(path).split("\n")


def place(path: Path, line: int) -> str:
    """`FILE:LINE`, with the last two folders of the file."""
    return f"{Path(*path.parts[-3:])}:{line}"


def make_rows(records: Iterable[Record], make: Callable[[int, Record], Row]) -> list[Row]:
    """A row of each record; one that is broken, or of which `make` raises ValueError, KeyError,
    IndexError or TypeError, comes as a row with its problem."""
    rows = []
    for index, record in enumerate(records):
        problem = record.problem
        if not problem:
            try:
                rows.append(make(index, record))
                continue
            except (ValueError, LookupError, TypeError) as error:
                problem = record.broken(f"{type(error).__name__}: {error}").problem
        rows.append(Row(record.place, {}, problem=problem))
    return rows


def only_entry(data: Any) -> tuple[str, Any]:
    """Name and value of an object that has one. Raises ValueError for anything else."""
    if not isinstance(data, dict) or len(data) != 1:
        raise ValueError("not an object of one name and its value")
    ((name, value),) = data.items()
    return name, value


def sample(items: Sequence[T], limit: int | None, seed: int, group: Callable[[T], str]) -> list[T]:
    """At most `limit` items, spread evenly over their groups, in the order in which they stand.

    A larger limit takes the same items and more.
    """
    if limit is None or limit >= len(items):
        return list(items)
    members = defaultdict(list)
    for index, item in enumerate(items):
        members[group(item)].append(index)
    for name, indexes in members.items():
        random.Random(f"{seed}/{name}").shuffle(indexes)
    order = list(members.values())
    random.Random(f"{seed}").shuffle(order)
    longest = max(map(len, order))
    turns = [indexes[turn] for turn in range(longest) for indexes in order if turn < len(indexes)]
    return [items[index] for index in sorted(turns[:limit])]


def sample_rows(rows: Sequence[Row], limit: int | None, seed: int) -> list[Row]:
    """`sample` of rows by their group."""
    return sample(rows, limit, seed, lambda row: row.group)


_ADVICE = "see `sgc eval --help` and docs/evaluation.md for the forms of the files"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise EvalDataError(f"{path}: not UTF-8 text ({error.reason}); {_ADVICE}") from None
    except OSError as error:
        cause = "there is no such file" if not path.exists() else error.strerror or str(error)
        raise EvalDataError(f"{path}: {cause}; {_ADVICE}") from None


def _parsed(record: Record, text: str) -> Record:
    try:
        return Record(record.place, read_json(text))
    except ValueError as error:
        return record.broken(f"not JSON: {error}")


def _with_fields(path: Path, records: list[Record], fields: Sequence[str]) -> list[Record]:
    for name in fields:
        if records and not any(_has(record, name) for record in records):
            raise EvalDataError(f"{path}: no row has the field {name!r}; {_ADVICE}")
    return [_checked(record, fields) for record in records]


def _has(record: Record, name: str) -> bool:
    return isinstance(record.data, dict) and name in record.data


def _checked(record: Record, fields: Sequence[str]) -> Record:
    lacking = [name for name in fields if not _has(record, name)]
    if record.problem or not lacking:
        return record
    return record.broken(f"there is no field {lacking[0]!r}")


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(2**31 - 1)  # documents may be long
    reader = csv.reader(io.StringIO(_text(path), newline=""))
    line = 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise EvalDataError(f"{place(path, line)}: not CSV: {error}; {_ADVICE}") from None


def _named(record: Record, names: Sequence[str], cells: list[str]) -> Record:
    if len(cells) != len(names):
        return record.broken(f"there are {len(cells)} columns and not {len(names)}")
    return Record(record.place, dict(zip(names, cells, strict=True)))
