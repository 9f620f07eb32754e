"""Gens that have ended hold nothing: what is frozen meanwhile is freed only where no cycle holds
it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.local import backend, gen, run, stream

from sgc_ir.errors import BackendError
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.engine.request import Request

_LAST = 1  # that the engine's thread has at hand until its next step


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[weakref.ref[Request]]]:
    """All that are made; nothing is collected meanwhile."""
    found: list[weakref.ref[Request]] = []
    begin = Request.__init__

    def noted(request: Request, *args: Any, **options: Any) -> None:
        found.append(weakref.ref(request))
        begin(request, *args, **options)

    monkeypatch.setattr(Request, "__init__", noted)
    gc.collect()
    gc.disable()
    yield found
    gc.enable()


def begun(owner: LocalBackend) -> LocalStream:
    return stream(owner, "The quick")


async def failing(owner: LocalBackend) -> None:
    bias = {str(token): float("-inf") for token in range(owner.tokenizer.vocab_size)}
    with pytest.raises(BackendError, match="logit_bias"):
        await gen(begun(owner), regex="[ab]c", logit_bias=bias)


async def cancelled(owner: LocalBackend) -> None:
    first = asyncio.Event()
    options = {"regex": "[a-z]{3000}", "max_tokens": 900, "on_text": lambda _: first.set()}
    task = asyncio.ensure_future(gen(begun(owner), **options))
    await first.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


CALLS: dict[str, Any] = {
    "free": lambda owner: gen(begun(owner), max_tokens=5),
    "constrained": lambda owner: gen(begun(owner), max_tokens=5, regex="[a-z ]{1,9}b"),
    "samples": lambda owner: gen(
        begun(owner), max_tokens=5, regex="(yes|no) .*", n=2, seeds=(0, 1)
    ),
    "exact": lambda owner: gen(
        begun(owner), max_tokens=9, regex="(yes|no), (a|b)", distribution="exact"
    ),
    "failing": failing,
    "cancelled": cancelled,
}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_gen_that_has_ended_is_freed(
    folder: Path, requests: list[weakref.ref[Request]], name: str, overlap: bool
) -> None:
    async def main(owner: LocalBackend) -> int:
        for _ in range(6):
            await CALLS[name](owner)
        await asyncio.sleep(0.1)
        return sum(request() is not None for request in requests)

    with backend(folder, overlap=overlap) as owner:
        alive = run(lambda: main(owner))
    assert len(requests) >= 6
    assert alive <= _LAST + (name == "samples")
