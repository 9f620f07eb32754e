"""Streams beside the current one: each object has its own, and joins what it has begun."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
import torch

from sgc_kernels.gpu.attention.side_stream import SideStream

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


class Stream:
    """Notes whom it waits for."""

    def __init__(self, device: torch.device | None = None) -> None:
        self.waits: list[object] = []

    def wait_stream(self, other: object) -> None:
        self.waits.append(other)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """The current stream."""
    stream = Stream()

    @contextlib.contextmanager
    def entered(side: Stream) -> Iterator[Stream]:
        yield side

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    return stream


def test_each_object_has_its_own(main: Stream) -> None:
    one, other = SideStream(), SideStream()
    used = []
    for side in (one, other, one):
        with side.beside(CUDA, True) as stream:
            used.append(stream)
        side.join(CUDA)
    assert used[0] is used[2]
    assert used[0] is not used[1]
    assert main.waits == used
    assert all(waits is main for stream in used for waits in stream.waits)


def test_nothing_beside(main: Stream) -> None:
    side = SideStream()
    for device, some in ((CUDA, False), (CPU, True)):
        with side.beside(device, some) as stream:
            assert stream is None
        side.join(device)
    assert main.waits == []
