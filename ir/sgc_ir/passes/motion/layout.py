"""A piece of prompt as lines and paragraphs: what is constant, what holds slots, what belongs to
what."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from sgc_ir.passes.motion.words import ANNOUNCING

SLOT = "\0"  # stands for what a run decides
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")
_FENCE = re.compile(r"```|\"\"\"|'''|~~~")
_CLOSING = re.compile(r"</[A-Za-z][\w-]*>|```|\"\"\"|'''|~~~")
_DIVIDER = re.compile(r"\W{3,}")
_HEADING = re.compile(r"\s*#{1,6} ")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"[A-Za-z0-9][\w'’-]*")


def words_of(text: str) -> list[str]:
    """The words of a text in lower case."""
    return [word.lower().replace("’", "'") for word in _WORD.findall(text)]


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together: from `start` to `stop` in the text, `end` behind blank lines."""

    start: int
    stop: int
    end: int


class Layout:
    """A text with slots, cut into lines and blocks.

    Attributes:
        text: the text, `SLOT` for each slot.
        first: position of the first slot.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.first = text.index(SLOT)

    @cached_property
    def lines(self) -> list[tuple[int, int]]:
        """Begin and end of each line, the newline included."""
        return [match.span() for match in _LINE.finditer(self.text)]

    def line(self, i: int) -> str:
        begin, end = self.lines[i]
        return self.text[begin:end]

    @cached_property
    def blocks(self) -> list[Block]:
        """Paragraphs of constant lines behind the first slot, in order; one under a heading goes
        on to the next heading. Labels and marks that belong to a slot are in none."""
        found: list[Block] = []
        is_open = gap = False  # whether the last block may go on, and whether a blank line came
        for i, (begin, end) in enumerate(self.lines):
            line = self.line(i)
            if not line.strip():
                gap = True
                if is_open:
                    found[-1] = Block(found[-1].start, found[-1].stop, end)
            elif begin <= self.first or i in self.of_slots:
                is_open = gap = False
            elif is_open and (not gap or self._goes_on(found[-1], line)):
                found[-1] = Block(found[-1].start, end, end)
                gap = False
            else:
                found.append(Block(begin, end, end))
                is_open, gap = True, False
        return found

    @cached_property
    def of_slots(self) -> frozenset[int]:
        """Lines that hold a slot or belong to one: what announces it right in front of it, and the
        marks that close behind it."""
        found = {i for i in range(len(self.lines)) if SLOT in self.line(i)}
        for i in sorted(found):
            above = i - 1
            while above >= 0 and (not self.line(above).strip() or announces(self.line(above))):
                found.add(above)
                above -= 1
            below = i + 1
            while below < len(self.lines) and closes(self.line(below)):
                found.add(below)
                below += 1
        return frozenset(found)

    def _goes_on(self, block: Block, line: str) -> bool:
        """Whether `line`, behind a blank one, still is under the heading of `block`."""
        return is_heading(self.text[block.start : block.stop]) and not is_heading(line)

    @cached_property
    def target(self) -> int:
        """Where moved text goes: before the first slot's line and all lines that announce it."""
        at = next(i for i, (_, end) in enumerate(self.lines) if end > self.first)
        found = next((i for i in range(at) if announces(self.line(i))), at)
        return self.lines[found][0]

    @cached_property
    def labels(self) -> list[frozenset[str]]:
        """For each slot the words of the label in front of it; empty where it has none."""
        return [frozenset(self._label(m.start())) for m in re.finditer(re.escape(SLOT), self.text)]

    def _label(self, at: int) -> list[str]:
        """Words of what stands before a slot on its line, else of the label on the line above."""
        begin = self.text.rfind("\n", 0, at) + 1
        before = self.text[begin:at].rpartition(SLOT)[2]
        if words_of(before):
            return words_of(before)
        above = self.text[:begin].rstrip().split("\n")
        line = above.pop().strip()
        if above and (_FENCE.match(line) or is_divider(line)):
            line = above.pop().strip()
        return words_of(line) if line.endswith((":", ">")) or is_heading(line) else []

    def encloses(self, block: Block) -> bool:
        """Whether the block stands between an opening mark and its closing one, or has one of the
        two only."""
        before = self.text[: block.start]
        inside = self.text[block.start : block.stop]
        return not (is_balanced(before) and is_balanced(inside))


def announces(line: str) -> bool:
    """Whether a line leads to what comes behind it: a label, an opening mark, "the following"."""
    bare = line.strip()
    if not bare or SLOT in bare:
        return False
    return (
        bare.endswith(":")
        or is_heading(bare)
        or not is_balanced(bare)
        or bool(_DIVIDER.fullmatch(bare))
        or not ANNOUNCING.isdisjoint(words_of(bare))
    )


def closes(line: str) -> bool:
    """Whether a line is nothing but a mark that ends material."""
    bare = line.strip()
    return bool(_CLOSING.fullmatch(bare)) or is_divider(bare)


def is_heading(text: str) -> bool:
    """Whether a text begins with a Markdown heading."""
    return bool(_HEADING.match(text))


def is_divider(text: str) -> bool:
    """Whether a text is nothing but a line drawn with signs."""
    return bool(_DIVIDER.fullmatch(text.strip()))


def is_balanced(text: str) -> bool:
    """Whether every fence, tag, bracket and quotation mark of a text is closed in it."""
    if len(_FENCE.findall(text)) % 2:
        return False
    bare = _FENCE.sub("", text)
    if bare.count('"') % 2 or bare.count("“") != bare.count("”"):
        return False
    if any(bare.count(a) != bare.count(b) for a, b in ("()", "[]", "{}")):
        return False
    open_tags: list[str] = []
    for closing, name in _TAG.findall(bare):
        if not closing:
            open_tags.append(name)
        elif not open_tags or open_tags.pop() != name:
            return False
    return not open_tags
