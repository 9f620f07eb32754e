"""Built-in functions on run-time values: recorded where the table has them, else refused."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sgc.lang.primitives import vote
from sgc.trace.emit import BREAK
from sgc.trace.env import Env, Frame
from sgc.trace.family import RunTimeForks
from sgc.trace.generator import TracedGenerator
from sgc.trace.operand import holds_spread, holds_symbol
from sgc.trace.ordering import extreme, sorted_values
from sgc.trace.refusal import refuse, user_frame
from sgc.trace.run_dicts import of_pairs
from sgc.trace.symbol import BIND_ADVICE, KEY, Spread, Symbol, check_sure, is_mark
from sgc.trace.taken import QUESTION, MixedError, TracedError, TracedType
from sgc.trace.walk import Enumerate, Mapped, Walk, as_walk, zipped

if TYPE_CHECKING:
    from sgc.trace.context import Trace

Handler = Callable[..., Any]
_FOUND = "the answer of any or all"


def _recorded(name: str) -> Handler:
    """Recorded where a run-time value is among the arguments."""
    native = getattr(builtins, name)

    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        if not any(trace.runtime.is_run_time(a) for a in (*args, *kwargs.values())):
            return native(*args, **kwargs)
        return trace.expr(name, *args, **kwargs)

    return call


def _length(trace: Trace, value: Any) -> Any:
    if isinstance(value, RunTimeForks) or type(value) is Symbol or holds_spread(value):
        return trace.runtime.length(value)
    found = trace.runtime.dunder(check_sure(value), "__len__")
    return len(value) if found is None else found()


def _bool(trace: Trace, *args: Any) -> Any:
    if args and (type(args[0]) is Symbol or holds_spread(args[0])):
        return trace.expr("bool", args[0])
    return trace.runtime.truth(args[0]) if args else False


def _text(how: str) -> Handler:
    native = getattr(builtins, how)

    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            return trace.runtime.text_of(args[0], how)
        if holds_symbol((args, kwargs)):
            raise refuse(f"{how} with an encoding got a run-time value; {BIND_ADVICE}")
        return native(*args, **kwargs)

    return call


def _format(trace: Trace, value: Any, spec: Any = "") -> Any:
    return trace.runtime.formatted(value, spec)


def _extreme(fn: str) -> Handler:
    def call(trace: Trace, *args: Any, key: Any = None, **options: Any) -> Any:
        return extreme(trace, fn, args, key, options)

    return call


def _sum(trace: Trace, values: Any, /, start: Any = 0) -> Any:
    items = trace.runtime.listed(values)
    if holds_symbol(items) or holds_symbol(start):
        return trace.expr("sum", items, start)
    return sum(items, start)


def _sorted(trace: Trace, values: Any, /, *, key: Any = None, reverse: Any = False) -> Any:
    return sorted_values(trace, values, key, reverse)


def _vote(trace: Trace, values: Any) -> Any:
    items = trace.runtime.listed(values)
    return trace.expr("vote", items) if holds_symbol(items) else vote(items)


# -- iterables ------------------------------------------------------------------------------------


def _zip(trace: Trace, *values: Any, strict: bool = False) -> Any:
    walk = zipped(trace, values)
    if walk is None:
        iterators = [trace.runtime.iterate(v) for v in values]
        return trace.runtime.own_iterator(zip(*iterators, strict=strict))
    if strict:
        keys = {leaf.length().key for leaf in walk.leaves()}
        if len(keys) > 1:
            raise refuse("zip(strict=True) of lists that may differ in length; leave strict out")
    return walk


def _enumerate(trace: Trace, values: Any, start: Any = 0) -> Any:
    walk = as_walk(trace, values)
    if walk is not None:
        return Enumerate(trace, walk, start)
    return trace.runtime.own_iterator(enumerate(trace.runtime.iterate(values), start))


def _reversed(trace: Trace, values: Any) -> Any:
    if isinstance(values, RunTimeForks):
        raise refuse("branches of run-time number are reversed; read their values into a list")
    if is_mark(values) or holds_spread(values):
        return trace.expr("reversed", trace.runtime.as_list(values))
    return trace.runtime.own_iterator(reversed(values))


def _map(trace: Trace, fn: Any, *values: Any) -> Any:
    walk = as_walk(trace, values[0]) if len(values) == 1 else zipped(trace, values)
    if walk is not None:
        if len(values) == 1:
            return Mapped(trace, walk, lambda item: trace.runtime.call(fn, item))
        return Mapped(trace, walk, lambda items: trace.runtime.call(fn, *items))
    iterators = [trace.runtime.iterate(v) for v in values]
    made = (trace.runtime.call(fn, *items) for items in zip(*iterators))  # noqa: B905
    return trace.runtime.own_iterator(made)


def _filter(trace: Trace, fn: Any, values: Any) -> Any:
    item: list[Any] = [None]

    def put(value: Any) -> None:
        item[0] = value

    def is_kept() -> Any:
        return item[0] if fn is None else trace.runtime.call(fn, item[0])

    return TracedGenerator(trace, ((None, put, (is_kept,)),), lambda: item[0], values)


def _iter(trace: Trace, values: Any, *sentinel: Any) -> Any:
    if is_mark(values) or holds_spread(values) or isinstance(values, RunTimeForks):
        raise refuse("iter() of run-time values is not compiled; use a for loop")
    if sentinel:
        return trace.runtime.foreign(iter, (values, *sentinel), {})
    return trace.runtime.own_iterator(trace.runtime.iterate(values))


def _next(trace: Trace, iterator: Any, *default: Any) -> Any:
    if isinstance(iterator, TracedGenerator):
        iterator = iterator.elements()
        trace.runtime.own_iterator(iterator)
    elif as_walk(trace, iterator) is not None:
        raise refuse("next() of run-time values is not compiled; index a list")
    trace.runtime.check_iterator(iterator)
    value = next(iterator, *default)
    if type(value) is Spread:
        raise refuse("next() of run-time values is not compiled; index a list")
    return value


def _any_all(fn: str) -> Handler:
    def call(trace: Trace, values: Any) -> Any:
        if isinstance(values, TracedGenerator) and values.can_restart:
            found, is_total = trace.runtime.tried(lambda: _Early(trace, fn).over(values.again()))
            return found if is_total else _stopping(trace, fn, values)
        return _Early(trace, fn).over(values)

    return call


def _stopping(trace: Trace, fn: str, values: TracedGenerator) -> Any:
    """A loop that ends at the first element that decides."""
    decides = fn == "any"
    env = Env({_FOUND: not decides}, trace.log)

    def found() -> int:
        env[_FOUND] = decides
        return BREAK

    def one_pass(element: Any) -> Any:
        arms = (found, None) if decides else (None, found)
        return trace.runtime.if_(element, *arms)

    trace.frames.append(Frame(None, env))
    try:
        trace.runtime.for_(values, one_pass, None)
    finally:
        trace.frames.pop()
    return env[_FOUND]


class _Early:
    """`any` and `all`: stop at the first element that decides."""

    def __init__(self, trace: Trace, fn: str) -> None:
        self._trace = trace
        self._fn = fn
        self._recorded: list[Any] = []

    def over(self, values: Any) -> Any:
        trace = self._trace
        if trace.runtime.is_run_time(values):
            return trace.expr(self._fn, values)
        before = trace.effects, trace.partials
        elements = self._elements(values)
        while (element := self._next(elements)) is not elements:
            if is_mark(element) or holds_spread(element):
                self._recorded.append(element)
            elif trace.runtime.truth(element) == (self._fn == "any"):
                self._recorded.append(element)
                break
        if not any(is_mark(v) or holds_spread(v) for v in self._recorded):
            return bool(self._recorded) == (self._fn == "any")
        if (trace.effects, trace.partials) != before:
            self._refuse()
        return trace.expr(self._fn, self._recorded)

    def _elements(self, values: Any) -> Iterator[Any]:
        if isinstance(values, Walk | RunTimeForks):
            return iter(self._trace.runtime.listed(values))
        return iter(self._trace.runtime.iterate(values))

    def _next(self, elements: Iterator[Any]) -> Any:
        """The next element, or `elements` itself at the end."""
        try:
            return next(elements, elements)
        except Exception as error:
            if self._recorded:
                self._refuse(error)
            raise

    def _refuse(self, cause: Exception | None = None) -> None:
        raise refuse(
            f"`{self._fn}` stops at the first element that decides, and an element here may fail "
            f"or does something; annotate the argument's type (as in list[int]), or make a list "
            f"first: {self._fn}([...])"
        ) from cause


# -- containers -----------------------------------------------------------------------------------


def _list(trace: Trace, *values: Any) -> Any:
    return trace.runtime.listed(values[0]) if values else []


def _tuple(trace: Trace, *values: Any) -> Any:
    if not values:
        return ()
    items = trace.runtime.listed(values[0])
    return trace.expr("tuple_of", items) if holds_spread(items) else tuple(items)


def _set(kind: Any) -> Handler:
    def call(trace: Trace, *values: Any) -> Any:
        items = trace.runtime.listed(values[0]) if values else []
        if holds_spread(items) or any(is_mark(item) for item in items):
            raise refuse(KEY)
        return kind(items)

    return call


def _dict(trace: Trace, *values: Any, **entries: Any) -> Any:
    if values and isinstance(values[0], dict):
        return dict(*values, **entries)
    if values and not entries and type(values[0]) is Symbol and values[0].form.kind in ("", "dict"):
        return of_pairs(trace, values[0])  # the run knows whether it is a dict or a list of pairs
    items = trace.runtime.listed(values[0]) if values else []
    if holds_spread(items) and not entries:
        return of_pairs(trace, items)
    if holds_spread(items):
        raise refuse(KEY)
    return dict([trace.runtime.unpack(pair, 2, None) for pair in items], **entries)


# -- questions that have no answer yet ------------------------------------------------------------


def _question(native: Any) -> Handler:
    name = native.__name__

    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(arg, _ERRORS) for arg in args):
            return _asked_of_error(name, *args)
        asks_deep = name == "print" and holds_symbol((args, kwargs))
        if asks_deep or any(is_mark(a) for a in args):
            raise refuse(
                f"{name} of a run-time value cannot be answered when compiling; {BIND_ADVICE}"
            )
        return native(*args, **kwargs)

    return call


_ERRORS = (TracedError, MixedError, TracedType)


def _asked_of_error(name: str, *args: Any) -> Any:
    if args and isinstance(args[0], TracedError):
        if name == "isinstance" and len(args) == 2:
            return args[0].is_instance(args[1])
        if name == "type" and len(args) == 1:
            return TracedType(args[0])
    raise refuse(f"{name} of an error: {QUESTION}")


def _getattr(trace: Trace, value: Any, name: str, *default: Any) -> Any:
    if is_mark(value) or is_mark(name):
        raise refuse(
            f"getattr of a run-time value cannot be answered when compiling; {BIND_ADVICE}"
        )
    try:
        return trace.runtime.attribute(value, name)
    except AttributeError:
        if default:
            return default[0]
        raise


def _setattr(trace: Trace, value: Any, name: str, new: Any) -> None:
    trace.runtime.set_attribute(value, name, new)


def _refused(name: str) -> Handler:
    def call(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        native = getattr(builtins, name)
        if name in ("vars", "dir") and args:
            return trace.runtime.foreign(native, args, kwargs)
        raise refuse(
            f"{name}() looks into the running function and is not compiled; name the values"
        )

    return call


def _globals(trace: Trace) -> Any:
    frame = user_frame()
    return frame.f_globals if frame is not None else {}


_HANDLERS: dict[Any, Handler] = {
    len: _length, bool: _bool, format: _format, sum: _sum, sorted: _sorted, vote: _vote,
    zip: _zip, enumerate: _enumerate, reversed: _reversed, map: _map, filter: _filter,
    iter: _iter, next: _next, list: _list, tuple: _tuple, dict: _dict, getattr: _getattr,
    setattr: _setattr, globals: _globals, min: _extreme("min"), max: _extreme("max"),
    any: _any_all("any"), all: _any_all("all"), set: _set(set), frozenset: _set(frozenset),
    **{getattr(builtins, n): _recorded(n) for n in ("int", "float", "round", "abs", "range")},
    **{getattr(builtins, n): _text(n) for n in ("str", "repr", "ascii")},
    **{
        getattr(builtins, n): _question(getattr(builtins, n))
        for n in ("isinstance", "issubclass", "type", "hasattr", "callable", "id", "print", "hash")
    },
    **{getattr(builtins, n): _refused(n) for n in ("locals", "eval", "exec", "vars", "dir")},
}  # fmt: skip

# For these all keys of a dict count.
KEYS_COUNT = frozenset(
    map(id, (len, sorted, list, tuple, set, frozenset, sum, min, max, any, all, map, filter, zip,
             enumerate))
)  # fmt: skip
MODELLED: dict[int, Handler] = {id(fn): handler for fn, handler in _HANDLERS.items()}
