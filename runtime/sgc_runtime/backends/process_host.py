"""The process of an engine: a `LocalBackend` that is asked by messages.

It lives as long as the process that started it: it ends when that says so, or at once when that is
gone, however it ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from sgc_ir.errors import BackendError
from sgc_runtime.backends.local import LocalBackend, LocalStream
from sgc_runtime.backends.process_channel import Channel, packed
from sgc_runtime.backends.process_messages import (
    Plain,
    call_of,
    plain_error,
    plain_result,
    result_of,
)
from sgc_runtime.executor.backend import Call, Text

Texts = Sequence[tuple[str, bool]]  # and whether it is control text

_LOOK_S = 1.0  # between looks at whether the other process is still there
_LAST_CALLS_S = 1.0  # for calls in flight to fail, at the end
_LAST_WORDS_S = 5.0  # for what is still to be sent at the end


class Host:
    """Answers the messages of one connection; everything on one event loop."""

    def __init__(self, end: socket.socket, parent: int) -> None:
        self._socket, self._channel = end, Channel(end)
        self._parent = parent
        self._loop = asyncio.get_running_loop()
        self._outbox: list[bytes] = []
        self._texts: list[Any] = []  # numbers and pieces in turn, behind the outbox
        self._backend: LocalBackend | None = None
        self._streams: dict[int, _Stream] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loading: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._handlers: dict[str, Callable[..., None]] = {
            name.removeprefix("on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("on_")
        }

    async def serve(self) -> None:
        """Returns when it was told to end, and ends the process when nobody is there to tell."""
        self._loop.add_reader(self._socket, self._read)
        self._look()
        await self._ended.wait()

    def _read(self) -> None:
        messages = self._channel.receive()
        if messages is None:
            os._exit(0)
        try:
            for kind, *rest in messages:
                self._handlers[kind](*rest)
        except Exception:  # a defect, behind which nothing can be relied on
            traceback.print_exc()
            os._exit(1)

    def _look(self) -> None:
        """A process forked from the other one may keep the connection open without it."""
        if os.getppid() != self._parent:
            os._exit(0)
        self._loop.call_later(_LOOK_S, self._look)

    def _post(self, *message: Any) -> None:
        self._flush_soon()
        self._lay_down_texts()
        self._outbox.append(packed(*message))

    def _post_text(self, number: int, piece: str) -> None:
        """A step gives a piece to each call that streams: they go as one message."""
        self._flush_soon()
        self._texts += (number, piece)

    def _lay_down_texts(self) -> None:
        if self._texts:
            self._outbox.append(packed("texts", self._texts))
            self._texts = []

    def _flush_soon(self) -> None:
        if not self._outbox and not self._texts:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._lay_down_texts()
        messages, self._outbox = self._outbox, []
        if messages:
            self._channel.send(messages)

    # -- what is not answered -------------------------------------------------------------------

    def on_start(self, model: str, options: dict[str, Any], level: int) -> None:
        self._backend = LocalBackend(model, **options)
        logger = logging.getLogger("sgc")
        logger.setLevel(level)
        logger.addHandler(_Lines(self._loop, self._post))

    def on_fork(self, stream: int, unsent: Texts, new: int) -> None:
        self._streams[new] = _Stream(self._grown(stream, unsent).local.fork())

    def on_hint(self, stream: int, unsent: Texts, facts: dict[str, Any]) -> None:
        self._grown(stream, unsent).local.hint(**facts)

    def on_drop(self, stream: int) -> None:
        self._streams.pop(stream).local.close()

    def on_cancel(self, number: int, stream: int) -> None:
        task = self._tasks.get(number)
        if task is not None and not task.done():
            task.cancel()
        elif stream in self._streams:  # it had ended, and nobody takes the answer
            self._streams[stream].undo(number)

    # -- what is answered -----------------------------------------------------------------------

    def on_call(self, number: int, stream: int, unsent: Texts, plain: Plain) -> None:
        call = call_of(plain, lambda piece: self._post_text(number, piece))
        self._load_once()
        self._begin(number, self._grown(stream, unsent), self._generate, call)

    def on_restore(
        self, number: int, stream: int, unsent: Texts, plain: Plain, result: Plain
    ) -> None:
        call, first = call_of(plain, lambda piece: None), result_of(result)

        async def restore(local: LocalStream, call: Call) -> None:
            await local.restore(call, [first])

        self._begin(number, self._grown(stream, unsent), restore, call)

    def on_load(self, number: int) -> None:
        self._load_once()
        self._task(number, self._answered(number, self._wait_for_model()))

    def on_identity(self, number: int) -> None:
        async def identity() -> Any:
            return dict(await asyncio.to_thread(self._local.identity))

        self._task(number, self._answered(number, identity()))

    def on_stats(self, number: int) -> None:
        self._post("done", number, dict(self._local.stats()))

    def on_close(self) -> None:
        self._task(-1, self._close())

    # -- below ----------------------------------------------------------------------------------

    @property
    def _local(self) -> LocalBackend:
        assert self._backend is not None, "the first message is `start`"
        return self._backend

    def _grown(self, name: int, unsent: Texts) -> _Stream:
        """A stream, opened at its first use, with further text."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = _Stream(self._local.open())
        stream.settle()
        if unsent:
            stream.local.append([Text(text, control) for text, control in unsent])
        return stream

    def _load_once(self) -> None:
        """Load the model, and say so before any call is answered."""
        if self._loading is None:
            self._loading = self._loop.create_task(self._load())

    async def _load(self) -> None:
        try:
            loaded = await self._local.engine()
        except Exception:  # told to those who ask
            return
        self._post("loaded", loaded.vocab_size)

    async def _wait_for_model(self) -> None:
        await self._local.engine()

    async def _generate(self, local: LocalStream, call: Call) -> list[Plain]:
        if call.params.choices is not None:
            return [plain_result(await local.select(call))]
        return [plain_result(result) for result in await local.generate(call)]

    def _begin(
        self,
        number: int,
        stream: _Stream,
        answer: Callable[[LocalStream, Call], Coroutine[Any, Any, Any]],
        call: Call,
    ) -> None:
        work = stream.run(number, answer, call, stream.task)
        stream.task = self._task(number, self._answered(number, work))

    def _task(self, number: int, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks[number] = task
        task.add_done_callback(lambda _: self._tasks.pop(number, None))
        return task

    async def _answered(self, number: int, work: Coroutine[Any, Any, Any]) -> None:
        try:
            self._post("done", number, await work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():
                error = BackendError("the call was cancelled by what should have answered it")
                self._post("failed", number, plain_error(error))
        except BaseException as error:  # SystemExit too: it belongs to who asked
            self._post("failed", number, plain_error(error))

    async def _close(self) -> None:
        """Calls in flight fail, what is to be kept is kept, then the process ends."""
        await asyncio.to_thread(self._local.close)
        calls = [task for number, task in self._tasks.items() if number >= 0]
        if calls and self._local.vocab_size is not None:
            await asyncio.wait(calls, timeout=_LAST_CALLS_S)
        self._post("bye", dict(self._local.stats()))
        self._flush()
        await asyncio.to_thread(self._channel.drain, _LAST_WORDS_S)
        self._ended.set()


class _Stream:
    """A stream, and what it was before its last call."""

    def __init__(self, local: Any) -> None:
        self.local: LocalStream = local
        self.task: asyncio.Task[None] | None = None
        self._before: tuple[int, Any, bool] | None = None

    async def run(
        self,
        number: int,
        answer: Callable[[LocalStream, Call], Coroutine[Any, Any, Any]],
        call: Call,
        last: asyncio.Task[None] | None,
    ) -> Any:
        """What `answer` gives for this stream, once the `last` call has let go of it."""
        if last is not None and not last.done():  # it was cancelled
            await asyncio.wait([last])
        before = self.local.fork()
        given = await answer(self.local, call)
        self._before = (number, before, call.params.choices is None)
        return given

    def settle(self) -> None:
        """The last call stands: its answer was taken."""
        self._before = None

    def undo(self, number: int) -> None:
        """Be as if call `number` had been cancelled in time."""
        if self._before is None or self._before[0] != number:
            return
        (_, self.local, encodes), self._before = self._before, None
        if encodes:
            self.local.encode()


class _Lines(logging.Handler):
    """Hands log lines over to the other process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, post: Callable[..., None]) -> None:
        super().__init__()
        self._loop, self._post = loop, post

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._post, "log", record.levelno, record.getMessage())


def main(descriptor: int, parent: int) -> None:
    """Serve the connection that came as a file descriptor of this process.

    Args:
        parent: id of the process at its other end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the other process alone
    code = 1
    try:
        asyncio.run(_serve(socket.socket(fileno=descriptor), parent))
        code = 0
    except BaseException:  # whatever it is, this process has to end
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(code)  # no thread is waited for


async def _serve(end: socket.socket, parent: int) -> None:
    await Host(end, parent).serve()
