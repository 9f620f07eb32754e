"""Patterns of ECMA-262 that Python's `re` cannot read, written so that it can.

JSON Schema's patterns are ECMA's, with the flag `u`. What Python reads as well is left to Python;
the rest is written anew here: named groups `(?<name>...)`, `\\cA`, `\\u{1F600}`, the classes `[^]`
and `[]`, and `\\p{...}` of a General_Category, by the running Python's Unicode.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from sgc_ir.automata.utf8 import MAX_CHAR, Ranges, normalize
from sgc_ir.errors import ConstraintError

# Unicode's PropertyValueAliases.txt: the long names of the categories, and their other ones.
_LONG = """
C Other, Cc Control cntrl, Cf Format, Cn Unassigned, Co Private_Use, Cs Surrogate, L Letter,
LC Cased_Letter, Ll Lowercase_Letter, Lm Modifier_Letter, Lo Other_Letter, Lt Titlecase_Letter,
Lu Uppercase_Letter, M Mark Combining_Mark, Mc Spacing_Mark, Me Enclosing_Mark,
Mn Nonspacing_Mark, N Number, Nd Decimal_Number digit, Nl Letter_Number, No Other_Number,
P Punctuation punct, Pc Connector_Punctuation, Pd Dash_Punctuation, Pe Close_Punctuation,
Pf Final_Punctuation, Pi Initial_Punctuation, Po Other_Punctuation, Ps Open_Punctuation, S Symbol,
Sc Currency_Symbol, Sk Modifier_Symbol, Sm Math_Symbol, So Other_Symbol, Z Separator,
Zl Line_Separator, Zp Paragraph_Separator, Zs Space_Separator
"""
_CATEGORIES = {name: words.split()[0] for words in _LONG.split(",") for name in words.split()}
_TOKEN = re.compile(
    r"""
      \\ (?: c (?P<control>[A-Za-z])
           | u \{ (?P<code>[0-9A-Fa-f]+) \}
           | (?P<sign>[pP]) \{ (?P<property>[^{}]*) \}
           | (?P<reference>k) <
           | . )
    | \(\?< (?P<name>[^=!>][^>]*) >
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


class _Atom(NamedTuple):
    """A character or class; `ranges` are those of a property, which cannot end a range."""

    text: str
    ranges: str = ""


def python_pattern(pattern: str) -> str:
    """`pattern` as Python writes it; the same text where nothing of it is ECMA's own.

    Raises:
        ConstraintError: a property that is no category, or a reference to a named group
            ("unsupported"); a code point or range that does not exist ("malformed").
    """
    return _Writer(pattern).write()


class _Writer:
    """Goes through a pattern once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def write(self) -> str:
        parts = []
        while self._at < len(self._pattern):
            if self._pattern[self._at] == "[":
                parts.append(self._class())
                continue
            atom = self._atom()
            parts.append(f"[{atom.ranges}]" if atom.ranges else atom.text)
        return "".join(parts)

    def _atom(self) -> _Atom:
        """What stands at the place, as Python writes it."""
        found = _TOKEN.match(self._pattern, self._at)
        assert found is not None
        self._at = found.end()
        if found["control"]:
            return _Atom(f"\\x{ord(found['control']) % 32:02x}")
        if found["code"]:
            return _Atom(_escaped(self._code(found["code"])))
        if found["sign"]:
            return _Atom("", _property(found["property"], found["sign"] == "P"))
        if found["reference"]:
            raise ConstraintError(
                "a reference to a group is not supported; write the regex without it",
                kind="unsupported",
            )
        return _Atom("(" if found["name"] else found[0])

    def _code(self, digits: str) -> int:
        code = int(digits, 16) if len(digits.lstrip("0")) <= 6 else MAX_CHAR + 1
        if code > MAX_CHAR:
            raise ConstraintError(
                f"\\u{{{digits}}} is beyond the last code point 10FFFF; mend the regex",
                kind="malformed",
            )
        return code

    def _class(self) -> str:
        """A bracketed class. In ECMA a bracket that closes at once makes it empty."""
        negative = self._pattern.startswith("[^", self._at)
        begin = self._at
        self._at += 1 + negative
        parts = []
        while not self._closes():
            if self._at >= len(self._pattern):
                return self._pattern[begin:]  # Python says what is wrong
            parts.append(self._member())
        self._at += 1
        if not parts:
            return r"[\s\S]" if negative else "(?!)"
        return f"[{'^' * negative}{''.join(parts)}]"

    def _closes(self) -> bool:
        return self._pattern.startswith("]", self._at)

    def _member(self) -> str:
        """A character, an escape or a range of a class."""
        first = self._class_atom()
        if not self._pattern.startswith("-", self._at) or self._pattern[self._at + 1 :][:1] in (
            "]",
            "",
        ):
            return first.ranges or first.text
        self._at += 1
        last = self._class_atom()
        if first.ranges or last.ranges:
            raise ConstraintError(
                "a range begins or ends with a property; mend the regex", kind="malformed"
            )
        return f"{first.text}-{last.text}"

    def _class_atom(self) -> _Atom:
        if self._pattern[self._at] == "\\":
            return self._atom()
        self._at += 1
        char = self._pattern[self._at - 1]
        return _Atom(f"\\{char}" if char in "[-^&~|" else char)


@lru_cache(maxsize=64)
def _property(name: str, negative: bool) -> str:
    """The ranges of `\\p{name}` (or `\\P`) as they stand in a class."""
    word, _, value = name.rpartition("=")
    category = _CATEGORIES.get(value) if word in ("", "gc", "General_Category") else None
    if category is not None:
        ranges = _of_category(category)
    elif name == "Any":
        ranges = ((0, MAX_CHAR),)
    elif name == "ASCII":
        ranges = ((0, 127),)
    elif name == "Assigned":
        ranges, negative = _of_category("Cn"), not negative
    else:
        raise ConstraintError(
            f"the property {name!r} is not supported, only those of General_Category are; "
            "write the regex without it",
            kind="unsupported",
        )
    ranges = _others(ranges) if negative else ranges
    if not ranges:
        raise ConstraintError("\\P{Any} means no character; mend the regex", kind="malformed")
    return _written(ranges)


def _of_category(category: str) -> Ranges:
    members = ("Lu", "Ll", "Lt") if category == "LC" else (category,)
    return normalize((low, high) for low, high, name in _runs() if name.startswith(members))


@cache
def _runs() -> tuple[tuple[int, int, str], ...]:
    """All code points as runs of one category; takes 0.1 s."""
    runs, begin, before = [], 0, unicodedata.category("\0")
    for code in range(1, MAX_CHAR + 1):
        category = unicodedata.category(chr(code))
        if category != before:
            runs.append((begin, code - 1, before))
            begin, before = code, category
    return (*runs, (begin, MAX_CHAR, before))


def _others(ranges: Ranges) -> Ranges:
    """All other code points, surrogates among them."""
    found, begin = [], 0
    for low, high in ranges:
        if low > begin:
            found.append((begin, low - 1))
        begin = high + 1
    return (*found, (begin, MAX_CHAR)) if begin <= MAX_CHAR else tuple(found)


def _written(ranges: Ranges) -> str:
    return "".join(f"{_escaped(low)}-{_escaped(high)}" for low, high in ranges)


def _escaped(code: int) -> str:
    char = chr(code)
    return char if char.isalnum() else f"\\U{code:08x}"
