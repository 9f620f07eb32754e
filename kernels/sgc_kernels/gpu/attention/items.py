"""The contract between the planner of decode attention and its kernels: items, places, launches.

Rows of a step stand in depth-first order of what they share; a row's number in that order is its
*place*. An *item* is a span of tokens that neighbouring places have in common, read once for all
of them. Each place collects *partial* results, one an item on its path, which the merge adds up.
"""

from __future__ import annotations

from dataclasses import dataclass

# Columns of an item, int32. An item with COUNT 0 does nothing.
ITEM = 8
ROW = 0  # the batch row whose slots are read
START = 1  # first token, counted from the row's first slot
END = 2  # behind the last token; the kernel takes the row's length where that is smaller
FIRST = 3  # first place
COUNT = 4  # number of places
PART = 5  # which partial result of those places this is

# Columns of a place, int32.
PLACE = 4
PLACE_ROW = 0  # batch row; -1: an unused place
PLACE_BASE = 1  # its first partial result
PLACE_PARTS = 2  # how many it has; 0: the result is zero


@dataclass(frozen=True, slots=True)
class Launch:
    """Sizes of the grids, and which forms of the kernels run: what a captured graph fixes.

    A graph serves every plan whose launch it covers. `tokens` decides in which order numbers are
    added up, so graphs of another number do not serve; the other forms give the same bits.
    """

    rows: int
    wide: int  # items
    few: int
    own: int
    tile: int  # query rows a wide program holds: 64 or 128
    tokens: int  # tokens a step of the kernel for own spans: 16 or 64

    def covers(self, other: Launch) -> bool:
        """Whether a graph captured for this launch may run a plan made for `other`."""
        sizes = self.rows >= other.rows and self.few >= other.few and self.own >= other.own
        wide = other.wide == 0 or (self.wide >= other.wide and self.tile >= other.tile)
        return sizes and wide and self.tokens == other.tokens

    def joined(self, other: Launch) -> Launch:
        """The least launch of the same form that covers both."""
        assert self.tokens == other.tokens, "launches of one form"
        return Launch(
            rows=max(self.rows, other.rows),
            wide=max(self.wide, other.wide),
            few=max(self.few, other.few),
            own=max(self.own, other.own),
            tile=max(self.tile, other.tile),
            tokens=self.tokens,
        )

    def rounded(self) -> Launch:
        """Sizes rounded up, by a quarter at most, so that few graphs serve all plans."""
        return Launch(
            rows=self.rows,
            wide=round_up(self.wide),
            few=round_up(self.few),
            own=round_up(self.own),
            tile=self.tile,
            tokens=self.tokens,
        )


@dataclass(frozen=True, slots=True)
class Grids:
    """Grids that a step is recorded with; both cover the plan that they were asked for."""

    general: Launch  # for nearly every plan of so many rows
    fitting: Launch  # for plans of the same form, which run a little faster so; may be the general


def round_up(count: int) -> int:
    """The next of 0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, ..."""
    if count <= 32:
        return -(-count // 8) * 8
    step = 1 << ((count - 1).bit_length() - 3)
    return -(-count // step) * step
