"""Options of `sgc compile` that choose passes, and what passes say of themselves."""

from __future__ import annotations

from collections.abc import Iterable

from sgc.cli.failure import CommandError
from sgc_ir.graph import Program
from sgc_ir.passes.base import Context, Report
from sgc_ir.passes.manager import PASSES, check_names, defaults

NONE = "none"


def chosen(listed: str | None, also: Iterable[str]) -> tuple[str, ...]:
    """Names of the passes that run.

    Args:
        listed: value of `--passes`: names, `default`, `none`; with `-NAME` one is left out.
        also: passes that other options ask for.

    Raises CommandError for an unknown name.
    """
    names = set(defaults()) if listed is None or listed.startswith("-") else set()
    for word in (listed or "").split(","):
        name = word.strip()
        if name == "default":
            names |= set(defaults())
        elif name.startswith("-"):
            names.discard(_known(name[1:]))
        elif name and name != NONE:
            names.add(_known(name))
    return check_names([*names, *also])


def asked_for(outputs: str | None, merge: bool, reorder: bool) -> list[str]:
    """Passes that options of their own ask for."""
    wanted = {"dead": outputs is not None, "merge": merge, "reorder": reorder}
    return [name for name, is_wanted in wanted.items() if is_wanted]


def names_of(outputs: str | None) -> tuple[str, ...] | None:
    """The names in `--outputs`; None where it is not given."""
    if outputs is None:
        return None
    return tuple(name.strip() for name in outputs.split(",") if name.strip())


def check_outputs(program: Program, outputs: Iterable[str] | None) -> None:
    """Raises CommandError for a declared output that the program does not set."""
    there = program.graph.nodes[-1].attrs["vars"]
    for name in outputs or ():
        if name not in there:
            raise CommandError(
                f"--outputs: {program.main} sets no variable {name!r}",
                "name variables of its own stream; its result is kept in any case",
            )


def _known(name: str) -> str:
    if name not in PASSES:
        raise CommandError(
            f"--passes: there is no pass {name!r}", f"the passes are {', '.join(PASSES)}"
        )
    return name


def context(passes: Iterable[str], model: str | None) -> Context:
    """What the passes know: where one counts tokens, how model `model` counts them.

    Raises ModelError for a tokenizer that cannot be loaded.
    """
    if model is None or "reorder" not in passes:
        return Context()
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(resolve(model))
    return Context(count_tokens=lambda text: len(tokenizer.encode(text)), unit="tokens")


def explain(reports: Iterable[Report]) -> str:
    """What each pass is for, and what it did, change by change."""
    lines = []
    for report in reports:
        lines.append(f"{report} ({PASSES[report.name].sense})")
        lines += [f"  {change}" for change in (*report.changes, *report.remarks)]
    return "\n".join(lines) + "\n" if lines else "no passes\n"


def help_text() -> str:
    """The help of `--passes`, which lists them."""
    named = [f"{name} ({row.sense})" for name, row in PASSES.items()]
    return (
        "Passes to run instead of the default ones, with commas between them; `none`, `default`, "
        f"`-NAME` leaves one out. There are: {'; '.join(named)}. "
        f"Default: {','.join(defaults())}."
    )
