"""What `sgc run` is asked for, and whether its files can be what they are to be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sgc.cli.failure import CommandError
from sgc.cli.output import check_output, is_same_file, standard_output
from sgc.cli.profile import profile_path
from sgc.cli.programs import split_name
from sgc.cli.resuming import JournalOptions, journal_files, journal_path


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asks for; `engine` and `settings` hold the flags that were given."""

    program: str
    backend: str | None
    engine: dict[str, Any]
    settings: dict[str, Any]
    inputs: str | None
    arguments: tuple[str, ...]
    output: Path | None
    tools: Path | None
    stats: Path | None
    trace: Path | None
    record: Path | None
    replay: Path | None
    full_text: bool
    quiet: bool
    profile: bool
    journal: JournalOptions
    no_reorder: bool = False
    explain_breaks: bool = False
    reorder_rows: bool = False
    times: Path | None = None  # a line a row: when it ran, and its tokens
    close: bool = False  # end the engine after the run, in a process that goes on


def check_paths(request: Request) -> None:
    """Refuse files that cannot be written or that are one another. Raises CommandError."""
    inputs = None if request.inputs in (None, "-") else Path(str(request.inputs))
    model = request.engine.get("model")
    taken = {
        "input": inputs,
        "program": split_name(request.program)[0],
        "tools": request.tools,
        "model": None if model is None else Path(model),
        "replayed record": request.replay,
    }
    if request.output is None:
        standard_output()
    check_output(request.output, taken)
    taken["output"] = request.output
    check_output(request.stats, taken)
    check_output(request.record, {**taken, "--stats file": request.stats})
    taken |= {"statistics": request.stats, "record": request.record}
    check_output(request.trace, taken)
    taken["trace"] = request.trace
    check_output(request.times, taken)
    taken["times"] = request.times
    check_output(profile_path(request.output, request.profile), taken)
    journal = journal_path(request.output)
    own = [] if journal is None else journal_files(journal)
    for what, path in taken.items():
        for file in own:
            if path is not None and is_same_file(file, path):
                raise CommandError(f"the journal {file} is the {what}", "write to another file")
