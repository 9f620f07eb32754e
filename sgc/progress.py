"""The line that `run_batch(progress=True)` shows on standard error."""

from __future__ import annotations

import time

from sgc.live_line import Figure, LiveLine
from sgc_ir.params import Usage
from sgc_runtime.executor.state import FinishedState


class RowProgress:
    """Rows, tokens a second and hit rate, on the last line of standard error."""

    def __init__(self, total: int | None) -> None:
        from rich.console import Console

        self._line = LiveLine(Console(stderr=True, highlight=False), total, transient=False)
        self._rows = 0
        self._usage = Usage()
        self._begin = time.monotonic()

    def add(self, state: FinishedState) -> None:
        """A row has finished."""
        self._rows += 1
        self._usage += state.usage
        seconds = max(time.monotonic() - self._begin, 1e-9)
        hits = f"{100 * self._usage.cached_tokens / max(self._usage.prompt_tokens, 1):.0f} %"
        rate = f"{self._usage.completion_tokens / seconds:.0f}"
        figures = (
            Figure(f"{rate} tokens/s", f"{rate} tok/s"),
            Figure(f"hit rate {hits}", f"hit {hits}"),
        )
        self._line.show(self._rows, figures)

    def close(self) -> None:
        self._line.close()
