"""A backend that serves recorded calls, without a model."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn

from sgc_ir.errors import RecordError
from sgc_ir.params import CallResult
from sgc_runtime.backends.record_file import (
    call_key,
    check_header,
    digest,
    encode,
    is_entry,
    media_digest,
    results_of,
    template_of,
)
from sgc_runtime.executor.backend import Call, ChatTemplate, Media, Piece
from sgc_runtime.journal.fingerprint import file_digest

_SHOWN = 24  # characters of a prompt from where it differs


class ReplayBackend:
    """Serves the calls of a file that `RecordingBackend` wrote, without a model.

    A call is found by (node path, row index, prompt, parameters). One that was recorded several
    times is served in that order, the last answer again and again; a later session of the same
    file replaces an earlier one. Answers stay in the file until they are asked for.

    Raises RecordError for a file that is no record, and at a node whose call is not recorded,
    with what differs.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._found: dict[bytes, list[int]] = {}  # key -> where its lines begin
        self._at_node: dict[tuple[int, str], list[int]] = {}
        self._served: dict[bytes, int] = {}
        self._renderings: dict[bytes, str] = {}
        with ExitStack() as opened:
            try:
                self._file = opened.enter_context(open(self._path, "rb"))
                header = self._read_all()
            except OSError as error:
                raise RecordError(f"cannot read {self._path}: {error.strerror or error}") from error
            opened.pop_all()
        self.name = f"replay:{header['backend']}"
        self.chat_template: ChatTemplate = template_of(header["chat_template"], self._renderings)

    def _read_all(self) -> dict[str, Any]:
        header: dict[str, Any] | None = None
        session: dict[bytes, list[int]] = {}
        for number, (at, line) in enumerate(self._lines(), 1):
            if "format" in line or header is None:
                check_header(line, self._path)
                self._found |= session
                header, session = line, {}
            elif not is_entry(line):
                self._refuse(number)
            elif "rendering" in line:
                self._renderings[bytes.fromhex(line["rendering"])] = line["text"]
            else:
                session.setdefault(digest(line), []).append(at)
                self._at_node.setdefault((line["row"], line["node"]), []).append(at)
        if header is None:
            check_header(None, self._path)
            raise AssertionError("unreachable")
        self._found |= session
        return header

    def _lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        at = 0
        for number, text in enumerate(self._file, 1):
            if not text.endswith(b"\n"):
                return  # torn by a crash
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                line = None
            if not isinstance(line, dict):
                self._refuse(number)
            yield at, line
            at += len(text)

    def _refuse(self, number: int) -> NoReturn:
        raise RecordError(f"{self._path}:{number} is no line of a record; record it again")

    def identity(self) -> Mapping[str, Any]:
        """What results depend on, for a journal."""
        return {"backend": self.name, "--replay": file_digest(Path(self._path))}

    def open(self) -> ReplayStream:
        """An empty stream."""
        return ReplayStream(self, [])

    def stats(self) -> Mapping[str, Any]:
        """No counters."""
        return {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def answer(self, call: Call, media: Sequence[str]) -> list[CallResult]:
        """The recorded results of a call. Raises RecordError when there are none."""
        key = call_key(call, media)
        code = digest(key)
        places = self._found.get(code)
        if places is None:
            raise RecordError(f"{self._path}: {self._miss(key)}; record the run again")
        turn = self._served.get(code, 0)
        self._served[code] = turn + 1
        try:
            return results_of(self._line(places[min(turn, len(places) - 1)]))
        except (ValueError, TypeError) as error:
            where = f"row {key['row']} node {key['node']}"
            raise RecordError(
                f"{self._path}: the results of {where} are damaged ({error}); record the run again"
            ) from error

    def _line(self, at: int) -> dict[str, Any]:
        self._file.seek(at)
        line: dict[str, Any] = json.loads(self._file.readline())
        return line

    def _miss(self, key: Mapping[str, Any]) -> str:
        row, node = key["row"], key["node"]
        places = self._at_node.get((row, node))
        if places is None:
            rows = sorted(other for other, name in self._at_node if name == node)
            where = f"row {row}, but for row {rows[0]}" if rows else "any row"
            return f"no call of node {node} is recorded for {where}"
        asked = json.loads(encode(key))  # to compare with what was read
        return (
            f"row {row} node {node} was recorded with {_difference(self._line(places[-1]), asked)}"
        )


def _difference(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    if recorded["kind"] != asked["kind"]:
        return f"another kind of call ({recorded['kind']}, now {asked['kind']})"
    if recorded["prompt"] != asked["prompt"]:
        before, now = recorded["prompt"], asked["prompt"]
        pairs = enumerate(zip(before, now, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(before), len(now)))
        return (
            f"another prompt (from character {at} on {before[at : at + _SHOWN]!r}, "
            f"now {now[at : at + _SHOWN]!r})"
        )
    if recorded["media"] != asked["media"]:
        return "other images or videos"
    old, new = recorded["params"], asked["params"]
    names = [n for n in {**old, **new} if old.get(n) != new.get(n)]
    changes = [f"{n}={old.get(n)!r:.40}, now {new.get(n)!r:.40}" for n in names]
    return f"other parameters ({'; '.join(changes)})"


class ReplayStream:
    """A stream that needs no prompt: a call brings its own."""

    def __init__(self, owner: ReplayBackend, media: list[str]) -> None:
        self._owner = owner
        self._media = media

    def append(self, pieces: Sequence[Piece]) -> None:
        self._media += [media_digest(piece) for piece in pieces if isinstance(piece, Media)]

    async def generate(self, call: Call) -> list[CallResult]:
        return self._owner.answer(call, self._media)

    async def select(self, call: Call) -> CallResult:
        return self._owner.answer(call, self._media)[0]

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        """Nothing to do: later calls bring their prompts."""

    def fork(self) -> ReplayStream:
        return ReplayStream(self._owner, list(self._media))

    def close(self) -> None:
        """Nothing to give back."""

    def hint(self, **facts: Any) -> None:
        """Hints change nothing here."""
