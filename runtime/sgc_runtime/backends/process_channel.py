"""Messages between two processes over a stream socket, many in one frame.

A frame is its length (8 bytes, little-endian) and a msgpack array of messages, each packed when it
was made, so that one that cannot be packed fails where it comes from.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sgc_runtime.journal.codec import pack, unpack

_LENGTH = struct.Struct("<Q")
_ARRAY = struct.Struct(">BI")  # msgpack: an array with a count of 32 bits
_ARRAY_32 = 0xDD
_READ_BYTES = 1 << 18


def packed(*message: Any) -> bytes:
    """A message, ready to be sent. Raises TypeError naming what is no plain data."""
    return pack(list(message), loose=True)


class Channel:
    """One end of a connection. Any thread may send; one at a time receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._room = memoryview(bytearray(_READ_BYTES))  # to be made once: it is large
        self._received = bytearray()
        self._sending = threading.Condition()
        self._backlog = bytearray()  # what the socket had no room for
        self._writer: threading.Thread | None = None
        self._closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, messages: Sequence[bytes]) -> None:
        """Send packed messages as one frame, behind all that was sent before.

        Does not wait for the other side, and does nothing where there is none any more: who
        receives is told so.
        """
        body = b"".join(messages)
        head = _ARRAY.pack(_ARRAY_32, len(messages))
        frame = _LENGTH.pack(len(head) + len(body)) + head + body
        with self._sending:
            if self._closed:
                return
            sent = 0 if self._backlog else self._send_now(frame)
            if sent < len(frame):
                self._backlog += memoryview(frame)[sent:]
                self._write_on()

    def _send_now(self, data: bytes) -> int:
        """How many bytes went away without waiting."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:  # nobody is there
            return len(data)

    def _write_on(self) -> None:
        if self._writer is None:
            self._writer = threading.Thread(
                target=self._write, name="sgc-process-writer", daemon=True
            )
            self._writer.start()
        self._sending.notify_all()

    def _write(self) -> None:
        """A thread's work: send what is left over, as fast as it is taken."""
        while True:
            with self._sending:
                while not self._backlog and not self._closed:
                    self._sending.wait()
                if self._closed:
                    return
                data = bytes(self._backlog[:_READ_BYTES])
            try:
                sent = self._socket.send(data)
            except OSError:
                sent = len(self._backlog)
            with self._sending:
                del self._backlog[:sent]
                self._sending.notify_all()

    def drain(self, timeout_s: float) -> None:
        """Wait until everything has been sent, but no longer than `timeout_s`."""
        with self._sending:
            self._sending.wait_for(lambda: not self._backlog or self._closed, timeout_s)

    def duplicate(self) -> socket.socket:
        """Another descriptor of this end, to wait on. Raises OSError when the channel is closed."""
        return self._socket.dup()

    def receive(self) -> list[Any] | None:
        """The messages that have come, perhaps none; None when the other side is gone.

        Does not wait. What has come of a frame that is not whole is kept for the next call.
        """
        try:
            size = self._socket.recv_into(self._room, 0, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        return self._take(self._room[:size]) if size else None

    def _take(self, data: memoryview) -> list[Any]:
        """The messages of all frames that `data` completes."""
        self._received += data
        messages: list[Any] = []
        begin = 0
        while len(self._received) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received, begin)
            end = begin + _LENGTH.size + length
            if end > len(self._received):
                break
            messages += unpack(bytes(self._received[begin + _LENGTH.size : end]))
            begin = end
        del self._received[:begin]
        return messages

    def close(self) -> None:
        """Neither send nor receive any more."""
        with self._sending:
            self._closed = True
            self._sending.notify_all()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
