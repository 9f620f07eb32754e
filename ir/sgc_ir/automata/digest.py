"""Names of languages: equal for those that are written alike."""

from __future__ import annotations

import hashlib


def language_digest(kind: str, *parts: str) -> bytes:
    """32 bytes that name the language which `parts` write in a notation.

    What they mean may change with the code and with Python, whose reading of patterns and whose
    Unicode automata follow: whoever keeps something under such a name has to tell these apart.

    Args:
        kind: the notation: `regex`, `schema`, ...
    """
    found = hashlib.sha256()
    for part in (kind, *parts):
        data = part.encode("utf-8", "surrogatepass")
        found.update(len(data).to_bytes(8, "little") + data)
    return found.digest()
