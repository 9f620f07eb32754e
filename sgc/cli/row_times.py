"""When each row of a run ran, on one clock; kept beside the output when that is asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sgc.cli.output import encode_line, writing
from sgc_ir.params import Usage

_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "forced_tokens", "scored_tokens")


class RowTimes:
    """Seconds from the start of the run to the begin and the end of each row.

    Args:
        path: of a file that gets a line a row, in the order in which they finish: `begin_s`,
            `end_s`, the row's token counts, and the model calls of the run so far. None: no file.
            It goes on behind what is in it, so that a run that was broken off keeps its lines;
            each run begins with a line of its own.
    """

    def __init__(self, path: Path | None, resumed: bool) -> None:
        self._path = path
        self._started = time.monotonic()
        self._begun: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._file = None
        if path is not None:
            with writing(path):
                self._file = open(path, "a" if resumed else "w", encoding="utf-8", newline="\n")
        self._write({"run": "resumed" if resumed else "begun"})

    @contextmanager
    def running(self, index: int) -> Iterator[None]:
        """While row `index` runs."""
        self._begun[index] = self._now()
        try:
            yield
        finally:
            self._ended[index] = self._now()

    def finished(self, index: int, usage: Usage, calls: int, peak_kv_tokens: int | None) -> float:
        """The row has ended: its seconds, 0.0 for one that never ran."""
        begin, end = self._begun.pop(index, 0.0), self._ended.pop(index, 0.0)
        times = {"begin_s": round(begin, 6), "end_s": round(end, 6)}
        tokens = {name: getattr(usage, name) for name in _TOKENS}
        so_far = {"calls": calls, "peak_kv_tokens": peak_kv_tokens}
        self._write({"index": index} | times | tokens | so_far)
        return end - begin

    def _now(self) -> float:
        return time.monotonic() - self._started

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            with writing(self._path):
                self._file.write(encode_line(line) + "\n")
                self._file.flush()

    def __enter__(self) -> RowTimes:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()
