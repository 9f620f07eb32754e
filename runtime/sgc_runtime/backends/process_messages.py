"""What a process and the process of its engine say to each other, as plain data.

To the engine: `start` (model, options, level of log lines), `call` (a gen or select) and `restore`
with the text that has come to their stream, `fork`, `hint` and `drop` for streams, `cancel`,
`load`, `identity`, `stats`, `close`. From it: `texts` of calls that stream, `done` with an answer,
`failed` with an error, `loaded`, `log` and `bye`. Whatever has an answer carries a number, by which
that is known.
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

from sgc_ir import errors
from sgc_ir.params import CallResult, SamplingParams, Timing, Usage
from sgc_runtime.executor.backend import Beginning, Call

Plain = list[Any]

_DEFAULTS = {f.name: getattr(SamplingParams(), f.name) for f in fields(SamplingParams)}
_MOST_CAUSES = 8


def plain_call(call: Call) -> Plain:
    """All of a call but its view; of its parameters those that are not the default."""
    params = call.params
    given = {
        name: dict(value) if name == "logit_bias" else value
        for name, default in _DEFAULTS.items()
        if (value := getattr(params, name)) is not default and value != default
    }
    return [
        call.node,
        call.stream,
        call.row,
        given,
        list(call.seeds),
        call.end_of_turn,
        call.on_text is not None,
        call.instance,
        call.more_tokens,
        [call.most, call.readers, call.next_use],
        [list(found) for found in call.beginnings],
        call.more_chars,
    ]


def call_of(plain: Plain, on_text: Callable[[str], None]) -> Call:
    """The call; `on_text` is used if it streams its text."""
    node, stream, row, given, seeds, end_of_turn, streams, instance, more_tokens, *hints = plain
    (most, readers, next_use), beginnings, more_chars = hints
    return Call(
        node,
        stream,
        row,
        SamplingParams(**given),
        tuple(seeds),
        end_of_turn,
        on_text if streams else None,
        None,
        instance,
        more_tokens,
        most,
        readers,
        next_use,
        tuple(Beginning(*found) for found in beginnings),
        more_chars,
    )


def plain_result(result: CallResult) -> Plain:
    """All of a result."""
    usage, timing = result.usage, result.timing
    return [
        result.text,
        result.token_ids,
        result.finish_reason,
        result.matched,
        result.complete,
        [
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.forced_tokens,
            usage.cached_tokens,
            usage.scored_tokens,
        ],
        dict(result.meta),
        result.pending,
        result.residual,
        result.rolled_back,
        None if timing is None else _plain_timing(timing),
    ]


def _plain_timing(timing: Timing) -> Plain:
    """The clock of its times is that of both processes."""
    forced = [list(span) for span in timing.forced]
    return [timing.waiting, timing.prefill, timing.decode, timing.asked, forced]


def result_of(plain: Plain) -> CallResult:
    """The result."""
    *own, usage, meta, pending, residual, rolled, timing = plain
    took = None if timing is None else Timing(*timing)
    text, ids, reason, matched, complete = own
    told = Usage(*usage)
    return CallResult(
        text, ids, reason, matched, complete, told, meta, pending, residual, rolled, took
    )


# -- errors


def plain_error(error: BaseException) -> Plain:
    """Type, message, attributes and causes; of an error that sgc does not raise on purpose also
    where it was raised."""
    chain: Plain = []
    found: BaseException | None = error
    while found is not None and len(chain) < _MOST_CAUSES:
        chain.append(list(_facts(found)))
        found = found.__cause__
    return chain


def error_of(plain: Plain) -> BaseException:
    """The error, with its causes."""
    made = [_made(*facts) for facts in plain]
    for error, cause in pairwise(made):
        error.__cause__ = cause
    return made[0]


def _facts(error: BaseException) -> tuple[str, list[Any], Mapping[str, Any], str]:
    kind = _kind(type(error))
    if issubclass(kind, errors.SgcError):
        known = {name: value for name, value in vars(error).items() if _is_plain(value)}
        return kind.__name__, [str(error)], known, ""
    args = list(error.args)
    if isinstance(error, OSError) and error.filename is not None:
        args = [error.errno, error.strerror, str(error.filename)]
    if kind is not type(error) or not all(map(_is_plain, args)):
        args = [f"{type(error).__name__}: {error}"]
    place = "".join(traceback.format_exception(error, chain=False))
    return kind.__name__, args, {}, place


def _kind(found: type[BaseException]) -> type[BaseException]:
    """The nearest class that both sides know."""
    kinds: list[type[BaseException]] = [
        kind for kind in found.__mro__ if _known(kind.__name__) is kind
    ]
    return kinds[0]


def _known(name: str) -> Any:
    return getattr(errors, name, None) or getattr(builtins, name, None)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool, bytes)


def _made(kind: str, args: list[Any], known: Mapping[str, Any], place: str) -> BaseException:
    found = _known(kind)
    if issubclass(found, errors.SgcError):
        own: BaseException = found.__new__(found)
        own.args = tuple(args)
        vars(own).update(known)
        return own
    try:
        error: BaseException = found(*args)
    except TypeError:  # one that is not made of a message alone
        error = RuntimeError(*args)
    error.add_note(f"In the engine's process:\n{place}")
    return error
