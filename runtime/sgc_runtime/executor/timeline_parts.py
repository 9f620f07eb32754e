"""What a node's time went into: attempts, and in the one that counted queue, prefill, decode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol

from sgc_ir.params import CallResult, Timing, Usage


class Tried(Protocol):
    """One try of the backend; seconds of one clock, `ended` None for one that was left alone."""

    began: float
    ended: float | None
    error: str


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a node's time; seconds."""

    name: str
    began: float
    ended: float
    facts: dict[str, Any] = field(default_factory=dict)


def parts_of(
    began: float, ended: float, attempts: Sequence[Tried], results: Sequence[CallResult]
) -> list[Part]:
    """Parts of a node within `began` and `ended`, whole ones before what they consist of; those
    beside each other do not overlap.

    `results` are of the last attempt. Samples run side by side: the slowest one is shown. A
    backend that measures nothing has no stages.
    """
    parts = list(_attempts(ended, attempts)) if len(attempts) > 1 else []
    timings = [result.timing for result in results if result.timing is not None]
    if timings:
        slowest = max(timings, key=lambda timing: timing.total)
        first = parts[-1].began if parts else began
        last = parts[-1].ended if parts else ended
        usage = sum((result.usage for result in results), Usage())
        parts += _stages(first, last, slowest, usage)
    return parts


def _attempts(ended: float, attempts: Sequence[Tried]) -> Iterator[Part]:
    """One that was left alone is shown up to the next one."""
    for number, (one, following) in enumerate(zip_longest(attempts, attempts[1:]), 1):
        assert one is not None
        last = ended if following is None else following.began
        facts = {"error": one.error} if one.error else {}
        yield Part(f"attempt {number}", one.began, min(one.ended or last, last), facts)


def _stages(began: float, ended: float, timing: Timing, usage: Usage) -> Iterator[Part]:
    """The stages, moved into `began` and `ended` where another clock measured them."""
    total = min(timing.total, ended - began)
    latest = max(began, ended - total)
    asked = min(max(timing.asked, began), latest) if timing.asked else latest
    admitted = min(asked + timing.waiting, ended)
    prefilled = min(admitted + timing.prefill, ended)
    done = min(prefilled + timing.decode, ended)
    computed = usage.prompt_tokens - usage.cached_tokens
    prompt = {"cached_tokens": usage.cached_tokens, "computed_tokens": computed}
    if usage.scored_tokens:
        prompt["scored_tokens"] = usage.scored_tokens
    sampled = usage.completion_tokens - usage.forced_tokens
    output = {"forced_tokens": usage.forced_tokens, "sampled_tokens": sampled}
    decode = "forced" if usage.forced_tokens and not sampled else "decode"
    stages = [
        Part("prepare", began, asked),
        Part("queued", asked, admitted),
        Part("prefill", admitted, prefilled, prompt),
        Part(decode, prefilled, done, output),
    ]
    yield from (part for part in stages if part.ended > part.began)
    if decode == "decode":
        yield from _forced(timing, prefilled, done)


def _forced(timing: Timing, prefilled: float, done: float) -> Iterator[Part]:
    """What was forced, within the decode."""
    last = prefilled
    for began, ended, count in timing.forced:
        began, ended = max(began, last), min(ended, done)
        if ended > began:
            last = ended
            yield Part("forced", began, ended, {"forced_tokens": count})
