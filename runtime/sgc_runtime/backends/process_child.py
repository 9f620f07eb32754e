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
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any

from sgc_ir.errors import BackendError
from sgc_runtime.backends.process_channel import Channel, packed
from sgc_runtime.backends.process_inbox import Asked, DescriptorError, Inbox, advice

_CLOSED = "this backend is closed; make a new one"
_CLOSE_S = 10.0  # for a process that was told to end; then it is killed
_SAY_S = 3.0  # after which it is said that it takes so long
_NEED_THE_MODEL = ("call", "load")
_STATS_S = 10.0  # for counters
_REAP_S = 5.0  # between the end of a connection and that of the process

_BOOT = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from sgc_runtime.backends.process_host import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]))"
)
_LOG = logging.getLogger("sgc")


class EngineProcess:
    """Starts the process when something is asked of it. Any thread may call.

    Args:
        model, options: those of the `LocalBackend` there.

    Attributes:
        vocab_size: ids of the model, None before it is loaded.
        load_seconds: from when it was first needed until then.
    """

    def __init__(self, model: str, options: Mapping[str, Any]) -> None:
        self.vocab_size: int | None = None
        self.load_seconds = 0.0
        self._setup = (model, dict(options))
        self._stats: Mapping[str, Any] = {}  # as they were last told
        self._lock = threading.RLock()  # garbage may be collected, and closed, at any place
        self._sending = threading.RLock()
        self._outbox: deque[bytes] = deque()
        self._names = itertools.count()
        self._channel: Channel | None = None
        self._inbox: Inbox | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: str | None = None  # why nothing can be asked any more
        self._over: Future[None] = Future()  # done when the process has ended
        self._owner = os.getpid()
        self._needed: float | None = None  # since when its model is
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

    def ask(
        self, kind: str, stream: int, *rest: Any, on_text: Callable[[str], None] | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Ask something of `stream`; gives the answer, to be awaited at once. When that is
        cancelled, the call is as if it had not been.

        Raises BackendError when the process is gone and TypeError for what is no plain data;
        nothing is asked then. The answer raises what the call raises there.
        """
        inbox = self._started(kind)
        asked = Asked(on_text)
        number = inbox.expect(asked)
        try:
            self._say_soon(asked.loop, kind, number, stream, *rest)
        except TypeError:
            inbox.forget(number)
            raise
        return self._answer(inbox, asked, number, stream)

    async def _answer(self, inbox: Inbox, asked: Asked, number: int, stream: int) -> Any:
        try:
            return await asked.answer()
        except asyncio.CancelledError:
            self._say_soon(asked.loop, "cancel", number, stream)
            raise
        finally:
            inbox.forget(number)

    async def question(self, kind: str) -> Any:
        """The answer to a question that concerns no stream; errors as for `ask`."""
        inbox = self._started(kind)
        asked = Asked()
        number = inbox.expect(asked)
        try:
            self._say_soon(asked.loop, kind, number)
            return await asked.answer()
        finally:
            inbox.forget(number)

    def question_now(self, kind: str, timeout_s: float | None = None) -> Any:
        """The same for a thread that waits; also raises TimeoutError."""
        inbox = self._started(kind)
        future: Future[Any] = Future()
        number = inbox.expect(future)
        self.post(kind, number)
        self._flush()
        try:
            return inbox.wait(future, timeout_s)
        except DescriptorError:
            inbox.forget(number)
            raise

    def stats(self) -> Mapping[str, Any]:
        """Counters of the engine, those that were last known if it does not answer; empty before
        its model is loaded."""
        if self._process is not None and self._failure is None:
            with suppress(BackendError, TimeoutError):
                self._stats = self.question_now("stats", _STATS_S)
        return {**self._stats, "load_seconds": self.load_seconds} if self._stats else {}

    def close(self, wait: bool = True) -> None:
        """End the process; what is in flight fails. Returns when it has ended, unless `wait` is
        false."""
        with self._lock:
            was_open, self._failure = self._failure is None, _CLOSED
            inbox = self._inbox
        if inbox is None or os.getpid() != self._owner:  # not that of a process that forked
            return
        if was_open:
            self._outbox.append(packed("close"))
            self._flush()
        if not wait:
            self._reap_aside(_CLOSE_S)
            return
        try:
            self._wait_for_end(inbox)
        except DescriptorError:  # nobody can be told when it ends, but by the system
            self._reap_aside(_CLOSE_S)
            self._over.result()

    def _wait_for_end(self, inbox: Inbox) -> None:
        """Wait for a process that was told to end; kill it after a while."""
        assert self._process is not None
        try:
            inbox.wait(self._over, _SAY_S)
            return
        except TimeoutError:
            left = _CLOSE_S - _SAY_S
            _LOG.warning(
                "the engine's process (pid %d) does not end; it is killed in %.0f s", self.pid, left
            )
        try:
            inbox.wait(self._over, left)
        except TimeoutError:
            self._process.kill()
            inbox.wait(self._over)

    def _say_soon(self, loop: asyncio.AbstractEventLoop, *message: Any) -> None:
        """Say something at the end of this iteration of `loop`, with all else that is said."""
        self.post(*message)
        loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Send what has been said since the last time."""
        with self._sending:  # in the order of the outbox
            if self._channel is None:
                return
            messages = [self._outbox.popleft() for _ in range(len(self._outbox))]
            if messages:
                self._channel.send(messages)

    # -- the process ----------------------------------------------------------------------------

    def _started(self, kind: str) -> Inbox:
        """What reads the answers of the process, to a question of some kind among them.

        Raises BackendError if there can be none.
        """
        if self._needed is None and kind in _NEED_THE_MODEL:
            self._needed = time.perf_counter()
        if os.getpid() != self._owner:
            raise BackendError("this backend is of the process that forked; make one here")
        with self._lock:
            if self._failure is None and self._inbox is None:
                self._start()
            if self._failure is not None or self._inbox is None:
                raise BackendError(self._failure)
            return self._inbox

    def _start(self) -> None:
        own: socket.socket | None = None
        try:
            own, other = socket.socketpair()
            with other:
                self._process = _spawn(other.fileno())
        except OSError as error:
            if own is not None:
                own.close()
            self._failure = (
                f"the engine's process cannot be started: {error.strerror or error}{advice(error)}"
            )
            return
        self._outbox.appendleft(packed("start", *self._setup, _LOG.getEffectiveLevel()))
        self._channel = Channel(own)
        self._inbox = Inbox(self._channel, self._note, self._reap_aside)

    def _note(self, what: str, *content: Any) -> None:
        """A message that nobody has asked for."""
        if what == "loaded":
            (self.vocab_size,) = content
            if self._needed is not None:
                self.load_seconds = time.perf_counter() - self._needed
        elif what == "log":
            level, line = content
            _LOG.log(level, "%s", line)
        elif what == "bye":
            (self._stats,) = content

    def _reap_aside(self, timeout_s: float = _REAP_S) -> None:
        """See to it, in a thread, that the process ends and that all who wait for it hear so."""
        threading.Thread(
            target=self._reap, args=(timeout_s,), name="sgc-process-end", daemon=True
        ).start()

    def _reap(self, timeout_s: float) -> None:
        process, inbox, channel = self._process, self._inbox, self._channel
        assert process is not None
        assert inbox is not None
        assert channel is not None
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        with self._lock:
            reason = "the engine was closed"
            if self._failure is None:
                reason = self._failure = _why(process.pid, code)
        inbox.fail(reason)
        channel.close()
        self._outbox.clear()
        with suppress(InvalidStateError):  # when it was told to end, two come here
            self._over.set_result(None)


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    """A process that serves the connection `descriptor`. Raises OSError.

    It is in a session of its own: Ctrl-C in a terminal is for this process alone. What libraries
    print there is no output of a run.
    """
    numbers = (str(descriptor), str(os.getpid()))
    command = [sys.executable, "-P", "-c", _BOOT, *numbers, *_import_path()]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=2 if _is_open(2) else subprocess.DEVNULL,
        stderr=None if _is_open(2) else subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )


def _import_path() -> list[str]:
    """That of this process, so that everything is found where it is found here. Python's own come
    first: what lies in a program's folder has come too late here to take the place of one."""
    try:
        paths = [os.path.abspath(path) for path in sys.path]
    except FileNotFoundError:  # this process is in a folder that was removed
        paths = [path for path in sys.path if os.path.isabs(path)]
    library = os.path.dirname(os.__file__)
    own = [path for path in paths if path in (library, os.path.join(library, "lib-dynload"))]
    return [*own, *(path for path in paths if path not in own)]


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


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
