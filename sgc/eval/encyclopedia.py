"""The encyclopedia that an agent consults: pages by title, as ReAct's tools show Wikipedia.

Pages come from recorded episodes (observations of their searches), or from a file of passages with
a title and a text.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import sgc
from sgc.eval.data import read_jsonl

NUM_SIMILAR = 5
_ACTION = re.compile(r"\s*(\w+)\[(.*?)\]?\s*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@sgc.tool(effect="pure")
def consult(pages: str, action: str, before: dict[str, Any]) -> dict[str, Any]:
    """What an action shows.

    Args:
        pages: file of the pages.
        action: `Search[title]` or `Lookup[words]`.
        before: what the action before gave, at first `page` and `words` "" and `found` 0.

    Gives `observation`, the title `page` that is open, and the `words` that were looked up last,
    of which `found` sentences were shown.
    """
    known = _pages(pages)
    match = _ACTION.fullmatch(action)
    verb, words = (match[1], match[2].strip()) if match else ("", "")
    if verb == "Search":
        return _search(known, words)
    if verb == "Lookup":
        found = before["found"] if words == before["words"] else 0
        return _lookup(known.get(before["page"], ""), words, before["page"], found)
    return {**before, "observation": f"Invalid action: {action}"}


def _search(known: dict[str, str], title: str) -> dict[str, Any]:
    exact = {name.casefold(): name for name in known}.get(title.casefold())
    if exact is not None:
        return _seen(known[exact], exact)
    similar = difflib.get_close_matches(title, sorted(known), NUM_SIMILAR, cutoff=0.3)
    return _seen(f"Could not find {title}. Similar: {similar}.", "")


def _lookup(text: str, words: str, page: str, found: int) -> dict[str, Any]:
    wanted = words.casefold()
    hits = [part for part in _SENTENCE.split(text) if wanted in part.casefold()]
    if not wanted or found >= len(hits):
        return _seen("No more results.", page, words, found)
    return _seen(f"(Result {found + 1} / {len(hits)}) {hits[found]}", page, words, found + 1)


def _seen(observation: str, page: str, words: str = "", found: int = 0) -> dict[str, Any]:
    return {"observation": observation, "page": page, "words": words, "found": found}


@lru_cache(maxsize=8)
def _pages(path: str) -> dict[str, str]:
    pages: dict[str, str] = {}
    for record in read_jsonl(Path(path)):
        if record.problem or not isinstance(record.data, dict):
            continue
        for title, text in _entries(record.data):
            pages.setdefault(title, text)
    return pages


def _entries(data: dict[str, Any]) -> list[tuple[str, str]]:
    if isinstance(data.get("text"), str) and isinstance(data.get("title"), str):
        return [(data["title"].replace("_", " "), data["text"])]
    entries = []
    for steps in data.values():
        for step in steps if isinstance(steps, list) else ():
            match = _ACTION.fullmatch(str(step.get("action")))
            text = str(step.get("observation")).strip()
            if match and match[1] == "Search" and not text.startswith("Could not find"):
                entries.append((match[2].strip(), text))
    return entries
