"""Which rule ends a gen, and what is kept of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engine import Letters

from sgc_ir.params import SamplingParams
from sgc_runtime.engine.output import OutputWatcher

EOS = 0


def ids(text: str) -> list[int]:
    """`$` stands for EOS."""
    return [EOS if c == "$" else ord(c) - 63 for c in text]


def watch(text: str, **params: Any) -> tuple[OutputWatcher, int, list[str]]:
    pieces: list[str] = []
    values = SamplingParams(**{"max_tokens": 100, **params})
    watcher = OutputWatcher(values, Letters(), {EOS}, on_text=pieces.append)
    pushed = 0
    for token in ids(text):
        pushed += 1
        if watcher.push(token):
            break
    return watcher, pushed, pieces


@pytest.mark.parametrize(
    ("text", "params", "expected"),
    [
        ("abc$d", {}, ("abc", 4, "eos", EOS)),
        ("abc$d", {"max_tokens": 2}, ("ab", 2, "length", None)),
        ("abXYc", {"stop": ("XY",)}, ("ab", 4, "stop", "XY")),
        ("abXZcXY", {"stop": ("XY",)}, ("abXZc", 7, "stop", "XY")),
        ("abcXd", {"stop": ("X", "bcX")}, ("a", 4, "stop", "bcX")),
        ("abcXYZ", {"stop": ("cXYZ", "XY")}, ("abc", 5, "stop", "XY")),
        ("abccd", {"stop_regex": ("c+d",)}, ("ab", 5, "stop", "c+d")),
        ("abcd", {"stop_token_ids": tuple(ids("c"))}, ("ab", 3, "stop", ids("c")[0])),
        ("abc$", {"stop_token_ids": (EOS,)}, ("abc", 4, "stop", EOS)),
        ("abcX", {"stop": ("X",), "max_tokens": 4}, ("abc", 4, "stop", "X")),
        ("abc$", {"max_tokens": 4}, ("abc", 4, "eos", EOS)),
        ("XaXb", {"stop": ("X",), "min_tokens": 1}, ("Xa", 3, "stop", "X")),
        ("ab$c$d", {"ignore_eos": True, "max_tokens": 6}, ("abcd", 6, "length", None)),
        ("ab$X", {"ignore_eos": True, "stop": ("X",)}, ("ab", 4, "stop", "X")),
        ("ab$bX", {"ignore_eos": True, "stop": ("bbX",)}, ("a", 5, "stop", "bbX")),
        ("$", {}, ("", 1, "eos", EOS)),
        ("X", {"stop": ("X",)}, ("", 1, "stop", "X")),
    ],
    ids=str,
)
def test_the_rule_that_ends_it(
    text: str, params: dict[str, Any], expected: tuple[str, int, str, Any]
) -> None:
    watcher, pushed, pieces = watch(text, **params)
    assert (watcher.text, pushed, watcher.finish_reason, watcher.matched) == expected
    assert "".join(pieces) == watcher.text


def test_stops_are_held_back_while_streaming() -> None:
    watcher, _, pieces = watch("abXcX", stop=("XY",), max_tokens=5)
    assert pieces == ["a", "b", "Xc", "X"]
    assert watcher.num_kept == 5


def test_kept_tokens_and_residual() -> None:
    watcher, _, _ = watch("abXYc", stop=("XY",))
    assert (watcher.num_kept, watcher.residual, watcher.pending) == (2, "", b"")


class Bytes(Letters):
    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


def push_bytes(data: bytes, before: bytes = b"", **params: Any) -> OutputWatcher:
    values = SamplingParams(**{"max_tokens": len(data), **params})
    watcher = OutputWatcher(values, Bytes(), {300}, pending=before)
    for byte in data:
        if watcher.push(byte):
            break
    return watcher


def test_incomplete_characters_wait() -> None:
    fox = "🦊".encode()
    first = push_bytes(b"a" + fox[:2])
    assert (first.text, first.pending, first.num_kept) == ("a", fox[:2], 3)
    second = push_bytes(fox[2:] + b"b", before=first.pending)
    assert (second.text, second.pending, second.num_kept) == ("🦊b", b"", 3)
    wrong = push_bytes(b"xy", before=fox[:2])
    assert wrong.text == "\ufffdxy"


def test_a_stop_over_a_pending_character() -> None:
    fox = "🦊".encode()
    at_once = push_bytes(fox[2:] + b"b", before=fox[:2], stop=("🦊",))
    assert (at_once.text, at_once.num_kept, at_once.residual) == ("", 0, "")
    assert at_once.pending == fox[:2]
    behind = push_bytes(fox[2:] + b"bX", before=fox[:2], stop=("X",))
    assert (behind.text, behind.num_kept, behind.pending) == ("🦊b", 3, b"")


def state_of(watcher: OutputWatcher) -> tuple[object, ...]:
    watcher._catch_up()
    ends = (watcher.finish_reason, watcher.matched, watcher.text, watcher.residual)
    search = (watcher._search.text, watcher._search.pending, watcher._search._finder.num_safe_chars)
    return (*ends, watcher.pending, watcher.num_kept, watcher.num_tokens, search)


@given(
    st.lists(st.sampled_from("aé b😀X".encode()) | st.integers(1, 60), max_size=70),
    st.sampled_from([(), ("aX",), ("b", " a")]),
    st.sampled_from([(), ("a+X",), (r"(a|b)\1X",)]),
    st.sampled_from([0, 5]),
)
def test_what_is_taken_back_was_never_there(
    moves: list[int], stop: tuple[str, ...], stop_regex: tuple[str, ...], min_tokens: int
) -> None:
    def fresh() -> OutputWatcher:
        params = SamplingParams(
            max_tokens=60, stop=stop, stop_regex=stop_regex, min_tokens=min_tokens
        )
        return OutputWatcher(params, Bytes(), {EOS}, pending=b"\xc3", drop_blank=True, bound=True)

    watcher, left = fresh(), list[int]()
    for move in moves:
        if 0 < move <= 60 and move <= len(left) and move != 0x20:
            watcher.take_back(move)
            del left[-move:]
        else:
            left.append(move)
            if watcher.push(move):
                break
    expected = fresh()
    for token in left:
        expected.push(token)
    assert state_of(watcher) == state_of(expected)


@given(
    st.lists(st.binary(min_size=1, max_size=9) | st.integers(1, 12), max_size=40),
    st.sampled_from([b"", b"\xc3", b"\xf0\x9f"]),
    st.booleans(),
    st.sampled_from([60, 7]),
)
def test_what_no_stop_can_end_is_found_at_the_end(
    moves: list[bytes | int], pending: bytes, drop_blank: bool, max_tokens: int
) -> None:
    def fresh(*stop: str) -> OutputWatcher:
        params = SamplingParams(max_tokens=max_tokens, stop=stop)
        return OutputWatcher(
            params, Bytes(), {EOS}, pending=pending, drop_blank=drop_blank, bound=True
        )

    late, at_once = fresh(), fresh("\0")  # which is EOS, not text
    for move in moves:
        if isinstance(move, int):
            if move <= at_once.num_tokens:
                late.take_back(move)
                at_once.take_back(move)
            continue
        taken = late.push_all(move)
        found = next((i for i, token in enumerate(move, 1) if at_once.push(token)), len(move))
        assert taken == found
        if late.finish_reason is not None:
            break
    else:
        late.complete()
        at_once.complete()
    for watcher in (late, at_once):
        assert watcher.finish_reason is not None
    assert state_of(late)[:-1] == state_of(at_once)[:-1]


@pytest.mark.parametrize("bound", [True, False])
def test_text_that_a_stop_id_may_take_the_place_of_is_not_given_away(bound: bool) -> None:
    """Under a constraint another token for the same text may come, and be one that stops."""
    pieces: list[str] = []
    params = SamplingParams(max_tokens=9, stop_token_ids=tuple(ids("b")))
    watcher = OutputWatcher(params, Letters(), {EOS}, on_text=pieces.append, bound=bound)
    watcher.push(*ids("a"))
    assert pieces == ([] if bound else ["a"])
    if bound:
        watcher.take_back(1)
    assert watcher.push(*ids("b"))
    assert "".join(pieces) == watcher.text == ("" if bound else "a")


def test_ids_without_text_hold_nothing_back() -> None:
    pieces: list[str] = []
    params = SamplingParams(max_tokens=9, stop_token_ids=(EOS, 1))
    watcher = OutputWatcher(params, Letters(), {EOS}, on_text=pieces.append, bound=True)
    watcher.push(*ids("a"))
    assert pieces == ["a"]
