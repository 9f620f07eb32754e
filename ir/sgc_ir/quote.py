"""Quoted strings of the text form and of types: one escape for each character that needs one."""

from __future__ import annotations

import re

_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BACK = {escape[1]: char for char, escape in _SHORT.items()}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)


def quote(text: str) -> str:
    """`text` in double quotes; lone surrogates and other unprintable characters are escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unquote(quoted: str) -> str:
    """The text of a string in double quotes. Raises ValueError for an unknown escape."""
    inner = quoted[1:-1]
    return _ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code not in _BACK:
        raise ValueError(f"unknown escape \\{code}")
    return _BACK[code]


def quote_bytes(data: bytes) -> str:
    """`data` as `b"..."`, one character or escape a byte."""
    return "b" + quote(data.decode("latin-1")).translate(_LATIN)


_LATIN = {code: f"\\x{code:02x}" for code in range(0x80, 0x100)}


def unquote_bytes(quoted: str) -> bytes:
    """The bytes of `b"..."`. Raises ValueError for an escape or character beyond a byte."""
    try:
        return unquote(quoted[1:]).encode("latin-1")
    except UnicodeEncodeError as error:
        raise ValueError("a character that is no byte") from error
