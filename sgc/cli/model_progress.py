"""What a terminal shows while a model is fetched and loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sgc.cli.failure import on_terminal


@contextmanager
def fetching(name: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback `(bytes so far, bytes in all)` that draws on standard error, or None."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (TextColumn("fetching {task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=None, visible=False)

        def draw(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, visible=True)

        yield draw


@contextmanager
def loading(quiet: bool) -> Iterator[None]:
    """Say on standard error, where that is a terminal, that the model is being loaded."""
    if quiet or not on_terminal():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("loading the model"):
        yield
