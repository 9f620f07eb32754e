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
    """A call with its prompt, and with what decode puts behind it."""

    call: KnownCall
    key: list[Item]
    output: Span


def keyed_calls(instance: Instance, encoding: Remembered) -> Iterator[KeyedCall]:
    """All calls of an instance."""
    choices = {c.output: c.choices for c in instance.calls if c.choices and c.kind == "select"}
    for call in instance.calls:
        if call.output not in choices:
            yield KeyedCall(call, _key(call.prompt, choices, encoding), call.output)
            continue
        *key, output = _key((*call.prompt, call.output), choices, encoding)
        assert isinstance(output, Span)
        yield KeyedCall(call, key, output)


def _key(parts: Sequence[str | Span], choices: Choices, encoding: Remembered) -> list[Item]:
    key: list[Item] = []
    chosen: Span | None = None  # the next part, with the tokens that it has behind this text
    for place, part in enumerate(parts):
        if isinstance(part, Span):
            key.append(chosen or part)
            chosen = None
            continue
        behind = parts[place + 1] if place + 1 < len(parts) else None
        listed = choices.get(behind) if isinstance(behind, Span) else None
        scored = None if listed is None else encoding.scored(part, listed, not key)
        if scored is None or not isinstance(behind, Span):
            key += encoding.encode(part, not key)
        else:
            key += scored.ids
            chosen = replace(behind, low=scored.low, high=scored.high)
    return key
