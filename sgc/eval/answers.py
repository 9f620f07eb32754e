"""Short answers beside the right ones: exact match and F1 as SQuAD and HotpotQA measure them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case, without punctuation, articles and repeated blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, expected: str | Iterable[str]) -> float:
    """1.0 where the normalized answer is (one of) the expected, else 0.0."""
    return float(normalized(answer) in {normalized(text) for text in _texts(expected)})


def f1(answer: str, expected: str | Iterable[str]) -> float:
    """The best harmonic mean of precision and recall of words, over the expected answers."""
    return max(
        (_f1(normalized(answer), normalized(text)) for text in _texts(expected)), default=0.0
    )


def _texts(expected: str | Iterable[str]) -> Iterable[str]:
    return (expected,) if isinstance(expected, str) else expected


def _f1(answer: str, expected: str) -> float:
    if {answer, expected} & {"yes", "no", "noanswer"}:
        return float(answer == expected)  # a long text that holds "no" is no answer to yes or no
    given, wanted = answer.split(), expected.split()
    if not given or not wanted:
        return float(given == wanted)
    common = (Counter(given) & Counter(wanted)).total()
    return 2 * common / (len(given) + len(wanted))
