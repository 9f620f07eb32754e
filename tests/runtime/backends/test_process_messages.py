"""What goes between a process and the process of its engine: frames, calls, results, errors."""

from __future__ import annotations

import enum
import socket
import threading
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.errors import BackendError, CompileError, ConstraintError, DeadlineError, ModelError
from sgc_ir.params import CallResult, SamplingParams, Timing, Usage
from sgc_runtime.backends.process_channel import Channel, packed
from sgc_runtime.backends.process_messages import (
    call_of,
    error_of,
    plain_call,
    plain_error,
    plain_result,
    result_of,
)
from sgc_runtime.executor.backend import Beginning, Call
from sgc_runtime.journal.codec import pack, unpack

texts = st.text(st.characters(), max_size=12)  # half surrogate pairs too
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)

count = st.none() | st.integers(0, 2**40)


def there_and_back(value: Any) -> Any:
    return unpack(pack(value))


messages = st.lists(st.integers() | texts | st.binary() | st.none(), min_size=1, max_size=3)


@settings(max_examples=40)
@given(st.lists(st.lists(messages, min_size=1, max_size=3), max_size=4), st.data())
def test_messages_come_as_they_were_sent(batches: list[list[list[Any]]], data: Any) -> None:
    """However the stream of bytes is cut."""
    ours, theirs = socket.socketpair()
    raw, sink = socket.socketpair()
    with ours, theirs, raw, sink:
        sender, receiver = Channel(raw), Channel(theirs)
        for batch in batches:
            sender.send([packed(*message) for message in batch])
        sender.close()
        whole = b"".join(iter(lambda: sink.recv(1 << 16), b""))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        found = []
        for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            ours.sendall(whole[begin:end])
            found += receiver.receive() or []
        assert found == [message for batch in batches for message in batch]
        assert receiver.receive() == []
        ours.close()
        assert receiver.receive() is None
        receiver.close()


def test_more_than_the_socket_takes_is_sent_meanwhile() -> None:
    ours, theirs = socket.socketpair()
    sender, receiver = Channel(ours), Channel(theirs)
    wanted = [[i, "x" * 50_000] for i in range(200)]
    for message in wanted:
        sender.send([packed(*message)])  # nobody reads yet
    found: list[Any] = []

    def read() -> None:
        while len(found) < len(wanted):
            found.extend(receiver.receive() or [])

    reader = threading.Thread(target=read)
    reader.start()
    sender.drain(30)
    reader.join(30)
    assert found == wanted
    receiver.close()
    sender.send([packed("nobody")])  # no error
    sender.close()
    assert sender.receive() is None


def test_what_is_no_plain_data_is_refused_where_it_is_sent() -> None:
    with pytest.raises(TypeError, match="object is no plain data"):
        packed("hint", object())


class _Word(enum.StrEnum):
    YES = "yes"


class _Number(enum.IntEnum):
    ONE = 1


class _Pair(NamedTuple):
    one: int
    other: str


def test_kinds_of_text_and_numbers_are_taken_for_what_they_hold() -> None:
    given = [_Word.YES, np.float64(0.5), _Number.ONE, _Pair(1, _Word.YES), True]
    given += [np.int64(-3), np.uint64(2**64 - 1), np.float32(0.5), np.bool_(True)]
    (found,) = unpack(packed(given))
    assert found == ["yes", 0.5, 1, (1, "yes"), True, -3, 2**64 - 1, 0.5, True]
    kinds = [str, float, int, tuple, bool, int, int, float, bool]
    assert [type(one) for one in found] == kinds
    with pytest.raises(TypeError, match="_Word is no plain data"):
        pack(_Word.YES)  # a journal gives back what it was given


params = st.builds(
    SamplingParams,
    max_tokens=st.integers(0, 9),
    stop=st.lists(texts).map(tuple),
    stop_token_ids=st.lists(st.integers(0, 99)).map(tuple),
    temperature=st.floats(0, 2),
    logit_bias=st.none() | st.dictionaries(st.integers(0, 9).map(str), st.floats(-9, 9)),
    json_schema=st.none() | st.booleans() | st.dictionaries(texts, plain),
    choices=st.none() | st.lists(texts).map(tuple),
    heal=st.booleans(),
    seed=st.none() | st.integers(0, 2**63 - 1),
)


@settings(max_examples=50)
@given(
    params,
    texts,
    st.lists(st.integers(0, 2**63 - 1)).map(tuple),
    st.booleans(),
    st.none() | st.integers(0, 9),
    st.lists(st.builds(Beginning, st.integers(1, 2**40), count, count), max_size=3).map(tuple),
)
def test_calls(
    wanted: SamplingParams,
    node: str,
    seeds: tuple[int, ...],
    flag: bool,
    more: int | None,
    beginnings: tuple[Beginning, ...],
) -> None:
    def listen(piece: str) -> None:
        pass

    hints = (5, more, more, beginnings, more)
    call = Call(node, "s", 3, wanted, seeds, flag, listen if flag else None, None, 7, more, *hints)
    found = call_of(there_and_back(plain_call(call)), listen)
    assert found == call
    for field in fields(SamplingParams):
        assert type(getattr(found.params, field.name)) is type(getattr(wanted, field.name))


@settings(max_examples=50)
@given(
    texts,
    st.lists(st.integers(0, 2**31)),
    st.none() | texts | st.integers(0, 99),
    st.dictionaries(texts, plain),
    st.binary(),
    st.none() | st.builds(Timing, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1)),
)
def test_results(
    text: str, ids: list[int], matched: Any, meta: dict[str, Any], pending: bytes, timing: Any
) -> None:
    usage = Usage(1, 2, 3, 4, 5)
    for kept in (ids, tuple(ids)):
        result = CallResult(
            text, kept, "stop", matched, False, usage, meta, pending, text, 2, timing
        )
        found = result_of(there_and_back(plain_result(result)))
        assert found == result
        assert type(found.token_ids) is type(kept)


def caught(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause
    except BaseException as found:
        return found


ERRORS = [
    BackendError("it failed"),
    ModelError("no such model"),
    DeadlineError("too long"),
    ConstraintError("no text", kind="unsatisfiable", where="/a/b"),
    CompileError("not this", "work.py", 7),
    ValueError("a", 1),
    KeyError("name"),
    FileNotFoundError(2, "No such file or directory", "/nowhere"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    SystemExit("it ends"),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors(error: BaseException) -> None:
    made = error_of(there_and_back(plain_error(caught(error, ModelError("below")))))
    assert type(made) is type(error)
    assert str(made) == str(error)
    for name, value in vars(error).items():
        assert getattr(made, name) == value
    assert type(made.__cause__) is ModelError
    assert str(made.__cause__) == "below"


class OfAnotherLibrary(RuntimeError):
    pass


class Endless(ConstraintError):
    pass


def test_errors_of_kinds_that_only_one_side_knows() -> None:
    made = error_of(there_and_back(plain_error(caught(OfAnotherLibrary("out of memory")))))
    assert type(made) is RuntimeError
    assert str(made) == "OfAnotherLibrary: out of memory"
    assert "in caught" in made.__notes__[0]  # where it was raised, for --debug
    made = error_of(there_and_back(plain_error(caught(Endless("it has no end", kind="limit")))))
    assert type(made) is ConstraintError
    assert (str(made), vars(made)["kind"]) == ("it has no end", "limit")
