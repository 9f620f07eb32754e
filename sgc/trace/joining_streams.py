"""Joins the state of streams, fork families and graphs; see `sgc.trace.joining`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sgc.trace.counts import Count
from sgc.trace.entries import Given, Written, may_be_unset, writer
from sgc.trace.form import INT, Form, common_form
from sgc.trace.operand import form_of
from sgc.trace.refusal import refuse
from sgc.trace.stream import Stream
from sgc.trace.symbol import Poison, Symbol
from sgc_ir.graph import UNSET, Ref

if TYPE_CHECKING:
    from sgc.trace.joining import Join

Fields = list[dict[str, Any]]


def join_fields(join: Join, value: Any, contents: Fields) -> dict[str, Any]:
    """The state of an object of the tracer after the join."""
    found = dict(contents[0])
    for name in found:
        values = [content.get(name) for content in contents]
        if any(v is not values[0] and v != values[0] for v in values):
            found[name] = _field(join, value, name, values, contents)
    return found


def _field(join: Join, value: Any, name: str, values: list[Any], contents: Fields) -> Any:
    if name in ("counts", "full"):
        return _counts(join, values, contents)
    if name == "variables":
        return _variables(join, value, values)
    if name in ("is_joined", "is_moved", "_is_joined", "is_dirty"):
        return True
    if name in ("order", "touched"):
        return _union(values)
    if name == "unnamed":
        return None
    return _rest(name, values)


def _rest(name: str, values: list[Any]) -> Any:
    if name == "role":
        shown = " or ".join(value or "none" for value in values)
        raise refuse(f"another chat turn is open on each path after this ({shown}); close it")
    if name in ("stored", "sure", "branches"):
        first, *others = values
        return {k: v for k, v in first.items() if all(k in o and o[k] is v for o in others)}
    if name == "begin":
        return {k: v for value in values for k, v in value.items()}
    if name == "written":
        return _forms(values)
    if name == "version":
        return max(values) + 1
    raise refuse(
        "branches of run-time number are changed on one path only, so that their calls cannot be "
        "numbered; do it on both paths, or in a sub-program"
    )


def _forms(values: list[dict[str, Any]]) -> dict[str, Any]:
    names = dict.fromkeys(name for value in values for name in value)
    return {name: common_form([v[name] for v in values if name in v]) for name in names}


def _union(values: list[dict[Any, Any]]) -> dict[Any, Any]:
    """Last nodes of each kind: those of all paths."""
    found: dict[Any, Any] = {}
    for value in values:
        for key, nodes in value.items():
            old = found.get(key)
            found[key] = tuple(dict.fromkeys((*old, *nodes))) if old and nodes else nodes or old
    return found


# -- counters -------------------------------------------------------------------------------------


def _counts(join: Join, values: list[dict[str, Count]], contents: Fields) -> dict[str, Count]:
    kinds = dict.fromkeys(kind for value in values for kind in value)
    begins: dict[str, Count] = {}
    for content in contents:
        begins.update(content.get("begin", {}))
    found = {}
    for kind in kinds:
        counts = [value.get(kind, begins.get(kind)) for value in values]
        found[kind] = _count(join, [c for c in counts if c is not None])
    return found


def _count(join: Join, counts: list[Count]) -> Count:
    if all(count == counts[0] for count in counts):
        return counts[0]
    operands = join.each(lambda path: counts[path].lower(join.trace))
    constants = [0 if isinstance(o, Ref) else o for o in operands]
    merged = join.merge(operands, constants)
    is_known = not any(isinstance(o, Ref) for o in operands)
    if not is_known:
        join.region.domains.pop(merged.node, None)
    return Count.of(Symbol(merged.region, merged.node, INT))


# -- variables ------------------------------------------------------------------------------------


def _variables(join: Join, stream: Stream, values: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for value in values:
        found.update(value)  # names in the order in which they come up
    first, others = values[0], values[1:]
    for name in found:
        entry = first.get(name)
        for other in others:
            if other.get(name) is not entry:
                entries = [value.get(name) for value in values]
                found[name] = _entry(join, stream, name, entries)
                break
        else:  # most are those from before the branch
            found[name] = entry
    return found


def _entry(join: Join, stream: Stream, name: str, entries: list[Any]) -> Any:
    first = entries[0]
    if all(entry is first or entry == first for entry in entries):
        return first
    if all(isinstance(entry, Given) for entry in entries):
        return Given(join.value([entry.value for entry in entries], f's["{name}"]'))
    for entry in entries:
        if isinstance(entry, Given) and type(entry.value) is Poison:
            return entry
    operands = join.each(lambda path: _writer(join, stream, name, entries[path]))
    forms = [_form(entry) for entry in entries if entry is not None]
    merged = join.merge(operands, [_sample(entry) for entry in entries], forms)
    join.region.writers.add(merged.node)
    is_maybe = any(entry is None or may_be_unset(entry) for entry in entries)
    return Written(merged.region, merged.node, merged.form, is_maybe, is_maybe)


def _writer(join: Join, stream: Stream, name: str, entry: Any) -> Any:
    """The operand that a Merge takes from one path: where there is one, the node that wrote."""
    if entry is None:
        return UNSET
    return writer(join.trace, stream, name, entry)


def _sample(entry: Any) -> Any:
    """Something that has the domain of the entry."""
    if isinstance(entry, Written):
        return Symbol(entry.region, entry.node, entry.form)
    return entry.value if isinstance(entry, Given) else UNSET


def _form(entry: Any) -> Form:
    if isinstance(entry, Written):
        return entry.form
    return form_of(entry.value) if isinstance(entry, Given) else Form("list")
