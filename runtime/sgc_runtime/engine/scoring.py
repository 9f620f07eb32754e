"""What a scoring asks for, and the log-probabilities that it has so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sgc_runtime.engine.token_trie import TokenTrie


class Scoring:
    """Token sequences behind one prompt, of which one is kept when all have been scored.

    Args:
        choose: called once, in the engine's thread, with all log-probabilities in the trie's
            order; the number of the sequence whose keys and values stay in the cache.

    Attributes:
        logprobs: in the order of the trie's edges, as far as computed.
    """

    def __init__(self, trie: TokenTrie, choose: Callable[[Sequence[float]], int]) -> None:
        self.trie = trie
        self.choose = choose
        self.logprobs: list[float] = []

    def restart(self) -> None:
        """The computed tokens are lost: everything is scored again."""
        self.logprobs.clear()
