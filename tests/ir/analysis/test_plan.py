"""The plan of a batch against all orders of its rows, with a plain least-recently-used cache."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_ir.analysis.plan import RowFacts, plan_rows
from sgc_ir.analysis.text_order import common_length, ends_a_word, text_order

Tokens = tuple[str, ...]
WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple)


class Row:
    """A row whose calls share a beginning, run one after another.

    Attributes:
        calls: prompts, as far as known, with tokens that are the row's own behind that; and how
            many tokens each call generates.
    """

    def __init__(self, number: int, head: Tokens, shape: list[tuple[int, int]]) -> None:
        self.head = head
        self.calls: list[tuple[Tokens, int]] = [(head, 1)]
        for i, (parent, decoded) in enumerate(shape):
            before, made = self.calls[parent % len(self.calls)]
            output = tuple(f"{number}/{parent % len(self.calls)}/{k}" for k in range(made))
            self.calls.append(((*before, *output, f"{number}:{i}"), decoded))

    @property
    def longest(self) -> int:
        return max(len(prompt) + made for prompt, made in self.calls)

    def depth_first(self) -> list[tuple[Tokens, int]]:
        """The calls in an order in which what one call made is used at once."""
        return sorted(self.calls, key=lambda call: call[0])


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    shape = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2)), max_size=3)
    heads = draw(st.lists(WORDS, min_size=1, max_size=5))
    return [Row(number, head, draw(shape)) for number, head in enumerate(heads)]


def computed(order: list[int], rows: list[Row], capacity: int) -> int:
    """Prompt tokens computed when the calls of the rows are served one by one in that order."""
    used: dict[Tokens, int] = {}
    total = now = 0
    for number in order:
        for prompt, made in rows[number].depth_first():
            now += 1
            output = tuple(
                f"{number}/{rows[number].calls.index((prompt, made))}/{k}" for k in range(made)
            )
            whole = prompt + output
            places = [whole[:i] for i in range(1, len(whole) + 1)]
            total += sum(place not in used for place in places[: len(prompt)])
            for place in places:
                used[place] = now
            while len(used) > capacity:
                inner = {place[:-1] for place in used}
                leaves = [p for p in used if p not in inner and p not in places]
                del used[min(leaves, key=lambda p: (used[p], p))]
    return total


def least(rows: list[Row]) -> int:
    """Places of prompts that no call made: the least that any cache lets anybody compute."""
    prompts = {p[:i] for row in rows for p, _ in row.calls for i in range(1, len(p) + 1)}
    made = set()
    for number, row in enumerate(rows):
        for i, (prompt, count) in enumerate(row.calls):
            output = tuple(f"{number}/{i}/{k}" for k in range(count))
            made |= {(*prompt, *output[: k + 1]) for k in range(count)}
    return len(prompts - made)


def facts(row: Row, weight: float) -> RowFacts:
    text = " ".join(row.head)
    return RowFacts((text,), text, weight)


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(0, 3), st.data())
def test_a_cache_of_the_longest_request_computes_the_least(
    rows: list[Row], more: int, data: st.DataObject
) -> None:
    weights = [data.draw(st.sampled_from([0.0, 1.0, 2.0])) for _ in rows]
    plan = plan_rows([facts(row, weight) for row, weight in zip(rows, weights, strict=True)])
    assert sorted(plan.order) == list(range(len(rows)))
    capacity = max(row.longest for row in rows) + more
    orders = permutations(range(len(rows)))
    best = min(computed(list(order), rows, capacity) for order in orders)
    assert computed(list(plan.order), rows, capacity) == best == least(rows)


@given(st.lists(WORDS, max_size=6), st.data())
def test_heavy_rows_go_first_where_sharing_lets_them(
    heads: list[Tokens], data: st.DataObject
) -> None:
    weights = [data.draw(st.sampled_from([0.0, 1.0, 2.0])) for _ in heads]
    order = text_order([" ".join(head) for head in heads], weights)
    if heads:
        heaviest = max(weights)
        family = [
            w for head, w in zip(heads, weights, strict=True) if head[0] == heads[order[0]][0]
        ]
        assert max(family) == heaviest


def test_rows_that_share_nothing_keep_their_order() -> None:
    texts = ["Ask about pears", "Tell of apples", "Ask about plums", "Talk to bees"]
    assert text_order(texts) == [0, 2, 1, 3]
    assert text_order(texts, [0, 9, 0, 1]) == [1, 3, 0, 2]
    assert text_order(["pears", "plums", "apples"]) == [0, 1, 2]
    assert text_order([]) == []


def test_words_count_whole() -> None:
    assert not ends_a_word("to be or", "to bee or", len("to be"))
    assert ends_a_word("to be or", "to be not", len("to be "))
    assert ends_a_word("to be", "to be or", len("to be"))
    assert ends_a_word("一" * 40 + "二", "一" * 40 + "三", 40)


def test_letters_in_common_hold_no_heavy_text_back() -> None:
    texts = ["plums", "bread", "pears", "butter"]
    assert text_order(texts) == [0, 2, 1, 3]
    assert text_order(texts, [1, 3, 2, 1]) == [1, 2, 3, 0]


@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_the_common_length(a: str, b: str) -> None:
    shared = common_length(a, b)
    assert a[:shared] == b[:shared]
    assert a[shared : shared + 1] != b[shared : shared + 1] or shared == len(a) == len(b)


def test_rows_are_grouped_by_what_saves_most() -> None:
    """The second prompt of a row holds a long document, the first one a question."""
    documents = ["one " * 50, "two " * 50]
    rows = [
        RowFacts((f"Question {i}: x", f"{documents[i % 2]}Note {i}"), "", 0.0) for i in range(6)
    ]
    assert plan_rows(rows).order == (0, 2, 4, 1, 3, 5)


def test_a_row_knows_what_the_one_behind_it_shares() -> None:
    heads = ["Ann likes tea", "Bob likes ale", "Ann likes ale"]
    plan = plan_rows([RowFacts((head,), head, 0.0) for head in heads])
    assert plan.order == (0, 2, 1)
    assert plan.shared_chars == (len("Ann likes "), 0, 0)


def test_rows_that_are_there_already_are_not_waited_for() -> None:
    """Of three rows that share a beginning two run at a time: only the first one ends before the
    third one comes."""
    heads = ["Ann likes tea", "Ann likes ale", "Ann likes rye", "Bob likes ale"]
    rows = [RowFacts((head,), head, 0.0) for head in heads]
    assert plan_rows(rows, parallel=2).shared_chars == (len("Ann likes "), 0, 0, 0)
    assert set(plan_rows(rows, parallel=8).shared_chars) == {0}
