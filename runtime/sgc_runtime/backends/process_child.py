"""The process of an engine, seen from the one that started it."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from sgc_ir.errors import BackendError
from sgc_runtime.backends.process_channel import Channel, packed
from sgc_runtime.backends.process_messages import error_of, plain_error

CLOSED = "the engine was closed"
_CLOSE_S = 30.0  # for a process that was told to end; then it is killed
_STATS_S = 10.0  # for counters
_REAP_S = 5.0  # between the end of a connection and that of the process

# Paths behind its own, so that what is found here is found there, and nothing else instead of it.
_BOOT = (
    "import sys; sys.path += [p for p in sys.argv[3:] if p not in sys.path]; "
    "from sgc_runtime.backends.process_host import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)
_LOG = logging.getLogger("sgc")


class _Asked:
    """Somebody who waits for an answer on an event loop."""

    __slots__ = ("future", "loop", "on_text")

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[str, Any]] = self.loop.create_future()
        self.on_text = on_text


_Letter = tuple[_Asked, str, Any]  # for whom, what it is, and its content


class EngineProcess:
    """Starts the process when something is asked of it. Any thread may call.

    Args:
        model, options: those of the `LocalBackend` there.

    Attributes:
        vocab_size: ids of the model, None before it is loaded.
        load_seconds: from the start of the process until then.
    """

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        self.vocab_size: int | None = None
        self.load_seconds = 0.0
        self._setup = (model, dict(options))
        self._stats: Mapping[str, Any] = {}  # as they were last told
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._outbox: deque[bytes] = deque()
        self._asked: dict[int, _Asked | Future[Any]] = {}
        self._numbers = itertools.count()
        self._names = itertools.count()
        self._channel: Channel | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._failure: str | None = None  # why nothing can be asked any more
        self._closing = False
        self._owner = os.getpid()
        self._began = 0.0
        atexit.register(_close_at_exit, weakref.ref(self))

    @property
    def pid(self) -> int | None:
        """Id of the process, None before it is started."""
        return None if self._process is None else self._process.pid

    def new_name(self) -> int:
        """A number for a stream."""
        return next(self._names)

    # -- asking ---------------------------------------------------------------------------------

    def post(self, *message: Any) -> None:
        """Say something that is not answered; it goes with the next question.

        Raises TypeError for what is no plain data.
        """
        if self._failure is None:
            self._outbox.append(packed(*message))

    async def ask(
        self, kind: str, *rest: Any, stream: int, on_text: Callable[[str], None] | None = None
    ) -> Any:
        """The answer to a call on `stream`. When cancelled, the call is as if it had not been.

        Raises what the call raises there, and BackendError when the process is gone.
        """
        asked = _Asked(on_text)
        number = self._register(asked)
        try:
            self._outbox.append(packed(kind, number, stream, *rest))
            asked.loop.call_soon(self._flush)
            what, content = await asked.future
        except asyncio.CancelledError:
            self.post("cancel", number, stream)
            asked.loop.call_soon(self._flush)
            raise
        finally:
            self._asked.pop(number, None)
        if what == "failed":
            raise error_of(content)
        return content

    def question(self, kind: str) -> Future[Any]:
        """The answer to a question that concerns no stream; from any thread."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()  # nobody cancels it
        number = self._register(future)
        self._outbox.append(packed(kind, number))
        self._flush()
        return future

    def stats(self) -> Mapping[str, Any]:
        """Counters of the engine, those that were last known if it does not answer; empty before
        its model is loaded."""
        if self._process is not None and self._failure is None:
            with suppress(BackendError, TimeoutError):
                self._stats = self.question("stats").result(_STATS_S)
        return {**self._stats, "load_seconds": self.load_seconds} if self._stats else {}

    def close(self, wait: bool = True) -> None:
        """End the process; what is in flight fails. Returns when it has ended, unless `wait` is
        false."""
        with self._lock:
            self._failure, self._closing = "this backend is closed; make a new one", True
            reader = self._reader
        if reader is None or os.getpid() != self._owner:  # not that of a process that forked
            return
        assert self._process is not None
        self._outbox.append(packed("close"))
        self._flush()
        if wait:
            reader.join(_CLOSE_S)
            self._process.kill()  # nothing happens to one that has ended
            reader.join()

    def _register(self, asked: _Asked | Future[Any]) -> int:
        with self._lock:
            if self._failure is None and self._process is None:
                self._start()
            if self._failure is not None:
                raise BackendError(self._failure)
            number = next(self._numbers)
            self._asked[number] = asked
            return number

    def _flush(self) -> None:
        """Send what has been said since the last time."""
        with self._sending:  # in the order of the outbox
            if self._channel is None:
                return
            messages = [self._outbox.popleft() for _ in range(len(self._outbox))]
            if messages:
                self._channel.send(messages)

    # -- the process ----------------------------------------------------------------------------

    def _start(self) -> None:
        self._began = time.perf_counter()
        own, other = socket.socketpair()
        with other:
            try:
                self._process = _spawn(other.fileno())
            except OSError as error:
                own.close()
                reason = error.strerror or error
                self._failure = f"the engine's process cannot be started: {reason}"
                return
        self._outbox.appendleft(packed("start", *self._setup, _LOG.getEffectiveLevel()))
        self._channel = Channel(own)
        self._reader = threading.Thread(target=self._receive, name="sgc-process", daemon=True)
        self._reader.start()

    def _receive(self) -> None:
        """The reader's work: hand over what comes until nothing can come any more."""
        assert self._channel is not None
        while (messages := self._channel.receive()) is not None:
            mail: dict[asyncio.AbstractEventLoop, list[_Letter]] = {}
            for what, *rest in messages:
                if what in ("done", "failed", "text"):
                    self._sort(mail, what, *rest)
                else:
                    self._note(what, *rest)
            _deliver(mail)
        self._end()

    def _sort(
        self,
        mail: dict[asyncio.AbstractEventLoop, list[_Letter]],
        what: str,
        number: int,
        content: Any,
    ) -> None:
        asked = self._asked.get(number)
        if isinstance(asked, _Asked):
            mail.setdefault(asked.loop, []).append((asked, what, content))
        elif asked is not None:
            del self._asked[number]
            if what == "failed":
                asked.set_exception(error_of(content))
            else:
                asked.set_result(content)

    def _note(self, what: str, *content: Any) -> None:
        if what == "loaded":
            (self.vocab_size,) = content
            self.load_seconds = time.perf_counter() - self._began
        elif what == "log":
            level, line = content
            _LOG.log(level, "%s", line)
        elif what == "bye":
            (self._stats,) = content

    def _end(self) -> None:
        """The connection has ended: so does the process, and all that waits."""
        assert self._process is not None
        assert self._channel is not None
        try:
            code = self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        with self._lock:
            reason = CLOSED
            if not self._closing:
                reason = self._failure = _why(self._process.pid, code)
            asked, self._asked = list(self._asked.values()), {}
        self._channel.close()
        self._outbox.clear()
        mail: dict[asyncio.AbstractEventLoop, list[_Letter]] = {}
        for one in asked:
            if isinstance(one, Future):
                one.set_exception(BackendError(reason))
            else:
                letter = (one, "failed", plain_error(BackendError(reason)))
                mail.setdefault(one.loop, []).append(letter)
        _deliver(mail)


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    """A process that serves the connection `descriptor`. Raises OSError.

    It is in a session of its own: Ctrl-C in a terminal is for this process alone. What libraries
    print there is no output of a run.
    """
    paths = [os.path.abspath(path) for path in sys.path]
    command = [sys.executable, "-P", "-c", _BOOT, str(descriptor), str(os.getpid()), *paths]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2 if _is_open(2) else subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _deliver(mail: Mapping[asyncio.AbstractEventLoop, Sequence[_Letter]]) -> None:
    for loop, letters in mail.items():
        with suppress(RuntimeError):  # the loop was closed: nobody waits
            loop.call_soon_threadsafe(_hand_over, letters)


def _hand_over(letters: Sequence[_Letter]) -> None:
    for asked, what, content in letters:
        if asked.future.done():
            continue
        if what != "text":
            asked.future.set_result((what, content))
        elif asked.on_text is not None:
            try:
                asked.on_text(content)
            except Exception as error:  # as from the engine's own thread: others get theirs
                asked.loop.call_exception_handler(
                    {"message": f"on_text of {asked.on_text!r:.60} failed", "exception": error}
                )


def _why(pid: int, code: int) -> str:
    """What became of a process that was not told to end."""
    who = f"the engine's process (pid {pid})"
    if code >= 0:
        return f"{who} ended with code {code}; its last lines on standard error say why; run again"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " (perhaps memory ran out)" if name == "SIGKILL" else ""
    return f"{who} was killed by {name}{hint}; run again"


def _close_at_exit(process: weakref.ref[EngineProcess]) -> None:
    living = process()
    if living is not None:
        living.close()
