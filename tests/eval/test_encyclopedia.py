"""The encyclopedia: searches, lookups one after the other, and where pages come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sgc.eval.encyclopedia import consult

CLOSED = {"page": "", "words": "", "found": 0}
TEXT = "Rome is old. It lies at the Tiber. The Tiber is a river. Rome has hills."


@pytest.fixture
def pages(tmp_path: Path) -> str:
    rows: list[Any] = [
        {"passage_id": 0, "title": "Ancient_Rome", "text": TEXT},
        {
            "Question: q": [
                {"thought": "", "action": "Search[Tiber]", "observation": "A river.\n"},
                {"thought": "", "action": "Search[Nowhere]", "observation": "Could not find it."},
                {"thought": "", "action": "Lookup[x]", "observation": "No more results.\n"},
            ]
        },
    ]
    path = tmp_path / "pages.jsonl"
    path.write_text("\n".join([*map(json.dumps, rows), "broken"]), "utf-8")
    return str(path)


def test_a_search_opens_a_page_whatever_its_case(pages: str) -> None:
    seen = consult(pages, "Search[ancient rome]", CLOSED)
    assert seen == {"observation": TEXT, "page": "Ancient Rome", "words": "", "found": 0}
    assert consult(pages, "Search[Tiber]", CLOSED)["observation"] == "A river."


def test_a_search_for_what_is_not_there_names_what_is_alike(pages: str) -> None:
    seen = consult(pages, "Search[Rome, ancient]", consult(pages, "Search[Tiber]", CLOSED))
    assert seen["observation"] == "Could not find Rome, ancient. Similar: ['Ancient Rome']."
    assert seen["page"] == ""
    assert "Nowhere" not in consult(pages, "Search[Nowhere]", CLOSED)["observation"].split("Sim")[1]


def test_lookups_go_through_the_sentences_and_begin_anew_with_other_words(pages: str) -> None:
    seen = consult(pages, "Search[Ancient Rome]", CLOSED)
    texts = []
    for action in ["Lookup[tiber]"] * 3 + ["Lookup[Rome]"]:
        seen = consult(pages, action, seen)
        texts.append(seen["observation"])
    assert texts == [
        "(Result 1 / 2) It lies at the Tiber.",
        "(Result 2 / 2) The Tiber is a river.",
        "No more results.",
        "(Result 1 / 2) Rome is old.",
    ]


@pytest.mark.parametrize("action", ["", "Dance", "search Rome", "Jump[Rome]"])
def test_what_is_no_action_is_said_and_changes_nothing(pages: str, action: str) -> None:
    before = consult(pages, "Search[Tiber]", CLOSED)
    assert consult(pages, action, before) == {
        **before,
        "observation": f"Invalid action: {action}",
    }


def test_a_lookup_without_a_page_or_words_finds_nothing(pages: str) -> None:
    assert consult(pages, "Lookup[Rome]", CLOSED)["observation"] == "No more results."
    seen = consult(pages, "Search[Tiber]", CLOSED)
    assert consult(pages, "Lookup[]", seen)["observation"] == "No more results."
