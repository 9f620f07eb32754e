"""Rules that no text ends: found before the automaton is built, and then left out."""

from __future__ import annotations

from collections.abc import Callable

from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.automata.nodes import Literal, Node, Reference, Repeat, Sequence, Span, Union
from sgc_ir.automata.pool import Pool


def build(make: Callable[[Pool], Node], limits: Limits = DEFAULT_LIMITS) -> tuple[Pool, Node]:
    """Run `make` on a pool, and once more without the rules that it shows to be endless.

    Args:
        make: builds the start expression, defining every rule that it uses.

    Returns:
        The pool and the start expression; the empty expression where no text is legal.
    """
    dead: frozenset[str] = frozenset()
    while True:
        pool = Pool(limits, dead)
        try:
            start = make(pool)
            found = _unproductive(pool)
            if not found:
                return pool, start if pool.is_alive(start) else pool.empty
        except BaseException:
            pool.dissolve()
            raise
        dead |= found


def _unproductive(pool: Pool) -> frozenset[str]:
    """Names of the rules that hold no finite text (least fixed point)."""
    ending: set[str] = set()
    open_rules = {rule.name: rule.body for rule in pool.rules if rule.body is not None}
    while True:
        known: dict[int, bool] = {}
        found = {name for name, body in open_rules.items() if _ends(pool, body, ending, known)}
        if not found:
            return frozenset(open_rules)
        ending |= found
        open_rules = {name: body for name, body in open_rules.items() if name not in found}


def _ends(pool: Pool, node: Node, ending: set[str], known: dict[int, bool]) -> bool:
    """Whether `node` holds a text when just the rules in `ending` do; without recursion, because
    chains are long."""
    stack = [node]
    while stack:
        top = stack[-1]
        parts, every = _parts(top)
        missing = [part for part in parts if part.id not in known]
        if missing and top.id not in known:
            stack += missing
            continue
        stack.pop()
        if top.id not in known:
            known[top.id] = _decide(pool, top, ending, [known[p.id] for p in parts], every)
    return known[node.id]


def _parts(node: Node) -> tuple[tuple[Node, ...], bool]:
    """The expressions that decide whether `node` holds a text, and whether it takes all of them;
    none where it is decided without them."""
    if isinstance(node, Union):
        return node.items, False
    if isinstance(node, Sequence):
        return (node.head, node.tail), True
    if isinstance(node, Span | Literal):
        return (node.tail,), True
    if isinstance(node, Repeat) and node.low:
        return (node.body,), True
    return (), True


def _decide(pool: Pool, node: Node, ending: set[str], parts: list[bool], every: bool) -> bool:
    if isinstance(node, Reference):
        return node.rule.name in ending
    if parts:
        return all(parts) if every else any(parts)
    return pool.is_alive(node)
