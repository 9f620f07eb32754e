"""Sentences about calls and streams before a run, by hand for a small graph."""

from __future__ import annotations

from sgc.page.drawing import shown_boxes
from sgc.page.facts import known_facts
from sgc_ir.text import parse_program

GRAPH = """
program demo
graph demo(q: str) {
  %0 = ConstantText text="Answer. "
  %1 = Argument name="q" append=True
  %2 = Gen name="first" ordinal=0 max_tokens=7
  %3 = Fork ordinal=0 width=2
  %4 = GetForkItem fork=%3 index=0
  %5 = GetForkItem fork=%3 index=1
  %6 = Gen in %4 name="a" ordinal=0 regex="yes|no" max_tokens=5
  %7 = Gen in %5 name="b" ordinal=0
  %8 = Join fork=%3 mode="gather" vars={}
  %9 = Select name="last" ordinal=1 choices=("x", "y")
  %10 = Return value=%9 vars={}
}
"""


def test_readers_and_bounds() -> None:
    graphs = parse_program(GRAPH)
    _, shown = shown_boxes(graphs)
    found = {
        item.item.node.id: facts for item, facts in zip(shown, known_facts(graphs, shown)) if facts
    }
    assert found[2] == [
        "A sample has 0 to 7 tokens.",
        "At most 3 later calls read on from its end.",
        "The first of them comes at once.",
    ]
    begins = "In every instance it begins with the same text of 8 characters."
    assert found[4] == ["It makes at most 1 call.", begins]
    # The shortest legal text has a token, the longest a byte a token and one that ends it.
    assert found[6] == ["A sample has 1 to 4 tokens.", "No later call reads on from its end."]
    assert found[7][0] == "A sample has 0 to 128 tokens."
    assert found[9] == ["No later call reads on from its end."]
    assert set(found) == {2, 4, 5, 6, 7, 9}
