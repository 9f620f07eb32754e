"""What a program's first parameter is while it is compiled: the API of the live state, recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import check_name
from sgc.trace.operand import holds_symbol
from sgc.trace.refusal import refuse
from sgc.trace.stream import Stream
from sgc.trace.symbol import Symbol, is_mark

if TYPE_CHECKING:
    from sgc.trace.forks import Forks

_UNSET: Any = object()


class Block:
    """A `with` block of a stream; its end runs once on each path that leaves it."""

    _sgc_stream = True

    def __init__(
        self, begin: Callable[[], Any], end: Callable[[Any], None], gives: bool = True
    ) -> None:
        self._begin = begin
        self._end = end
        self._gives = gives
        self._value: Any = None

    def __enter__(self) -> Any:
        self._value = self._begin()
        return self._value if self._gives else None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None or (self._gives and issubclass(kind, Exception)):
            self._end(self._value)


class TracedState:
    """One stream of the program; branches of forks are states as well."""

    _sgc_stream = True

    def __init__(self, stream: Stream, item: Any = _UNSET) -> None:
        self.stream_ = stream
        self._item = item

    # -- appending --------------------------------------------------------------------------------

    def __iadd__(self, x: Any) -> TracedState:
        self.stream_.append(x)
        return self

    def extend(self, x: Any) -> None:
        """Append text, a value, a primitive, or a `+` of them."""
        self.stream_.append(x)

    def _turn(self, role: str) -> Block:
        def begin() -> TracedState:
            self.stream_.begin_role(role)
            return self

        return Block(begin, lambda _: self.stream_.end_role())

    def system(self) -> Any:
        """`with s.system():`"""
        return self._turn("system")

    def user(self) -> Any:
        """`with s.user():`"""
        return self._turn("user")

    def assistant(self) -> Any:
        """`with s.assistant():`"""
        return self._turn("assistant")

    def call(self, program: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Go on with the body of another program in this stream; gives its return value."""
        from sgc.trace.subprogram import inline

        self.stream_.check_open()
        return inline(self, program, args, kwargs)

    # -- branches ---------------------------------------------------------------------------------

    def fork(self, n: Any) -> Forks:
        """`n` branches that go on from here."""
        from sgc.trace.forks import fork

        return fork(self, n)

    def fork_each(self, items: Any) -> Forks:
        """One branch an item."""
        from sgc.trace.forks import fork_each

        return fork_each(self, items)

    def copy(self) -> Block:
        """`with s.copy() as t:` a branch that is never merged back."""
        from sgc.trace.forks import copy

        return Block(lambda: copy(self), lambda _: None)

    @property
    def has_item(self) -> bool:
        """Whether it is a branch of fork_each."""
        return self._item is not _UNSET

    @property
    def item(self) -> Any:
        """The item of a branch of `fork_each`."""
        if self._item is _UNSET:
            raise refuse("item: this is no branch of fork_each; read it from those only")
        return self._item

    # -- variables --------------------------------------------------------------------------------

    def __getitem__(self, name: Any) -> Any:
        return self.stream_.read(name)

    def get(self, name: Any, default: Any = None) -> Any:
        """The value of a variable, or `default` when it is not set."""
        if is_mark(name):
            raise refuse("the name of a variable is a run-time value; give a constant")
        return self.stream_.get(name, default) if isinstance(name, str) else default

    def has_(self, name: Any) -> Any:
        """`name in s`: a truth, or a run-time value."""
        if is_mark(name):
            raise refuse("the name of a variable is a run-time value; give a constant")
        return isinstance(name, str) and self.stream_.has(name)

    def __contains__(self, name: Any) -> bool:
        return bool(self.has_(name))

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a state cannot be iterated; fork it, or read its variables by name")

    def set(self, name: Any, value: Any) -> None:
        """Write a variable."""
        self.stream_.set(name, value)

    def var_scope(self, name: str) -> Block:
        """`with s.var_scope("v"):` the text that is appended inside becomes variable `v`."""
        stream = self.stream_
        if stream.trace.takes_errors:
            raise refuse(
                "var_scope in a program whose `try` takes what the run raises; set the variable "
                "from the parts of the text"
            )

        def begin() -> Symbol:
            stream.check_open()
            check_name("var_scope", name)
            length: Symbol = stream.trace.expr("len", stream.whole("text"))
            return length

        def end(length: Symbol) -> None:
            piece = stream.trace.expr("getslice", stream.whole("text"), length, None, None)
            stream.set(name, piece)

        return Block(begin, end, gives=False)

    def meta(self, name: Any) -> Any:
        """Facts about the call that wrote a variable."""
        return self.stream_.read(name, "meta")

    def stream(self, name: str) -> Any:
        """Refused: pieces arrive while a program runs."""
        raise refuse('s.stream(...) reads text as it comes and is not compiled; read s["v"]')

    # -- reading the whole ------------------------------------------------------------------------

    def text(self) -> Symbol:
        """The whole text so far."""
        return self.stream_.whole("text")

    def messages(self) -> Symbol:
        """The chat turns so far."""
        return self.stream_.whole("messages")

    def error(self) -> Any:
        """Refused: errors appear while a program runs."""
        raise refuse("s.error() is not compiled; read it from the finished state")

    def loop(self, max: Any) -> Any:
        """`for i in s.loop(max=n):` at most `n` passes."""
        if is_mark(max) or holds_symbol(max):
            return self.stream_.trace.expr("range", max)
        if not isinstance(max, int) or isinstance(max, bool) or max < 0:
            raise refuse(f"s.loop(max={max!r}); give a whole number, 0 or more")
        return range(max)
