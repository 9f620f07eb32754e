"""JSON texts in the styles of `json_style`, as `json.dumps` writes them."""

from __future__ import annotations

import json
from typing import Any

SEPARATORS = {"spaced": (", ", ": "), "compact": (",", ":")}


def written(value: Any, style: str = "spaced") -> str:
    """`value` as `json.dumps` writes it in a style."""
    if style == "pretty":
        return json.dumps(value, ensure_ascii=False, indent=2)
    return json.dumps(value, ensure_ascii=False, separators=SEPARATORS[style])
