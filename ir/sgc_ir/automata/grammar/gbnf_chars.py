"""Strings and sets of characters in the notation of GBNF, escapes resolved."""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.automata.utf8 import MAX_CHAR, Ranges, complement, normalize

_LETTERS = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
}
_DIGITS = {"x": 2, "u": 4, "U": 8}


def read_string(text: str) -> str:
    """The characters between two quotes.

    Raises:
        ValueError: an escape that is unknown, too short or no character.
    """
    return "".join(chr(code) for code, _ in _codes(text))


def read_set(text: str) -> Ranges:
    """The characters that `text`, what stands between the brackets of a set, allows.

    Raises:
        ValueError: as `read_string`; or the set is empty, or a range runs backwards.
    """
    negative = text.startswith("^")
    codes = list(_codes(text[negative:]))
    ranges: list[tuple[int, int]] = []
    i = 0
    while i < len(codes):
        first = last = codes[i][0]
        if i + 2 < len(codes) and codes[i + 1] == (ord("-"), False):
            last = codes[i + 2][0]
            i += 2
        if last < first:
            raise ValueError(f"the range {chr(first)!r}-{chr(last)!r} runs backwards")
        ranges.append((first, last))
        i += 1
    if not ranges and not negative:
        raise ValueError("a set [] holds no character")
    merged = normalize(ranges)
    return complement(merged) if negative else merged


def _codes(text: str) -> Iterator[tuple[int, bool]]:
    """Each character's code point, and whether it was escaped."""
    i = 0
    while i < len(text):
        if text[i] != "\\":
            yield ord(text[i]), False
            i += 1
            continue
        letter = text[i + 1]
        size = _DIGITS.get(letter, 0)
        if size:
            yield _hexadecimal(text[i : i + 2 + size], size), True
        elif letter in _LETTERS:
            yield ord(_LETTERS[letter]), True
        elif letter.isalnum():
            raise ValueError(f"the escape \\{letter} is unknown")
        else:
            yield ord(letter), True
        i += 2 + size


def _hexadecimal(escape: str, size: int) -> int:
    digits = escape[2:]
    if len(digits) != size or not all(c in "0123456789abcdefABCDEF" for c in digits):
        raise ValueError(f"the escape {escape} needs {size} hexadecimal digits")
    code = int(digits, 16)
    if code > MAX_CHAR or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"the escape {escape} is no character")
    return code
