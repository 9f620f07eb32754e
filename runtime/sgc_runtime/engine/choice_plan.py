"""Token sequences of the choices of a select, and where their scoring starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sgc_ir.errors import BackendError
from sgc_runtime.cache.radix_tree import Ids, common_prefix
from sgc_runtime.engine.request import Prefix
from sgc_runtime.engine.seams import Seams
from sgc_runtime.engine.stream import TokenStream
from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.borders import BLANKS


@dataclass(frozen=True, slots=True)
class ChoicePlan:
    """All sequences share their first `start` ids and are scored from there on.

    Attributes:
        sequences: ids of prompt and choice, in choice order, each longer than `start`.
        start: the first position where any sequence leaves the prompt without its last blanks.
        prefix: soft hold on what they share.
    """

    sequences: tuple[Ids, ...]
    start: int
    prefix: Prefix | None


def plan_choices(stream: TokenStream, seams: Seams, choices: Sequence[str]) -> ChoicePlan:
    """Encode each choice behind the prompt of `stream`, which stays as it is.

    Blanks that end the prompt count as part of each choice.

    Raises:
        BackendError: no choice, or one without text.
    """
    if not all(choices) or not choices:
        raise BackendError("a select needs choices, each with some text; drop the empty one")
    probe = stream.fork()
    blanks = _strip_blanks(probe, seams)
    bos = seams.vocabulary.bos_id
    prompt = probe.ids if len(probe.ids) or bos is None else np.array([bos], np.int32)
    pending = len(probe.pending)
    joined = [seams.join(prompt, [Text(blanks + choice)], pending) for choice in choices]
    start = min(common_prefix(prompt, j.ids) for j in joined)
    probe.replace(prompt, start)
    return ChoicePlan(tuple(j.ids for j in joined), start, probe.prefix)


def _strip_blanks(stream: TokenStream, seams: Seams) -> str:
    """Encode the prompt up to its last blanks; returns them."""
    pieces = list(stream.pieces)
    blanks = ""
    while pieces:
        text = pieces[-1].text
        kept = text.rstrip(BLANKS.decode())
        blanks = text[len(kept) :] + blanks
        if kept:
            pieces[-1] = replace(pieces[-1], text=kept)
            break
        pieces.pop()
    stream.pieces = tuple(pieces)
    if pieces:
        stream.resolve(seams)
    elif not stream.pending and (before := seams.end_blanks(stream.ids)):
        joined = seams.without_end(stream.ids, before)
        stream.replace(joined.ids, joined.kept)
        blanks = before + blanks
    return blanks
