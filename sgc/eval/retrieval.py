"""Finds passages for questions by BM25 (Robertson and Zaragoza, 2009), as bm25s computes it."""

from __future__ import annotations

from collections.abc import Sequence

from sgc_ir.errors import EvalDataError


class PassageSearch:
    """An index of passages; words are lower case, without English stop words, not stemmed."""

    def __init__(self, passages: Sequence[str]) -> None:
        """Raises EvalDataError where bm25s is not installed or there is nothing to find."""
        if not any(passage.strip() for passage in passages):
            raise EvalDataError("there are no passages to search in")
        try:
            import bm25s
        except ImportError:
            raise EvalDataError("bm25s is not installed; pip install 'sgc[eval]'") from None
        self._count = len(passages)
        self._words = bm25s.tokenize
        self._index = bm25s.BM25()
        self._index.index(self._words(list(passages), show_progress=False), show_progress=False)

    def best(self, questions: Sequence[str], count: int) -> list[list[int]]:
        """For each question the numbers of the `count` best passages, the best first."""
        if not questions:
            return []
        words = self._words(list(questions), return_ids=False, show_progress=False)
        k = min(count, self._count)
        found, _ = self._index.retrieve(words, k=k, show_progress=False, n_threads=0)
        return [[int(number) for number in numbers] for numbers in found]
