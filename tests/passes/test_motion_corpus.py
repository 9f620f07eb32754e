"""The corpus of templates: none that must stay is moved, most that may move are, and how far.

`templates/movable.json` holds prompts with the order that is expected, `templates/fixed.json` ones
where another order would mean something else, each with the reason.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.templates import graph_of, templates

from sgc_ir.passes.base import Context
from sgc_ir.passes.manager import run_passes

MOVABLE, FIXED = templates("movable"), templates("fixed")
LEAST_RIGHT = 0.8  # of the movable ones
LEAST_GAIN = 60  # tokens, mean of all movable ones


def moves(template: dict[str, Any], context: Context | None = None) -> list[dict[str, Any]]:
    program, _ = run_passes(graph_of(template), ["reorder"], context, check=True)
    found: list[dict[str, Any]] = dict(program.notes).get("reorder", {}).get("moves", [])
    return found


def test_the_corpus_is_large_and_varied() -> None:
    names = [t["name"] for t in (*MOVABLE, *FIXED)]
    assert len(set(names)) == len(names) >= 40
    assert min(len(MOVABLE), len(FIXED)) >= 20
    assert all({t["form"] for t in part} == {"chat", "raw"} for part in (MOVABLE, FIXED))


@pytest.mark.parametrize("template", FIXED, ids=lambda t: t["name"])
def test_what_must_stay_stays(template: dict[str, Any]) -> None:
    assert moves(template) == [], template["why"]


def is_right(template: dict[str, Any]) -> bool:
    found = moves(template)
    assert len(found) <= 1
    if found:  # where it moves something, nothing else may come of it
        assert found[0]["after"] == template["after"], template["name"]
    return bool(found)


def test_most_that_may_move_move_to_the_expected_order() -> None:
    right = [is_right(template) for template in MOVABLE]
    assert sum(right[:20]) >= 16
    assert sum(right) >= LEAST_RIGHT * len(right)


@pytest.mark.model
def test_the_gain_in_tokens_of_the_default_model() -> None:
    from sgc_runtime.models import resolve
    from sgc_runtime.tokenizer.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(resolve("smollm2-135m"))
    context = Context(count_tokens=lambda text: len(tokenizer.encode(text)), unit="tokens")
    gains = [sum(m["gain"] for m in moves(template, context)) for template in MOVABLE]
    assert sum(gains[:20]) / 20 >= LEAST_GAIN
    assert sum(gains) / len(gains) >= LEAST_GAIN
