"""What is known of run-time values on the present path: the constants that they may be.

A symbol has a domain where its values are few: the choices of a select, True and False, what an
expression makes of small domains, what a Merge joins. A condition narrows the domains of the
values that it looks at; a join takes the union and forgets what is no narrower than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from sgc.trace.symbol import Symbol
from sgc_ir.expr import FUNCTIONS
from sgc_ir.graph import Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace
    from sgc.trace.region import Region

Domain = tuple[Any, ...]
Key = tuple[int, int]  # number of a region, and a node of it
MAX_DOMAIN = 32
_MAX_CASES = 64  # combinations of operands that are tried
_MAX_DEPTH = 12
SCALARS = (type(None), bool, int, float, str, bytes)
BOTH: Domain = (False, True)
_NEVER = ("set", "typed", "fail")


def same_constant(a: Any, b: Any) -> bool:
    """Whether two constants are equal in type, value and sign of zero; nan equals nan."""
    if type(a) is not type(b):
        return False
    return a is b or (a == b and repr(a) == repr(b)) or (a != a and b != b)


def distinct(values: Iterable[Any]) -> Domain | None:
    """The values without repetition, or None where they are too many or no constants."""
    found: dict[Any, Any] = {}
    for value in values:
        if type(value) not in SCALARS:
            return None
        found.setdefault((type(value), repr(value)), value)
        if len(found) > MAX_DOMAIN:
            return None
    return tuple(found.values())


class Facts:
    """The domains of run-time values, narrowed by the predicates of the present path.

    Attributes:
        known: what the present path narrows; never changed in place.
        outside: what was known before operands that are evaluated on trial.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.known: Mapping[Key, Domain] = {}
        self.outside: Mapping[Key, Domain] | None = None

    # -- domains ----------------------------------------------------------------------------------

    def of(self, value: Any) -> Domain | None:
        """The constants that an operand may be here, or None."""
        if type(value) is Symbol:
            return self._of_node(value.region, value.node, 0)
        return (value,) if type(value) in SCALARS else None

    def on_path(self, known: Mapping[Key, Domain], value: Any) -> Domain | None:
        """The same where other facts are known."""
        before, self.known = self.known, known
        try:
            return self.of(value)
        finally:
            self.known = before

    def of_expr_here(
        self, fn: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Domain | None:
        """The same for a node that is recorded now: on trial it stands outside of its arm."""
        if self.outside is None:
            return self.of_expr(fn, args, kwargs)
        before, self.known = self.known, self.outside
        try:
            return self.of_expr(fn, args, kwargs)
        finally:
            self.known = before

    def of_expr(self, fn: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Domain | None:
        """What an expression gives over the domains of its operands; None where it may fail."""
        if kwargs or fn in _NEVER:
            return None
        domains = []
        for arg in args:
            domain = self.of(arg)
            if domain is None:
                return None
            domains.append(domain)
        return _image(fn, domains)

    def _of_node(self, region: Region, node: int, depth: int) -> Domain | None:
        if node >= len(region.nodes):
            return None  # a counter of passes that were traced before, and are traced again
        region, node = _origin(region, node)
        fact = self.known.get((region.number, node))
        if fact is not None:
            return fact
        base = region.domains.get(node)
        made = region.nodes[node]
        if base is not None and self.known and made.op is Op.EXPR and depth < _MAX_DEPTH:
            domains = [self._of_operand(region, a, depth + 1) for a in made.attrs["args"]]
            if all(domain is not None for domain in domains):
                return _image(made.attrs["fn"], domains) or base
            if made.attrs["fn"] in ("and", "or"):
                return _logic(made.attrs["fn"], domains, base)
        return base

    def _of_operand(self, region: Region, operand: Any, depth: int) -> Domain | None:
        if isinstance(operand, Ref):
            return self._of_node(region, operand.node, depth)
        return (operand,) if type(operand) in SCALARS else None

    # -- truth ------------------------------------------------------------------------------------

    def truth(self, symbol: Symbol) -> bool | None:
        """The truth of a value where it has only one, else None."""
        domain = self.of(symbol)
        if not domain:
            return None
        outcomes = {bool(value) for value in domain}
        return outcomes.pop() if len(outcomes) == 1 else None

    def assume(self, symbol: Symbol, outcome: bool) -> None:
        """On this path the truth of `symbol` is `outcome`."""
        self._assume(symbol.region, symbol.node, outcome, 0)

    def _assume(self, region: Region, node: int, outcome: bool, depth: int) -> None:
        region, node = _origin(region, node)
        domain = self._of_node(region, node, 0)
        if domain is not None:
            self._narrow(region, node, tuple(v for v in domain if bool(v) == outcome))
        made = region.nodes[node]
        if made.op is not Op.EXPR or depth > _MAX_DEPTH:
            return
        fn, args = made.attrs["fn"], made.attrs["args"]
        if fn in ("not", "bool"):
            self._assume_operand(region, args[0], outcome == (fn == "bool"), depth)
        elif (fn, outcome) in (("and", True), ("or", False)):
            for arg in args:
                self._assume_operand(region, arg, outcome, depth)
        else:
            self._assume_equal(region, fn, args, outcome)
            self._assume_leaf(region, node, outcome)

    def _assume_operand(self, region: Region, operand: Any, outcome: bool, depth: int) -> None:
        if isinstance(operand, Ref):
            self._assume(region, operand.node, outcome, depth + 1)

    def _assume_equal(self, region: Region, fn: str, args: Any, outcome: bool) -> None:
        """`x == "text"` holds: then `x` is that text, also where it has no domain."""
        if (fn, outcome) not in (("==", True), ("!=", False)):
            return
        for operand, constant in (args, args[::-1]):
            if isinstance(operand, Ref) and type(constant) is str:
                home, node = _origin(region, operand.node)
                if node in home.texts and self._of_node(home, node, 0) is None:
                    self._narrow(home, node, (constant,))

    def _assume_leaf(self, region: Region, node: int, outcome: bool) -> None:
        """Narrow the one value that the condition looks at."""
        leaves: dict[Key, tuple[Region, int]] = {}
        if not self._leaves(region, node, leaves, 0) or len(leaves) != 1:
            return
        [(home, leaf)] = leaves.values()
        if (home, leaf) == (region, node):
            return
        domain = self._of_node(home, leaf, 0)
        kept = []
        for value in domain or ():
            truth = self._evaluate(region, node, (home.number, leaf), value)
            if truth is None:
                return
            if truth[0] == outcome:
                kept.append(value)
        self._narrow(home, leaf, tuple(kept))

    def _leaves(
        self, region: Region, node: int, found: dict[Key, tuple[Region, int]], depth: int
    ) -> bool:
        """The values with domains under an expression; False where one has none."""
        region, node = _origin(region, node)
        made = region.nodes[node]
        if made.op is Op.EXPR and depth < _MAX_DEPTH and made.attrs["fn"] not in _NEVER:
            inner: dict[Key, tuple[Region, int]] = {}
            if all(
                self._leaves(region, a.node, inner, depth + 1)
                if isinstance(a, Ref)
                else _is_plain(a)
                for a in made.attrs["args"]
            ):
                found.update(inner)
                return True
        if self._of_node(region, node, 0) is None:
            return False
        found[region.number, node] = (region, node)
        return True

    def _evaluate(self, region: Region, node: int, leaf: Key, value: Any) -> tuple[bool] | None:
        """The truth of an expression where a leaf has this value; None where it fails."""
        try:
            return (bool(_value(region, node, leaf, value)),)
        except Exception:  # whatever Python raises for these operands
            return None

    def _narrow(self, region: Region, node: int, domain: Domain) -> None:
        if domain:
            self.known = {**self.known, (region.number, node): domain}

    # -- joins ------------------------------------------------------------------------------------

    def joined(self, paths: Sequence[Mapping[Key, Domain]], regions: Mapping[int, Region]) -> None:
        """After a join the facts are the union of those of all paths."""
        first, *others = paths
        found: dict[Key, Domain] = {}
        for key in first:
            if all(key in other for other in others):
                union = distinct(v for facts in paths for v in facts[key])
                region = regions.get(key[0])
                full = region.domains.get(key[1]) if region is not None else None
                if union is not None and (full is None or len(union) < len(full)):
                    found[key] = union
        self.known = found


def _origin(region: Region, node: int) -> tuple[Region, int]:
    """The writer, one region or several further out, whose value a node passes on."""
    while True:
        outer = region.origin(node)
        if outer is not None:
            region, node = outer
            continue
        made = region.nodes[node]
        of = made.attrs.get("of")
        is_read = made.op is Op.VARIABLE and made.attrs.get("field", "value") == "value"
        if not is_read or not isinstance(of, Ref) or of.node not in region.writers:
            return region, node
        node = of.node


def _image(fn: str, domains: Sequence[Domain | None]) -> Domain | None:
    cases = 1
    for domain in domains:
        cases *= len(domain or ())
    if not 0 < cases <= _MAX_CASES:
        return None
    call = FUNCTIONS[fn].call
    try:
        return distinct([call(*values) for values in product(*(d or () for d in domains))])
    except Exception:  # whatever Python raises for these operands
        return None


def _logic(fn: str, domains: Sequence[Domain | None], base: Domain) -> Domain:
    """`and` is false where one operand certainly is, `or` true."""
    decides = fn == "or"
    for domain in domains:
        if domain is not None and all(bool(value) == decides for value in domain):
            kept = tuple(value for value in base if bool(value) == decides)
            return kept or base
    return base


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in SCALARS


def _value(region: Region, node: int, leaf: Key, value: Any) -> Any:
    region, node = _origin(region, node)
    if (region.number, node) == leaf:
        return value
    made = region.nodes[node]
    args = [
        _value(region, a.node, leaf, value) if isinstance(a, Ref) else a for a in made.attrs["args"]
    ]
    return FUNCTIONS[made.attrs["fn"]].call(*args)
