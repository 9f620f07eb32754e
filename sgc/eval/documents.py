"""What suites about long texts share: cutting them, and sampling whole documents."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sgc.eval.suite import Row


def cut(text: str, chars: int) -> str:
    """The beginning of `text` of at most `chars` characters, whole words where it has any."""
    if len(text) <= chars:
        return text
    return text[: chars + 1].rpartition(" ")[0] or text[:chars]


def sample_documents(rows: Sequence[Row], limit: int | None, seed: int) -> list[Row]:
    """At most `limit` rows, one document (the group of its rows) after another in seeded order, so
    that those of one stay together; they keep the order in which they stand.

    A larger limit takes the same rows and more.
    """
    documents = list(dict.fromkeys(row.group for row in rows))
    random.Random(f"{seed}").shuffle(documents)
    turn = {document: number for number, document in enumerate(documents)}
    taken = sorted(range(len(rows)), key=lambda index: turn[rows[index].group])[:limit]
    return [rows[index] for index in sorted(taken)]
