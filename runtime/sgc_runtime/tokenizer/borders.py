"""Places between bytes of text that no token crosses, and ends of characters."""

from __future__ import annotations

BLANKS = b" \t"
_BREAKS = (b"\n", b"\t")


def inside_character(data: bytes) -> bool:
    """Whether `data` begins behind the first byte of a character."""
    return 0x80 <= data[0] < 0xC0


def is_border(before: bytes, data: bytes) -> bool:
    """Whether no token reaches over the place between two ids, whatever follows: a blank behind
    anything but white space, or a line end behind a letter or digit."""
    if not before:
        return True
    first = data[:1]
    if first == b" ":
        return not before[-1:].isspace()
    return first in _BREAKS and (before[-1:].isalnum() or before[-1] >= 0x80)


def whole_characters(data: bytes) -> int:
    """How many bytes of `data`, cut anywhere out of UTF-8, are left without the character that is
    incomplete at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
        if byte < 0x80:
            break
    return len(data)
