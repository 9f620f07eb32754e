"""The bar that `run_batch(progress=True)` shows on standard error."""

from __future__ import annotations

import time

from sgc_ir.params import Usage
from sgc_runtime.executor.state import FinishedState


class RowProgress:
    """Rows, tokens a second and hit rate, on the last line of standard error."""

    def __init__(self, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        rates = TextColumn("{task.fields[rates]}")
        self._bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("rows"),
            rates,
            console=Console(stderr=True, highlight=False),
        )
        self._task = self._bar.add_task("run", total=total, rates="")
        self._usage = Usage()
        self._begin = time.monotonic()
        self._bar.start()

    def add(self, state: FinishedState) -> None:
        """A row has finished."""
        self._usage += state.usage
        seconds = max(time.monotonic() - self._begin, 1e-9)
        hit_rate = self._usage.cached_tokens / max(self._usage.prompt_tokens, 1)
        rate = self._usage.completion_tokens / seconds
        rates = f"{rate:.0f} tokens/s, hit rate {100 * hit_rate:.0f} %"
        self._bar.update(self._task, advance=1, rates=rates)

    def close(self) -> None:
        self._bar.stop()
