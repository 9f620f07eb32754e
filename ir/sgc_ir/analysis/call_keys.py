"""Prompts of known calls as items of a trie: ids of known text, and spans.

A select encodes each choice together with the end of its prompt, and scores from where they first
differ; so that is where its prompt ends, and where what it chose begins in later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from sgc_ir.analysis.encoding import Remembered
from sgc_ir.analysis.known_calls import Instance, KnownCall
from sgc_ir.analysis.prefix_trie import Item
from sgc_ir.analysis.spans import Span

Choices = Mapping[Span, tuple[str, ...]]  # by the output of a select


class KeyedCall(NamedTuple):
    """A call with its prompt, and with what decode puts behind it.

    Attributes:
        base: number, in its instance, of an earlier call with which the prompt begins, what decode
            put behind that one included; None: it begins anew.
        items: of the prompt, from there on.
    """

    call: KnownCall
    base: int | None
    items: list[Item]
    output: Span


def keyed_calls(instance: Instance, encoding: Remembered) -> Iterator[KeyedCall]:
    """All calls of an instance."""
    choices = {c.output: c.choices for c in instance.calls if c.choices and c.kind == "select"}
    made: dict[int, int] = {}  # span -> the call whose output it is
    for place, call in enumerate(instance.calls):
        base = _base(call, instance.calls, made)
        made[call.output.number] = place
        begin = 0 if base is None else len(instance.calls[base].prompt) + 1
        parts = call.prompt[begin:]
        if call.output not in choices:
            yield KeyedCall(call, base, _items(parts, begin == 0, choices, encoding), call.output)
            continue
        *items, output = _items((*parts, call.output), begin == 0, choices, encoding)
        assert isinstance(output, Span)
        yield KeyedCall(call, base, items, output)


def _base(call: KnownCall, calls: Sequence[KnownCall], made: Mapping[int, int]) -> int | None:
    for at in range(len(call.prompt) - 1, -1, -1):
        part = call.prompt[at]
        found = made.get(part.number) if isinstance(part, Span) else None
        if found is not None and calls[found].prompt == call.prompt[:at]:
            return found
    return None


def _items(
    parts: Sequence[str | Span], is_start: bool, choices: Choices, encoding: Remembered
) -> list[Item]:
    key: list[Item] = []
    chosen: Span | None = None  # the next part, with the tokens that it has behind this text
    for place, part in enumerate(parts):
        if isinstance(part, Span):
            key.append(chosen or part)
            chosen = None
            continue
        start = is_start and not key
        behind = parts[place + 1] if place + 1 < len(parts) else None
        listed = choices.get(behind) if isinstance(behind, Span) else None
        scored = None if listed is None else encoding.scored(part, listed, start)
        if scored is None or not isinstance(behind, Span):
            key += encoding.encode(part, start)
        else:
            key += scored.ids
            chosen = replace(behind, low=scored.low, high=scored.high)
    return key
