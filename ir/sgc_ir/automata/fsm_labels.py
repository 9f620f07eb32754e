"""How characters and sets of them are written beside the edges of an automaton."""

from __future__ import annotations

from sgc_ir.automata import regex_chars
from sgc_ir.automata.utf8 import Ranges, complement, intersect

_MOST_RANGES = 8  # of a set that is written out
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\v": "\\v"}
_SPECIAL = "\\]^-["


def text_label(text: str) -> str:
    """A text in quotation marks, everything in it visible."""
    return '"' + "".join(_visible(char, '"\\') for char in text) + '"'


def set_label(chars: Ranges) -> str:
    """A set as in a regular expression under the flag s; of a large one the beginning and its
    size."""
    name = regex_chars.shorthand(chars)
    if name is not None:
        return name
    written = [_parts(chars), "^" + _parts(complement(chars))]
    return f"[{min(written, key=len)}]"


def _parts(chars: Ranges) -> str:
    """What stands inside of the brackets: classes that have a name, then ranges."""
    names = ""
    for name, members in regex_chars.classes():
        if intersect(members, chars) == members:
            names, chars = names + name, intersect(chars, complement(members))
    return names + _ranges(chars)


def _ranges(chars: Ranges) -> str:
    shown = "".join(_range(low, high) for low, high in chars[:_MOST_RANGES])
    if len(chars) <= _MOST_RANGES:
        return shown
    size = sum(high - low + 1 for low, high in chars)
    return f"{shown}... {size} characters"


def _range(low: int, high: int) -> str:
    first, last = _visible(chr(low), _SPECIAL), _visible(chr(high), _SPECIAL)
    if low == high:
        return first
    return first + last if high == low + 1 else f"{first}-{last}"


def _visible(char: str, escaped: str) -> str:
    if char in escaped:
        return "\\" + char
    if char in _NAMES:
        return _NAMES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
