"""What the calls of a row that are not issued yet may generate, and what is said before them."""

from __future__ import annotations

from sgc_ir.analysis.needs import Amount


class ToCome:
    """Tokens and characters to come, at most.

    Attributes:
        open: how many things there are that may add to them, such as loops not begun yet.
    """

    __slots__ = ("chars", "open", "tokens")

    def __init__(self, amount: Amount) -> None:
        self.tokens, self.chars, self.open = amount

    def add(self, amount: Amount, times: int, opened: int = 0) -> None:
        """So often `amount` more is to come, and so many more things are open."""
        self.tokens += times * amount.tokens
        self.chars += times * amount.chars
        self.open += times * amount.open + opened

    def told(self) -> tuple[int | None, int | None]:
        """Tokens and characters; None where they are not known."""
        if self.open:
            return None, None
        return max(0, self.tokens), max(0, self.chars) if self.tokens > 0 else 0
