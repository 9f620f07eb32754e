"""Event loops of several threads share what seams remember."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from support.engine import Letters

from sgc_runtime.engine import seams as module
from sgc_runtime.engine.seams import Seams
from sgc_runtime.executor.backend import Text


@pytest.fixture
def busy_switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy_switching")
def test_threads_may_join_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMO_ENTRIES", 2)
    seams = Seams(Letters())
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for i in range(4000):
                text = "ABCDEFGH"[(i + number) % 8]
                found = seams.join(np.empty(0, np.int32), [Text(text)]).ids.tolist()
                if found != [ord(text) - 63]:
                    wrong.append(found)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
