"""Runs evaluation suites: each is a run of `sgc run` over the rows of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sgc.cli.failure import FAILED, OK, CommandError, one_line, say
from sgc.cli.output import encode_line
from sgc.cli.request import Request
from sgc.cli.resuming import JournalOptions
from sgc.cli.session import run_session
from sgc.eval import data
from sgc.eval.figures import figures_of, samples_of, score_rows
from sgc.eval.folder import SuiteFolder, read_object, write_json, write_lines
from sgc.eval.options import BUILTIN, HUB, EvalOptions
from sgc.eval.registry import program_of
from sgc.eval.suite import Row, Suite
from sgc_ir.errors import EvalDataError

_SHOWN_PROBLEMS = 5


def run_suites(suites: Sequence[Suite], options: EvalOptions) -> tuple[dict[str, Any], int]:
    """The figures of each suite by name, and the exit code.

    The files of all suites are read before the first one runs. One whose file is missing or lacks
    a column is left out, unless it is the only one or `options.strict`.

    Raises EvalDataError, and what keeps a run from starting.
    """
    loaded = _load_all(suites, options)
    figures, code = {}, OK if len(loaded) == len(suites) else FAILED
    for suite, rows in loaded:
        if not options.quiet:
            say(f"sgc: {suite.name}: {len(rows):,} rows")
        figures[suite.name] = run_suite(suite, rows, options)
        code = FAILED if figures[suite.name]["failed"] else code
    return figures, code


def run_suite(suite: Suite, rows: Sequence[Row], options: EvalOptions) -> dict[str, Any]:
    """Run the rows of a suite, or what is left of them, and score them; gives the figures."""
    folder = SuiteFolder(options.report / suite.name)
    runnable = [row for row in rows if not row.problem]
    if not _is_finished(suite, runnable, options, folder):
        _run_rows(suite, runnable, options, folder)
    scored = score_rows(suite, rows, folder)
    write_lines(folder.scores, scored)
    if options.samples:
        write_lines(folder.samples, samples_of(rows, scored, folder))
    return figures_of(suite, scored, folder, options.seed)


def load_suite(suite: Suite, options: EvalOptions) -> list[Row]:
    """The rows of a suite. Raises EvalDataError, with `options.strict` also for a broken row."""
    rows = suite.load(data_folder(suite, options.data), options.loading)
    problems = [row.problem for row in rows if row.problem]
    if options.strict and problems:
        raise EvalDataError(f"{problems[0]}; mend it, or run without --strict")
    if len(problems) == len(rows):
        raise EvalDataError(f"{suite.name}: {problems[0] if problems else 'there are no rows'}")
    if not options.quiet:
        for problem in problems[:_SHOWN_PROBLEMS]:
            say(f"sgc: {suite.name}: {one_line(problem)}")
        if len(problems) > _SHOWN_PROBLEMS:
            say(f"sgc: {suite.name}: {len(problems) - _SHOWN_PROBLEMS:,} more broken rows")
    return rows


def data_folder(suite: Suite, place: str) -> Path:
    """Where the files of a suite lie. Raises EvalDataError."""
    if place == HUB and suite.files:
        from sgc.eval.hub import fetch_files

        return fetch_files(suite)
    folder = (data.BUILTIN if place == BUILTIN else Path(place)) / suite.folder
    if suite.files and not folder.is_dir():
        raise EvalDataError(
            f"{suite.name}: there is no folder {folder}; it reads {', '.join(suite.files)} "
            "below --data"
        )
    return folder


def _load_all(suites: Sequence[Suite], options: EvalOptions) -> list[tuple[Suite, list[Row]]]:
    loaded, left_out = [], []
    for suite in suites:
        try:
            loaded.append((suite, load_suite(suite, options)))
        except EvalDataError as error:
            if options.strict or len(suites) == 1:
                raise
            left_out.append(error)
            say(f"sgc: {suite.name} is left out: {one_line(str(error))}")
    if not loaded:
        raise left_out[0]
    return loaded


def _is_finished(
    suite: Suite, rows: Sequence[Row], options: EvalOptions, folder: SuiteFolder
) -> bool:
    """Whether the folder holds the whole run. Raises CommandError for that of another one."""
    if not options.resume or not folder.finished.exists() or folder.has_journal:
        return False
    now = "".join(encode_line(row.arguments) + "\n" for row in rows)
    before = read_object(folder.finished)
    different = [
        name for name, value in _facts(suite, options).items() if before.get(name) != value
    ]
    if folder.rows.read_text("utf-8") != now:
        different.insert(0, "rows")
    if different:
        cause = f"{folder.path} holds a run with other {', '.join(different)}"
        raise CommandError(cause, "give the same flags and data, or another --report")
    return True


def _facts(suite: Suite, options: EvalOptions) -> dict[str, Any]:
    """What has to be the same for a finished run to stand for this one, as JSON data."""
    settings, engine = options.settings_of(suite), options.engine_of(suite)
    found = {"settings": settings, "engine": engine, "samples": options.samples}
    plain: dict[str, Any] = json.loads(json.dumps(found))
    return plain


def _run_rows(suite: Suite, rows: Sequence[Row], options: EvalOptions, folder: SuiteFolder) -> None:
    folder.write_rows(rows)
    folder.finished.unlink(missing_ok=True)
    code = run_session(
        Request(
            program=program_of(suite),
            backend=options.backend,
            engine=options.engine_of(suite),
            settings=options.settings_of(suite),
            inputs=str(folder.rows),
            arguments=(),
            output=folder.outputs,
            tools=None,
            stats=folder.stats,
            trace=None,
            record=folder.calls if options.samples else None,
            replay=None,
            full_text=options.samples,
            quiet=options.quiet,
            profile=False,
            journal=JournalOptions(resume=options.resume and folder.has_journal),
            times=folder.times,
            close=True,
        )
    )
    if code == OK:
        write_json(folder.finished, _facts(suite, options))
