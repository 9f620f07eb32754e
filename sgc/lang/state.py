"""The live prompt state: what a program's first parameter is while it is interpreted.

Appending queues operations to the stream and returns at once; reading waits for the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from sgc.lang.append import operations
from sgc.lang.failures import unset
from sgc.lang.primitives import check_name
from sgc.lang.scopes import branch_block, role_block, text_scope
from sgc.lang.source import caller_source, refusal
from sgc_ir.graph import Source
from sgc_runtime.executor.cell import Cell
from sgc_runtime.executor.tools import own_copy

if TYPE_CHECKING:
    from sgc.lang.body import Body
    from sgc.lang.forks import ForkGroup
    from sgc_runtime.executor.pending import Pending
    from sgc_runtime.executor.stream import Stream


class ProgramState:
    """One stream of a running program; branches of a fork are states as well."""

    def __init__(self, body: Body, stream: Stream, role: str | None = None) -> None:
        self._body = body
        self._bridge = body.bridge
        self._stream = stream
        self._role = role
        self._joined = False
        self._has_item = False
        self._group: ForkGroup | None = None  # the fork of which it is a branch

    # -- appending --------------------------------------------------------------------------

    def __iadd__(self, x: Any) -> ProgramState:
        self.extend(x)
        return self

    def extend(self, x: Any) -> None:
        """Append text, a value, a primitive, or a `+` of them; returns at once."""
        self._check_open()
        run = operations(self._stream, x, self._role, caller_source())
        self._bridge.post(run)

    def system(self) -> AbstractContextManager[ProgramState]:
        """`with s.system():` what is appended inside is one system turn."""
        return role_block(self, "system", caller_source())

    def user(self) -> AbstractContextManager[ProgramState]:
        """`with s.user():` what is appended inside is one user turn."""
        return role_block(self, "user", caller_source())

    def assistant(self) -> AbstractContextManager[ProgramState]:
        """`with s.assistant():` what is appended inside is one assistant turn."""
        return role_block(self, "assistant", caller_source())

    def call(self, program: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Go on with the body of another program in this stream; gives its return value.

        Variables are this stream's. Raises InputError for arguments that do not fit.
        """
        self._check_open()
        return self._body.inline(self, program, args, kwargs)

    # -- branches ---------------------------------------------------------------------------

    def fork(self, n: int) -> ForkGroup:
        """`n` branches that go on from here; they share text and variables so far."""
        return self._fork(n, None, caller_source())

    def fork_each(self, items: Iterable[Any]) -> ForkGroup:
        """One branch an item, each with its item as `.item`."""
        items = list(items)
        return self._fork(len(items), items, caller_source())

    def copy(self) -> AbstractContextManager[ProgramState]:
        """`with s.copy() as t:` a branch that is never merged back and stays readable."""
        return branch_block(self, caller_source())

    @property
    def item(self) -> Any:
        """The item of a branch of `fork_each`. Raises CompileError elsewhere."""
        if not self._has_item:
            raise refusal("item: this is no branch of fork_each; read it from those only")
        return self._stream.item

    def _fork(self, width: int, items: list[Any] | None, source: Source) -> ForkGroup:
        from sgc.lang.forks import ForkGroup

        self._check_open()
        stream, note = self._stream, self._body.branches
        streams = self._bridge.ask(lambda: note(stream.fork(width, source, items=items)))
        branches = [ProgramState(self._body, child, self._role) for child in streams]
        for branch in branches:
            branch._has_item = items is not None
        return ForkGroup(self, branches)

    # -- variables --------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Any:
        """The value of a variable; waits for it.

        Raises GenerationError when it is not set, or when the node that writes it failed.
        """
        known = self._bridge.known(lambda: self._written(name))
        if known is not None:
            return known.value
        source = caller_source()
        return self._bridge.value(lambda: self._pending(name, source).value)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a variable, or `default` when it is not set."""
        return self[name] if name in self else default

    def __contains__(self, name: object) -> bool:
        stream = self._stream
        return self._bridge.ask(lambda: name in stream.variables)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a state cannot be iterated; fork it, or read its variables by name")

    def set(self, name: str, value: Any) -> None:
        """Write a variable."""
        self._check_open()
        check_name("set", name)
        stream, kept = self._stream, own_copy(value)
        self._bridge.post(lambda: stream.set(name, kept))

    def var_scope(self, name: str) -> AbstractContextManager[None]:
        """`with s.var_scope("v"):` the text that is appended inside becomes variable `v`."""
        self._check_open()
        return text_scope(self, name)

    def meta(self, name: str) -> dict[str, Any]:
        """Facts about the call that wrote a variable: `finish_reason`, `scores` ...; waits."""
        source = caller_source()
        meta: dict[str, Any] = self._bridge.value(lambda: self._pending(name, source).meta)
        return meta

    def stream(self, name: str) -> Iterator[str]:
        """Pieces of a variable's text as they come; together they are the whole text."""
        source = caller_source()
        return self._body.pieces(lambda: self._pending(name, source))

    def _written(self, name: str) -> Cell | None:
        found = self._stream.get(name)
        return found.value if found is not None else None

    def _pending(self, name: str, source: Source) -> Pending:
        found = self._stream.get(name)
        if found is None:
            raise unset(self._stream, name, source)
        return found

    # -- reading the whole ------------------------------------------------------------------

    def text(self) -> str:
        """The whole text so far; waits for it."""
        text: str = self._bridge.value(self._stream.text)
        return text

    def messages(self) -> list[dict[str, Any]]:
        """The chat turns so far, an open one last; waits for them."""
        messages: list[dict[str, Any]] = self._bridge.value(self._stream.messages)
        return messages

    def error(self) -> Exception | None:
        """The error that stopped this stream, or None; waits for all that was appended."""
        error: Exception | None = self._bridge.value(self._found_error)
        return error

    def _found_error(self) -> Cell:
        found = Cell()
        self._stream.drained().then(lambda cell: found.set(cell.error))
        return found

    def loop(self, max: int) -> Iterator[int]:
        """`for i in s.loop(max=n):` at most `n` passes, ended by `break` or silently."""
        if not isinstance(max, int) or isinstance(max, bool) or max < 0:
            raise refusal(f"s.loop(max={max!r}); give a whole number, 0 or more")
        return iter(range(max))

    def _check_open(self) -> None:
        if self._joined:
            raise refusal("this branch was joined; append to the parent, or before the join")
