"""What an evaluation suite is: an LM program, a loader that makes its rows, and a scorer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a suite.

    Attributes:
        id: names the row in every report, whatever the sample; unique in the suite.
        arguments: of the program, as JSON data.
        expected: what the scorer compares with.
        group: subject, kind or the like; the report gives figures for each group.
        problem: why the row cannot be run, with its place (`FILE:LINE: ...`), or "".
    """

    id: str
    arguments: dict[str, Any]
    expected: Any = None
    group: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What the user asks of a loader.

    Attributes:
        limit: rows at most, None for all: a sample by `seed` that is spread over the groups and
            keeps the order of the files (`sgc.eval.data.sample` takes it).
        shots: solved examples in each prompt, None for as many as the suite has by default.
            A row that is shown as an example is never a test item.
    """

    limit: int | None = None
    seed: int = 0
    shots: int | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """How good one answer is.

    Attributes:
        value: 0 to 1; 0 or 1 where an answer is wrong or right.
        detail: what led to it. The report also gives the mean of numbers in it, by name.
    """

    value: float
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hub:
    """A data set of the Hugging Face hub, and how its rows become the files of the suite.

    Attributes:
        dataset: name on the hub.
        splits: path of a file below the data folder (`{field}` is replaced by that field of the
            row, such as the subject) -> split of the data set.
        convert: a row of the data set -> the JSON object of a `.jsonl` file, or the cells of a
            `.csv` file.
    """

    dataset: str
    splits: Mapping[str, str]
    config: str | None = None
    convert: Callable[[Mapping[str, Any]], Any] = dict


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite. A module of `sgc.eval.suites` holds one as `SUITE`, or several as `SUITES`.

    Attributes:
        name: on the command line.
        title: in reports; suites that are parts of one benchmark share it.
        program: name of the `@sgc.function` in the suite's module.
        folder: of its data, below the data folder and below `builtin/`.
        load: makes the rows from that folder. A broken row comes with its `problem`; a missing
            file or a column that is nowhere raises EvalDataError.
        score: of a row that ran, from its record of `sgc run` (`vars`, `value`); None for a row
            that has no score, and None here for a suite without accuracy.
        metric: what `score` measures, in words of the field.
        files: forms of the files that it reads, relative to the data folder, for messages and help.
        defaults: settings of `sgc run` by field name (`temperature`, `max_tokens`, `parallel`...),
            which flags of the user override.
        notes: what it is and what it is not, deviations from the published benchmark included.
        hub: where its data can be fetched, if anywhere.
    """

    name: str
    title: str
    program: str
    folder: str
    load: Callable[[Path, LoadOptions], list[Row]]
    score: Callable[[Row, Mapping[str, Any]], Score | None] | None
    metric: str
    files: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    notes: str = ""
    hub: Hub | None = None
