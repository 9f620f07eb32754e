"""A backend that makes equal calls of a run once, whichever rows and nodes they belong to.

A call is merged when nothing in it is left to chance: a select, a greedy gen, or a gen with a seed
of its own, whose key holds the seed of each sample. Calls are equal when their streams were given
the same pieces, went on with the same ids in the same places, and parameters and end of turn are
the same; so they would give the same. The second one waits for the first and goes on as if it had
just given the same results (`restore`). A deadline that passes while it waits is its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from sgc_ir.params import CallResult, Usage
from sgc_runtime.executor.backend import Backend, BackendStream, Call, ChatTemplate, Piece, Text
from sgc_runtime.executor.backend_source import BackendSource
from sgc_runtime.executor.merges import MergedResult, Merges, Place, key_of

_FIELDS = tuple(f.name for f in fields(CallResult) if f.name != "timing")


class MergingBackend:
    """Passes calls on to `backend`, equal ones once. Whatever else `backend` offers is reached
    through this one.

    Args:
        merges: the calls of the run.
    """

    def __init__(self, backend: Backend, merges: Merges) -> None:
        self.backend, self.merges = backend, merges
        self.name = backend.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)

    @property
    def chat_template(self) -> ChatTemplate:
        return self.backend.chat_template

    def open(self) -> BackendStream:
        """A stream whose calls may be merged."""
        return MergingStream(self.merges, self.backend.open(), b"", [])

    def stats(self) -> Mapping[str, Any]:
        """Those of `backend`."""
        return self.backend.stats()

    def close(self) -> None:
        self.backend.close()


def merging_source(source: BackendSource, merges: Merges) -> BackendSource:
    """A source of the same backend in which equal calls are made once."""
    if source.backend is not None:
        return BackendSource.of(MergingBackend(source.backend, merges))
    return BackendSource(lambda: MergingBackend(source.load(), merges))


class MergingStream:
    """A stream of the backend below; see `BackendStream`.

    Args:
        state: key of all that the stream was up to its last call.
        pieces: what was appended since.
    """

    def __init__(
        self, merges: Merges, stream: BackendStream, state: bytes, pieces: list[Piece]
    ) -> None:
        self._merges, self._stream = merges, stream
        self._state, self._pieces = state, pieces

    def append(self, pieces: Sequence[Piece]) -> None:
        self._stream.append(pieces)
        self._pieces += pieces

    async def generate(self, call: Call) -> list[CallResult]:
        return await self._call(call, lambda: self._stream.generate(call))

    async def select(self, call: Call) -> CallResult:
        async def make() -> list[CallResult]:
            return [await self._stream.select(call)]

        return (await self._call(call, make))[0]

    async def restore(self, call: Call, results: Sequence[CallResult]) -> None:
        await self._stream.restore(call, results)
        prompt = self._prompt_key()
        key = call_key(prompt, call)
        if key is not None:
            self._merges.know(key, Place(call.row, call.node), list(results))
        self._go_on(prompt, call, results)

    def fork(self) -> MergingStream:
        return MergingStream(self._merges, self._stream.fork(), self._state, list(self._pieces))

    def close(self) -> None:
        self._stream.close()

    def hint(self, **facts: Any) -> None:
        self._stream.hint(**facts)

    async def _call(
        self, call: Call, make: Callable[[], Awaitable[list[CallResult]]]
    ) -> list[CallResult]:
        prompt = self._prompt_key()
        key = call_key(prompt, call)
        if key is None:
            results = await make()
        else:
            place = Place(call.row, call.node)
            results, is_made = await self._merges.once(key, place, make)
            if not is_made:
                await self._stream.restore(call, results)
                results = [_merged(result) for result in results]
                self._merges.save(sum((result.usage for result in results), Usage()))
        self._go_on(prompt, call, results)
        return results

    def _prompt_key(self) -> bytes:
        return key_of([self._state, *map(_plain_piece, _joined(self._pieces))])

    def _go_on(self, prompt: bytes, call: Call, results: Sequence[CallResult]) -> None:
        first = results[0]
        ids = [int(i) for i in first.token_ids]
        ends = [first.text, ids, first.pending, first.residual, first.rolled_back]
        self._state = key_of([prompt, call.params.kind, call.params.max_tokens == 0, *ends])
        self._pieces = []


def call_key(prompt: bytes, call: Call) -> bytes | None:
    """Key of what decides a call's results; None for one that is left to chance."""
    params = call.params
    is_sure = params.choices is not None or params.greedy
    if not is_sure and params.seed is None:
        return None
    seeds = [] if is_sure else list(call.seeds)
    try:
        return key_of([prompt, params.kind, params.to_dict(), seeds, call.end_of_turn])
    except (TypeError, ValueError, OverflowError):
        return None  # a parameter that has no key, for example a number of many digits in a schema


def _merged(result: CallResult) -> CallResult:
    return MergedResult(**{name: getattr(result, name) for name in _FIELDS})


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbouring texts of one kind as one: so they are encoded."""
    found: list[Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if isinstance(piece, Text) and isinstance(last, Text) and last.control == piece.control:
            found[-1] = Text(last.text + piece.text, piece.control)
        else:
            found.append(piece)
    return found


def _plain_piece(piece: Piece) -> list[Any]:
    if isinstance(piece, Text):
        return [piece.text, piece.control]
    return [piece.kind, piece.data, piece.num_frames]
