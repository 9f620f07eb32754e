"""A backend that writes every call to a file, for `ReplayBackend` to serve."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from sgc_ir.errors import RecordError
from sgc_ir.params import CallResult
from sgc_runtime.backends.record_file import (
    call_line,
    encode,
    header_line,
    media_digest,
    rendering_key,
    template_facts,
)
from sgc_runtime.executor.backend import (
    Backend,
    BackendStream,
    Call,
    ChatTemplate,
    Media,
    Message,
    Piece,
)
from sgc_runtime.line_file import LineFile, cut_torn_line


class RecordingBackend:
    """Passes every call on to `backend` and appends its answer to a file.

    Calls that fail are not recorded. Whatever else `backend` offers is reached through this one.

    Args:
        path: the file; see `sgc_runtime.backends.record_file`.
        append: go on with a file that is there, instead of emptying it.

    The file is opened for the first record: until then whatever was there stays, and nothing is
    made.

    Raises RecordError for a file that is there and cannot be written, or in a folder that is not; a
    call whose record cannot be written fails with RecordError.
    """

    def __init__(
        self, backend: Backend, path: str | os.PathLike[str], append: bool = False
    ) -> None:
        self.backend = backend
        self.name = backend.name
        self._path = os.fspath(path)
        self._lock = Lock()
        self._template: ChatTemplate | None = None
        self._append_to_file = append
        self._file: LineFile | None = None
        self._closed = False
        self._check()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    @property
    def chat_template(self) -> ChatTemplate:
        """The template of `backend`; asked for the first time, it is written to the file."""
        with self._lock:
            if self._template is None:
                self._template = self._begin(self.backend.chat_template)
            return self._template

    def _begin(self, template: ChatTemplate) -> ChatTemplate:
        facts = template_facts(template)
        self._append(header_line(self.name, facts))
        return _NotedTemplate(template, self) if facts["kind"] == "renderings" else template

    def open(self) -> BackendStream:
        """A stream whose calls are recorded."""
        return RecordingStream(self, self.backend.open(), [])

    def stats(self) -> Mapping[str, Any]:
        """Those of `backend`."""
        return self.backend.stats()

    def close(self) -> None:
        """Close `backend` and the file."""
        self.backend.close()
        with self._lock:
            self._closed = True
            if self._file is not None:
                self._file.close()

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line behind the header of this session. Raises RecordError."""
        self.chat_template  # noqa: B018  (writes the header)
        with self._lock:
            self._append(line)

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._closed:
            raise RecordError(f"cannot record to {self._path}: the backend is closed")
        try:
            if self._file is None:
                self._file = self._opened()
            self._file.write(encode(line) + "\n")
        except OSError as error:
            why = error.strerror or error
            raise RecordError(f"cannot record to {self._path}: {why}") from error

    def _check(self) -> None:
        try:
            if os.path.exists(self._path):
                LineFile(self._path, "a").close()
            else:
                os.stat(os.path.dirname(self._path) or ".")
        except OSError as error:
            raise RecordError(f"cannot write {self._path}: {error.strerror or error}") from error

    def _opened(self) -> LineFile:
        if self._append_to_file and os.path.isfile(self._path):
            cut_torn_line(self._path)
        return LineFile(self._path, "a" if self._append_to_file else "w")


class RecordingStream:
    """A stream of the backend below; see `BackendStream`."""

    def __init__(self, owner: RecordingBackend, stream: BackendStream, media: list[str]) -> None:
        self._owner = owner
        self._stream = stream
        self._media = media

    def append(self, pieces: Sequence[Piece]) -> None:
        self._stream.append(pieces)
        self._media += [media_digest(piece) for piece in pieces if isinstance(piece, Media)]

    async def generate(self, call: Call) -> list[CallResult]:
        results = await self._stream.generate(call)
        self._owner.write(call_line(call, self._media, results))
        return results

    async def select(self, call: Call) -> CallResult:
        result = await self._stream.select(call)
        self._owner.write(call_line(call, self._media, [result]))
        return result

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        await self._stream.restore(call, results)

    def fork(self) -> RecordingStream:
        return RecordingStream(self._owner, self._stream.fork(), list(self._media))

    def close(self) -> None:
        self._stream.close()

    def hint(self, **facts: Any) -> None:
        self._stream.hint(**facts)


class _NotedTemplate:
    """A template of unknown kind; each rendering is recorded once."""

    def __init__(self, template: ChatTemplate, owner: RecordingBackend) -> None:
        self._template = template
        self._owner = owner
        self._noted: set[bytes] = set()

    @property
    def control_tokens(self) -> Sequence[str]:
        return self._template.control_tokens

    def render(self, messages: Sequence[Message], add_generation_prompt: bool = False) -> str:
        text = self._template.render(messages, add_generation_prompt)
        key = rendering_key(messages, add_generation_prompt)
        if key not in self._noted:
            self._noted.add(key)
            self._owner.write({"rendering": key.hex(), "text": text})
        return text
