"""The rules of constant motion: why a block of constant text must stay where it is.

A block may go in front of the first slot only where nothing in it, before it or behind it depends
on the order of the two. The rules judge words, not meaning, and refuse what they cannot place:
what points at other text (pronouns, "above", ordinals), what is not an instruction of its own
("Q: ..." of an example, a letter, a question), what speaks of "the X" where no one X is labelled
so, what stands between marks, what leads to the next piece, and what is said late to win.
"""

from __future__ import annotations

import re

from sgc_ir.passes.motion.layout import (
    SLOT,
    Block,
    Layout,
    is_divider,
    is_heading,
    words_of,
)
from sgc_ir.passes.motion.pointers import outward, phrase, sentences
from sgc_ir.passes.motion.words import (
    CONNECTIVES,
    GENERAL_NOUNS,
    INSTRUCTING,
    INSTRUCTION_LABELS,
    OVERRIDES,
    POINTERS,
    PRODUCTS,
    QUALITIES,
    WEAK_POINTERS,
)

_LABEL = re.compile(r"([A-Za-z][\w '’/-]{0,40}):(?=\s|$)")
_BULLET = re.compile(r"\s*(?:[-*•+]|\(?[0-9]{1,2}[.)])\s+")
_NUMBER = re.compile(r"^\s*\(?([0-9]{1,2})[.)]\s+", re.MULTILINE)
_VERSE = re.compile(r",[ \t]*\n[A-Z]")
_THE = re.compile(r"\bthe((?:\s+[\w'’-]+){1,3})", re.IGNORECASE)
_OF = re.compile(r"the\s+[\w'’-]+\s+of\s+(the\s+)?((?:[\w'’-]+\s*){1,3})", re.IGNORECASE)


def why_not(layout: Layout, block: Block) -> str | None:
    """Why the block must stay behind the first slot, or None where it may go."""
    text = layout.text[block.start : block.stop].strip()
    reasons = (
        _form(layout, block, text),
        "it asks a question" if "?" in text else outward(text),
        _instruction(text),
        _definite(layout, block, text),
        _around(layout, block),
    )
    return next((reason for reason in reasons if reason), None)


# -- the block itself


def _form(layout: Layout, block: Block, text: str) -> str | None:
    if is_divider(text):
        return "it is a dividing line"
    if layout.encloses(block):
        return "it stands between quotation marks, tags, fences or brackets, or closes some"
    if text.endswith(":") or text.endswith((",", ";", "-", "—")):
        return "it leads to what comes next"
    if not is_heading(text) and not (text[0].isupper() or text[0].isdigit() or _BULLET.match(text)):
        return "it does not begin a sentence"
    if layout.text[block.start].isspace():
        return "it is indented"
    if _BULLET.match(text) and not is_heading(text):
        return "it is part of a list"
    if _VERSE.search(text):
        return "its lines break inside of sentences: verse, or quoted"
    numbers = [int(n) for n in _NUMBER.findall(text)]
    if numbers and numbers != list(range(1, len(numbers) + 1)):
        return "it goes on with the numbers of a list"
    return None


def _instruction(text: str) -> str | None:
    """A block is an instruction by its first sentence; labels of material are none."""
    begins = False
    for line in text.splitlines():
        label = _label(line)
        if label and INSTRUCTION_LABELS.isdisjoint(label):
            return f"{' '.join(label) + ':'!r} labels material or a turn"
        body = line.partition(":")[2] if label else line
        if begins or is_heading(line) or not words_of(body):
            continue
        first = words_of(next(sentences(body)))
        begins = True
        if not label and first[0] not in INSTRUCTING:
            return f"{' '.join(first[:3])!r} does not begin an instruction"
    for sentence in sentences(text):
        words = words_of(sentence)
        if words and words[0] in CONNECTIVES:
            return f"{words[0]!r} goes on with the sentence before it"
    return None


def _label(line: str) -> list[str]:
    """Words of the label that a line begins with, "Question" of "Question: ..."; a sentence with a
    colon ("Choose one of these: ...") has none."""
    found = _LABEL.match(line)
    words = words_of(found[1]) if found else []
    return [] if len(words) > 1 and words[0] in INSTRUCTING else words


def _definite(layout: Layout, block: Block, text: str) -> str | None:
    """ "The X" in the first sentence must be in the block itself or before the first slot, label
    exactly one slot, or name nothing in the prompt; further on it must fit no two slots. (What a
    block is about is said at its beginning; behind it "the X" is mostly a part of what is asked.)
    """
    lead = set(words_of(layout.text[: layout.target]))
    beginning = text.find(first) + len(first) if (first := _first_sentence(text)) else 0
    for match in _THE.finditer(text):
        nouns = phrase(words_of(match[1]))
        known = lead | set(words_of(text[: match.start()]))
        for noun in nouns:
            if _labelled(layout, noun) > 1:
                return f"'the {noun}' is not one of several so labelled"
        is_named = any(word[:1].isupper() for word in match[1].split()[1:])  # "the headings Tasks"
        if is_named or match.start() >= beginning or _any_known(layout, nouns, known):
            continue
        whole = _OF.match(text, match.start())  # "the topic of the exercise", "the price of bread"
        owners = phrase(words_of(whole[2])) if whole else []
        if not owners or (whole and whole[1] and not _any_known(layout, owners, known)):
            return f"'the {' '.join(nouns[:2])}' may be what stands before it"
    return None


def _first_sentence(text: str) -> str:
    for line in text.splitlines():
        if not is_heading(line):
            return next(sentences(line), "")
    return ""


def _any_known(layout: Layout, nouns: list[str], known: set[str]) -> bool:
    return any(_is_known(layout, noun, known) for noun in nouns)


def _is_known(layout: Layout, noun: str, known: set[str]) -> bool:
    if noun in QUALITIES or noun in GENERAL_NOUNS or noun in known:
        return True
    return PRODUCTS.get(noun) in known or _labelled(layout, noun) == 1


def _labelled(layout: Layout, noun: str) -> int:
    bare = noun.removesuffix("'s")
    return sum(bare in label for label in layout.labels)


# -- what is around it


def _around(layout: Layout, block: Block) -> str | None:
    lead = layout.text[: layout.first]
    if _has_heading(layout) and not is_heading(layout.text[block.start : block.stop]):
        return "it stands under the heading of what comes before it"
    for sentence in sentences(lead):
        words = set(words_of(sentence))
        if words & {"after", "end", "later", "behind", "afterwards"}:
            return f"{sentence.strip()[:40]!r} says what comes later"
        if words & {"following", "below", "next"} and not _announces_slot(layout, words):
            return f"{sentence.strip()[:40]!r} announces something that is not labelled"
    behind = layout.text[block.end :].lstrip().replace(SLOT, " ")
    opening = words_of(behind.partition("\n")[0])[:3]
    if opening and opening[0] in POINTERS | WEAK_POINTERS | CONNECTIVES | OVERRIDES:
        return f"{opening[0]!r} behind it points at it"
    return None


def _has_heading(layout: Layout) -> bool:
    """Whether the first slot stands under a heading."""
    return any(is_heading(line) for line in layout.text[: layout.first].splitlines())


def _announces_slot(layout: Layout, words: set[str]) -> bool:
    """Whether a sentence with "following" or "below" names what the first slot is labelled with."""
    label = layout.labels[0]
    return bool(label & words) or any(_is_plural(word, label) for word in words)


def _is_plural(word: str, label: frozenset[str]) -> bool:
    """Whether `word` is the plural of a label's word, or the other way round."""
    return word.removesuffix("s") in label or f"{word}s" in label
