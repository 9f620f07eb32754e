"""Stop search against trying every stop at every token."""

from __future__ import annotations

import re
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from sgc_runtime.tokenizer.stop_finder import Stop, find_stop


def brute_force(
    tokens: list[str], stops: list[str], patterns: list[str], min_tokens: int
) -> Stop | None:
    """Grow the text token by token; look at every span of it."""
    first = len("".join(tokens[:min_tokens]))
    for count in range(1, len(tokens) + 1):
        text = "".join(tokens[:count])
        hits = []
        for begin in range(first, len(text)):
            for stop in stops:
                if text.startswith(stop, begin):
                    hits.append((begin, stops.index(stop), begin + len(stop), stop))
            for rank, pattern in enumerate(patterns, len(stops)):
                match = re.compile(pattern).match(text, begin)
                if match is not None and match.end() > begin:
                    hits.append((begin, rank, match.end(), pattern))
        if hits and min_tokens <= len(tokens):
            begin, _, end, matched = min(hits)
            return Stop(begin, end, matched)
    return None


_TEXT = st.text("ab \n", min_size=1, max_size=4)


@given(
    st.lists(_TEXT, max_size=8),
    st.lists(st.text("ab \n", min_size=1, max_size=3), max_size=3, unique=True),
    st.lists(st.sampled_from(["a+", "b\\n", "(ab)+a", "a|ba", "\\s\\s"]), max_size=2, unique=True),
    st.integers(0, 4),
)
def test_find_stop(
    tokens: list[str], stops: list[str], patterns: list[str], min_tokens: int
) -> None:
    ends = list(accumulate(map(len, tokens)))
    found = find_stop("".join(tokens), ends, stops, patterns, min_tokens)
    assert found == brute_force(tokens, stops, patterns, min_tokens)


def test_of_overlapping_stops_the_one_complete_first_wins() -> None:
    # "bcd" begins earlier, but "c" is complete with an earlier token
    assert find_stop("ab c d", [2, 4, 6], ["b c d", "c"]) == Stop(3, 4, "c")
    # complete with one token: the earliest begin
    assert find_stop("ab c", [2, 4], ["c", "b c"]) == Stop(1, 4, "b c")


def test_a_stop_may_be_a_place_between_characters() -> None:
    assert find_stop("ab c", [2, 4], [], ["(?=c)"]) == Stop(3, 3, "(?=c)")
