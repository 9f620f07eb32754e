"""What plans of decode attention keep to, and what they count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from sgc_kernels.gpu.attention.items import Grids, Launch
from sgc_kernels.gpu.attention.tuning import DEFAULT, Tuning

MAX_DEPTH = 6  # spans above a row's own; bounds the partial results of a row
PARTS_A_ROW = MAX_DEPTH + 2


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan needs to know of model and kernels."""

    kv_heads: int
    group: int  # query heads a kv head
    token_bytes: int  # of a token's keys and values, all heads
    own_rows: int  # places the kernel for own spans takes
    few_rows: int
    wide_rows: int
    max_partials: int
    max_items: int  # of each kind
    window: int | None = None
    tuning: Tuning = DEFAULT

    def most(self, rows: int) -> tuple[int, int, int]:
        """Wide, few and own items that a plan of so many rows keeps to where it can, so that one
        recording serves nearly every plan. More rows have no fewer. Own spans of long contexts are
        split as pays."""
        tuning, heads = self.tuning, self.kv_heads
        wide = rows // 4 + -(-tuning.many_programs // heads) + 8
        few = rows // 4 + -(-tuning.least_programs // heads)
        return (
            min(wide, self.max_items) if rows > self.few_rows else 0,
            min(few, self.max_items) if rows > self.own_rows else 0,
            self.max_items,
        )

    def grids(self, launch: Launch) -> Grids:
        """See `RowAttention.grids`. Twice as many own items, and so on, for long contexts: the
        programs behind those of a plan are nothing beside the others then."""
        wide, few, most_own = self.most(launch.rows)
        own = launch.rows + launch.rows // 2 + -(-self.tuning.narrow_programs // self.kv_heads)
        while own < launch.own:
            own *= 2
        own = min(own, most_own)
        general = Launch(launch.rows, wide, few, own, self.tile(launch.rows), launch.tokens)
        if not general.covers(launch):
            general = general.joined(launch).rounded()
        if launch.wide == 0:
            return Grids(general, general)
        some = min(general.wide, self.tuning.few_programs // self.kv_heads)
        wide = some if launch.wide <= some else general.wide
        return Grids(general, replace(general, wide=wide, tile=launch.tile))

    def worth_sharing(self, rows: int) -> int:
        """Tokens from which on a span pays."""
        # A partial result is written and read in float32, which costs what 2 * group tokens of
        # 16 bits do.
        return max(self.tuning.least_shared, math.ceil(2 * self.group * rows / (rows - 1)))

    def tile(self, rows: int) -> int:
        """Query rows a wide program holds, where no span has more than so many rows."""
        return 64 if min(rows, self.wide_rows) * _pad(self.group) <= 64 else 128


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the spans of a plan: wide ones, the narrow others, own ones among these."""

    wide: int  # spans
    largest_wide: int  # rows
    wide_tokens: int
    narrow: int
    narrow_tokens: int
    own_tokens: int
    own_squares: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """How spans are cut."""

    wide: int  # tokens of a piece
    narrow: int
    step: int  # pieces of own spans are multiples of it, others of 64


def _pad(count: int) -> int:
    return 1 << (count - 1).bit_length()
