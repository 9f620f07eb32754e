"""What the prompts of one step may take."""

from __future__ import annotations

from sgc_runtime.engine.request import Request


class PromptBudget:
    """Given out request by request.

    Attributes:
        tokens: prompt tokens that are left.
        scores: tokens whose logits are left for scorings.
    """

    def __init__(self, tokens: int, scores: int) -> None:
        self.tokens, self.scores = tokens, scores

    def take(self, request: Request) -> int:
        """Where the step's chunk of a request ends, which begins at `num_computed`; it may be
        empty."""
        start, scoring = request.num_computed, request.scoring
        end = min(request.num_target, start + self.tokens)
        if scoring is not None:
            first = max(start, scoring.trie.first_row)
            end = min(end, first + self.scores)
            self.scores -= max(0, end - first)
        self.tokens -= end - start
        return end
