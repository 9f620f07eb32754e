"""A second stream beside the current one, for work of one object."""

from __future__ import annotations

import contextlib

import torch


class SideStream:
    """Each object that works beside has its own: another one's may be under capture by now, and
    what it waits for is nothing to others. On a CPU everything is one after the other."""

    def __init__(self) -> None:
        self._stream: torch.cuda.Stream | None = None
        self._begun = False

    def beside(self, device: torch.device, some: bool) -> contextlib.AbstractContextManager[object]:
        """What is launched within it runs behind all that was launched before, and beside what
        comes until `join`; where `some` is false it runs in order."""
        self._begun = some and device.type == "cuda"
        if not self._begun:
            return contextlib.nullcontext()
        if self._stream is None:
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))
        return torch.cuda.stream(self._stream)

    def join(self, device: torch.device) -> None:
        """What is launched from now on runs behind the work beside, too."""
        if self._begun:
            assert self._stream is not None
            torch.cuda.current_stream(device).wait_stream(self._stream)
            self._begun = False
