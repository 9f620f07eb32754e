"""Words that point out of a block of text: at what stands before or behind it.

A word counts by itself ("above", "these", "first") unless the words around it show that it points
at nothing or at the block's own words: "below 100 words", "such as", "names in their spelling".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from sgc_ir.passes.motion.layout import is_heading, words_of
from sgc_ir.passes.motion.words import (
    BEFORE_DEMONSTRATIVE,
    FIRST_PERSON,
    IDIOMS,
    INSTRUCTING,
    NUMBERS,
    ORDINALS,
    OVERRIDES,
    PARTICIPLES,
    PHRASE_ENDS,
    POINTERS,
    SAID,
    WEAK_POINTERS,
)

_SENTENCE = re.compile(r"(?:[^.!?\n]|\.(?=[\w]))+")
_CLAUSE = re.compile(r"[,;:()—]")
_REFERENCE = re.compile(r"\[[0-9]+\]|\b(?:step|example|part|section|item|point)\s+[0-9A-Z]\b")
_ARTICLES = frozenset(("a", "an", "one"))
_START = "^"  # stands in front of the first word of a sentence; "" in front of a later clause


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text; a line end ends one."""
    return (m[0] for m in _SENTENCE.finditer(text) if words_of(m[0]))


def phrase(words: list[str]) -> list[str]:
    """The words of a noun phrase with which some words begin."""
    return list(takewhile(lambda word: word not in PHRASE_ENDS, words))


def outward(text: str) -> str | None:
    """What in a block points out of it, or None."""
    found = _REFERENCE.search(text)
    if found:
        return f"{found[0]!r} names another part"
    is_later = False
    for sentence in sentences(text):
        for place in _places(sentence, is_later):
            sense = _sense(place)
            if sense and not _is_harmless(place):
                return f"{place.word!r} {sense}"
        is_later = is_later or not is_heading(sentence)
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    """A word in its sentence.

    Attributes:
        before, behind: the words beside it in its clause, "" (or `_START`) where there is none.
        sentence: all words of the sentence; `at` is the word's position.
        is_later: whether it stands behind the first sentence of its block.
    """

    word: str
    before: str
    behind: str
    sentence: list[str]
    at: int
    is_later: bool


def _places(sentence: str, is_later: bool) -> Iterator[_Place]:
    whole = words_of(sentence)
    at, first = 0, _START
    for clause in _CLAUSE.split(sentence):
        words = words_of(clause)
        for before, word, behind in zip([first, *words], words, [*words[1:], ""], strict=False):
            yield _Place(word, before, behind, whole, at, is_later)
            at += 1
        first = "" if at else _START


def _sense(p: _Place) -> str | None:
    if p.word in POINTERS or p.word in WEAK_POINTERS or p.word in PARTICIPLES:
        return "points at other text"
    if p.word in ORDINALS:
        return "counts places"
    if p.word in OVERRIDES:
        return "is about what was said before"
    if p.word in FIRST_PERSON:
        return "speaks as a person: no instruction"
    if p.word == "that" and (p.before in BEFORE_DEMONSTRATIVE or p.before in ("", _START)):
        return "points at other text"
    if p.word == "one" and p.before in ("the", "which", "each", "every"):
        return "points at other text"
    return None


def _is_harmless(p: _Place) -> bool:
    """Whether a word that may point at other text does not, for the words around it."""
    before, word, behind = p.before, p.word, p.behind
    if behind == "than" or (before, word, behind) in IDIOMS:
        return True
    if word in PARTICIPLES:
        return before == "" or _is_indefinite(
            p
        )  # ", quoted word for word"; "where a date is given"
    if word in ORDINALS:
        return before not in ("the", "your", _START) and (before in _ARTICLES or not behind)
    match word:
        case "above" | "below" | "next":
            return _is_number(behind)  # "below 100 words"
        case "before" | "after" if not p.is_later:
            begins = behind.endswith("ing") and word == "before"  # "before answering"
            return begins or behind in ("every", "each") or _is_number(behind)
        case "said":
            return before in ("is", "are")  # "what is said about"
        case "there":
            return behind in ("is", "are")
        case "such":
            return behind == "as"
        case "instead":
            return behind == "of"
        case "neither" | "either" | "both" if not p.is_later:
            return "two" in p.sentence[: p.at]
        case "else":
            return before in ("nothing", "anything", "something", "everything", "nobody")
        case "other" | "others":
            return p.is_later and before != "the"
        case "repeat":
            return before in ("not", "never")
        case "those":
            return behind in ("of", "who", "with", "that")
        case "follows":
            return before != "as"
        case "ignore" | "disregard" | "cancel":
            return SAID.isdisjoint(p.sentence)  # "ignore spelling"
        case "its" | "they" | "their":
            return _has_bare_object(p.sentence[: p.at], plural=word != "its")
    return word in WEAK_POINTERS and p.is_later and before != _START


def _is_number(word: str) -> bool:
    return word[:1].isdigit() or word in NUMBERS


def _is_indefinite(p: _Place) -> bool:
    """Whether a participle speaks of something that may or may not be: "a duration is given"."""
    return p.before in ("is", "are") and not _ARTICLES.isdisjoint(p.sentence[: p.at])


def _has_bare_object(words: list[str], plural: bool) -> bool:
    """Whether a sentence begins with a verb and a noun without article, which a pronoun behind it
    may stand for: "keep names in their", "treat sarcasm as its"."""
    rest = list(words)
    while rest and rest[0] in ("do", "not", "never", "always", "please"):
        del rest[0]
    if not rest or rest[0] not in INSTRUCTING:
        return False
    found = phrase(rest[1:4])
    return bool(found) and "the" not in found and (not plural or found[-1].endswith("s"))
