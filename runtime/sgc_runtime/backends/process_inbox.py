"""What comes from an engine's process, and who waits for it.

Nobody reads but those who wait: each event loop that has asked something when its turn comes, and
threads that wait for an answer outside of one. A thread that did nothing but read would have to be
woken for each answer, before the one that waits for it.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import select
import socket
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any

from sgc_ir.errors import BackendError
from sgc_runtime.backends.process_channel import Channel
from sgc_runtime.backends.process_messages import error_of, plain_error


class DescriptorError(BackendError):
    """There is no file descriptor left to wait for an answer."""


@contextmanager
def listening() -> Iterator[None]:
    """Turn an OSError of the block into a DescriptorError."""
    try:
        yield
    except OSError as error:
        raise DescriptorError(
            "no answer of the engine's process can be waited for: "
            f"{error.strerror or error}{advice(error)}"
        ) from error


def advice(error: OSError) -> str:
    """The next step, where it is known."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "; raise the limit of open files (ulimit -n)"
    return ""


class Asked:
    """Somebody who waits for an answer on the running event loop.

    Attributes:
        future: becomes `done` or `failed` and the content of the answer.
    """

    __slots__ = ("future", "loop", "on_text")

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[tuple[str, Any]] = self.loop.create_future()
        self.on_text = on_text

    async def answer(self) -> Any:
        """The content. Raises the error that came in its place."""
        what, content = await self.future
        if what == "failed":
            raise error_of(content)
        return content


_Letter = tuple[Asked, str, Any]  # for whom, what it is, and its content
_Mail = dict[asyncio.AbstractEventLoop, list[_Letter]]


class Inbox:
    """Reads a channel and hands over what it brings. Any thread may call.

    Args:
        note: called with each message that is no answer.
        end: called once when the other side is gone.
    """

    def __init__(
        self, channel: Channel, note: Callable[..., None], end: Callable[[], None]
    ) -> None:
        self._channel, self._note, self._end = channel, note, end
        self._numbers = itertools.count()
        self._asked: dict[int, Asked | Future[Any]] = {}
        self._lock = threading.Lock()
        self._failure: str | None = None
        self._receiving = threading.Lock()  # from reading to handing over: in the order sent
        self._ended = False
        self._ends: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, socket.socket]
        self._ends = weakref.WeakKeyDictionary()
        self._boxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, deque[_Letter]]
        self._boxes = weakref.WeakKeyDictionary()

    def expect(self, asked: Asked | Future[Any]) -> int:
        """The number of a new question, whose answer goes to `asked`.

        Raises BackendError when no answer can come any more, or could be waited for.
        """
        with self._lock:
            if self._failure is not None:
                raise BackendError(self._failure)
            if isinstance(asked, Asked) and asked.loop not in self._ends:
                with listening():
                    self._listen(asked.loop)
            number = next(self._numbers)
            self._asked[number] = asked
            return number

    def forget(self, number: int) -> None:
        """Nobody waits for this answer any more."""
        self._asked.pop(number, None)

    def fail(self, reason: str) -> None:
        """No answer can come any more: all who wait get a BackendError, and all who ask."""
        with self._lock:
            self._failure = self._failure or reason
            asked, self._asked = list(self._asked.values()), {}
        mail: _Mail = {}
        for one in asked:
            if isinstance(one, Future):
                one.set_exception(BackendError(reason))
            else:
                letter = (one, "failed", plain_error(BackendError(reason)))
                mail.setdefault(one.loop, []).append(letter)
        with self._receiving:
            for loop, letters in mail.items():
                self._post(loop, letters)

    def wait(self, future: Future[Any], timeout_s: float | None = None) -> Any:
        """The result of `future`, for a thread that waits; an event loop in it is held up.

        Raises TimeoutError, DescriptorError and what `future` raises.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        with listening():
            end = self._duplicate()
        if end is None:  # there is an answer, or one will come from this process
            return future.result(timeout_s)
        with end:
            with listening():
                woken, waker = socket.socketpair()
            with woken, waker:
                self._wait(future, until, end, woken, waker)
        return future.result()

    def _duplicate(self) -> socket.socket | None:
        """A descriptor to wait on; None when the channel was closed. Raises OSError."""
        try:
            return self._channel.duplicate()
        except OSError as error:
            if error.errno == errno.EBADF:
                return None
            raise

    def _wait(
        self,
        future: Future[Any],
        until: float | None,
        end: socket.socket,
        woken: socket.socket,
        waker: socket.socket,
    ) -> None:
        """Read until `future` is done."""
        future.add_done_callback(lambda _: _wake(waker))
        events = select.poll()
        for one in (woken, end):
            events.register(one, select.POLLIN)
        reads = True
        while not future.done():
            left_ms = None if until is None else 1e3 * (until - time.monotonic())
            if left_ms is not None and left_ms <= 0:
                raise TimeoutError("no answer")
            events.poll(left_ms)
            if reads and not self._read(None):
                events.unregister(end)
                reads = False

    # -- reading --------------------------------------------------------------------------------

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        for old in [loop for loop in self._ends if loop.is_closed()]:
            self._ends.pop(old).close()
        end = self._channel.duplicate()  # of its own: a loop is closed without a word
        try:
            loop.add_reader(end, self._readable, loop)
        except BaseException:
            end.close()
            raise
        self._ends[loop] = end

    def _readable(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._read(loop):
            with self._lock:
                end = self._ends.pop(loop)
            loop.remove_reader(end)
            end.close()
        box = self._boxes.get(loop)
        if box is not None:
            _hand_over(box)

    def _read(self, here: asyncio.AbstractEventLoop | None) -> bool:
        """Hand over what has come, if anything. Whether more can come.

        Args:
            here: the event loop of this thread.
        """
        with self._receiving:
            messages = None if self._ended else self._channel.receive()
            if messages is not None:
                self._sort(messages, here)
                return True
            first, self._ended = not self._ended, True
        if first:
            self._end()
        return False

    def _sort(self, messages: Sequence[Any], here: asyncio.AbstractEventLoop | None) -> None:
        mail: _Mail = {}
        for what, *content in messages:
            if what == "texts":
                (texts,) = content
                for number, piece in zip(texts[::2], texts[1::2], strict=True):
                    self._answer(mail, "text", number, piece)
            elif what in ("done", "failed"):
                self._answer(mail, what, *content)
            else:
                self._note(what, *content)
        for loop, letters in mail.items():
            self._post(loop, letters, loop is not here)

    def _answer(self, mail: _Mail, what: str, number: int, content: Any) -> None:
        asked = self._asked.get(number)
        if isinstance(asked, Asked):
            mail.setdefault(asked.loop, []).append((asked, what, content))
        elif asked is not None:
            self.forget(number)
            _settle(asked, what, content)

    def _post(
        self, loop: asyncio.AbstractEventLoop, letters: Sequence[_Letter], wake: bool = True
    ) -> None:
        """Lay letters down for `loop`, behind those that it has not taken yet."""
        box = self._boxes.get(loop)
        if box is None:
            box = self._boxes[loop] = deque()
        box += letters
        if wake:
            with suppress(RuntimeError):  # the loop was closed: nobody waits
                loop.call_soon_threadsafe(_hand_over, box)


def _settle(future: Future[Any], what: str, answer: Any) -> None:
    if what == "failed":
        future.set_exception(error_of(answer))
    else:
        future.set_result(answer)


def _hand_over(box: deque[_Letter]) -> None:
    """Give the letters of a loop to those who wait; on that loop."""
    while box:
        asked, what, content = box.popleft()
        if asked.future.done():
            continue
        if what != "text":
            asked.future.set_result((what, content))
        elif asked.on_text is not None:
            try:
                asked.on_text(content)
            except Exception as error:  # others are to get theirs
                asked.loop.call_exception_handler(
                    {"message": f"on_text={asked.on_text!r:.60} failed", "exception": error}
                )


def _wake(waker: socket.socket) -> None:
    with suppress(OSError):  # who waited has left
        waker.send(b".")
