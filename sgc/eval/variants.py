"""The system with one part switched off: what an ablation compares with the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sgc_ir.errors import InputError

FULL, ALL, HIT_RATE = "full", "all", "hit-rate"
SHARES = (0.0, 0.25, 0.5, 0.75)  # of the calls that may find anything; all of them: the whole


@dataclass(frozen=True, slots=True)
class Variant:
    """One row of the table.

    Attributes:
        title: what is switched off, or how it runs instead.
        engine, settings: flags of `sgc run` by field name, which go before those of the user.
    """

    name: str
    title: str
    engine: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


WHOLE = Variant(FULL, "the whole system")
VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("no-cache", "no KV is kept for later calls", {"cache": False}),
        Variant(
            "no-tree",
            "a kept text is reused only by prompts that begin with all of it",
            {"cache_tree": False},
        ),
        Variant(
            "fcfs",
            "rows and calls in the order in which they come",
            {"order": "fcfs"},
            {"plan": False},
        ),
        Variant(
            "random",
            "calls by lot, rows in the order of the input",
            {"order": "random"},
            {"plan": False},
        ),
        Variant(
            "no-parallel",
            "one model call of a program at a time",
            settings={"row_parallel": False},
        ),
        Variant("no-hints", "the engine knows nothing of calls to come", settings={"hints": False}),
        Variant("no-plan", "rows start in the order of the input", settings={"plan": False}),
        Variant("no-jump", "forced text takes a pass a token", {"jump": False}),
        Variant(
            "interpreted",
            "programs are interpreted, not compiled",
            settings={"mode": "interpreted"},
        ),
    )
}


def share_variant(share: float) -> Variant:
    """The system of which only this share of the calls may find anything in the cache."""
    title = f"{100 * share:.0f} % of the calls may find anything in the cache"
    return Variant(f"matches-{share:g}", title, {"match_share": share})


def parse_variants(text: str) -> tuple[str, ...]:
    """Names of a list such as `no-cache,fcfs`: of `VARIANTS`, each once, in their order, and
    `hit-rate` as the last. `all` is every one but `hit-rate`.

    Raises InputError for a name that none has.
    """
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in (*VARIANTS, ALL, HIT_RATE):
            known = ", ".join((*VARIANTS, ALL, HIT_RATE))
            raise InputError(f"there is no ablation {name}; the ablations are {known}")
    wanted: Iterable[str] = VARIANTS if ALL in names else names
    found = tuple(name for name in VARIANTS if name in set(wanted))
    return (*found, HIT_RATE) if HIT_RATE in names else found
