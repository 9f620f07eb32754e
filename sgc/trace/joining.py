"""Joins paths: merges what differs, slot by slot, into values that hold on all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sgc.trace.containers import is_object
from sgc.trace.emit import RETURN_SLOT
from sgc.trace.env import Env
from sgc.trace.facts import SCALARS, distinct, same_constant
from sgc.trace.form import Form, common_form
from sgc.trace.handle import TracedHandle
from sgc.trace.log import Contents, Path, put_back, undo
from sgc.trace.operand import form_of, rebuild
from sgc.trace.ownership import MISSING, Ownership, live
from sgc.trace.refusal import Refusal, refuse
from sgc.trace.run_dicts import check_lookup
from sgc.trace.symbol import WHOLE, Maybe, Poison, Spread, Symbol, Whole
from sgc_ir.graph import UNSET, Ref
from sgc_ir.ops import Op

if TYPE_CHECKING:
    from sgc.trace.context import Trace

_MAX_SPREADS = 4


class Join:
    """The join of several paths that began where `frame` did."""

    def __init__(self, trace: Trace, paths: Sequence[Path], frame: Contents) -> None:
        self.trace = trace
        self.region = trace.region
        self.paths = paths
        self.frame = frame
        tokens = [self.region.token_of(path.arms) for path in paths]
        self.tokens = tuple((Ref(t[0]), t[1]) for t in tokens if t is not None)
        assert len(self.tokens) == len(paths), "a path that is always taken has no other beside it"
        self._merges: dict[str, Symbol] = {}
        self._made: dict[tuple[int, ...], Any] = {}  # ids, one a path -> the merged container
        self._kept: list[Any] = []

    def run(self) -> None:
        """Make the joined state the present one."""
        with self.trace.unseen():
            self._run()

    def _run(self) -> None:
        trace, region = self.trace, self.region
        undo(self.frame)
        merged = []
        for value, base in list(self.frame.values()):
            if self._is_shared(value):
                merged.append((value, self._content(value, base)))
        for value, content in merged:
            put_back(value, content)
        region.enter(region.tokens.join(path.arms for path in self.paths))
        trace.facts.joined([path.facts for path in self.paths], trace.regions)

    def content(self, path: int, value: Any) -> Any:
        """What is in a container at the end of a path."""
        found = self.paths[path].contents.get(id(value)) or self.frame.get(id(value))
        return found[1] if found is not None else live(value)

    def each(self, make: Callable[[int], Any]) -> list[Any]:
        """`make(path)` for each path, recorded under its token."""
        found = []
        for number, path in enumerate(self.paths):
            with self.region.under(path.arms):
                found.append(make(number))
        return found

    # -- containers -------------------------------------------------------------------------------

    @cached_property
    def _ownership(self) -> Ownership:
        given = [value for value, _ in self.frame.values() if isinstance(value, Env)]
        return Ownership(self.trace, len(self.paths), self.content, given)

    def _is_shared(self, value: Any) -> bool:
        if hasattr(type(value), "_sgc_fields"):
            return self._is_there(value)
        return isinstance(value, Env) or id(value) in self._ownership.shared

    def _is_there(self, value: Any) -> bool:
        """Whether a stream or fork was made before the paths parted."""
        made = value.made_by if hasattr(value, "made_by") else None
        if made is None or (made[0] is self.region and made[1] < 0):
            return True
        if made[0] is not self.region:
            return bool(made[0].encloses(self.region))
        tokens = self.region.tokens
        arms = tokens.of_node(self.region.nodes[made[1]])
        return all(tokens.covers(arms, path.arms) for path in self.paths)

    def _content(self, value: Any, base: Any) -> Any:
        from sgc.trace.joining_streams import join_fields

        contents = [self.content(path, value) for path in range(len(self.paths))]
        if hasattr(type(value), "_sgc_fields"):
            return join_fields(self, value, contents)
        if isinstance(value, Env):
            return self._named(contents, unset_local)
        if type(value) is dict:
            return self._dict(contents)
        if isinstance(value, dict):
            return self._other_dict(value, contents)
        if isinstance(value, list):
            return self.items(contents)
        if is_object(value):
            return self._named(contents, unset_attribute)
        if all(_are_same(content, contents[0]) for content in contents):
            return contents[0]
        kind = type(value).__name__
        raise refuse(f"a {kind} has another content on each path after this; use a list")

    def _named(
        self, contents: list[dict[str, Any]], missing: Callable[[str], str]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in dict.fromkeys(name for content in contents for name in content):
            values = [content.get(name, MISSING) for content in contents]
            if name == RETURN_SLOT:
                values = [None if value is MISSING else value for value in values]
            is_lost = any(value is MISSING for value in values)
            found[name] = Poison(missing(name)) if is_lost else self.value(values, name)
        return found

    def _dict(self, contents: list[dict[Any, Any]]) -> dict[Any, Any]:
        if any(WHOLE in content for content in contents):
            return self._whole(contents)
        order = max(contents, key=len)
        places = {key: i for i, key in enumerate(order)}
        for content in contents:
            at = [places.get(key, -1) for key in content]
            if -1 in at or at != sorted(at):
                return self._whole(contents)
        return {key: self._entry([c.get(key, MISSING) for c in contents], key) for key in order}

    def _other_dict(self, value: dict[Any, Any], contents: list[dict[Any, Any]]) -> dict[Any, Any]:
        if any(list(content) != list(contents[0]) for content in contents):
            raise refuse(
                f"a {type(value).__name__} has other keys, or another order of them, on each path "
                "after this; set them before, or use a dict"
            )
        return self._dict(contents)

    def _whole(self, contents: list[dict[Any, Any]]) -> dict[Any, Any]:
        """A dict that has other keys, or another order of them, on each path."""
        for content in contents:
            check_lookup({k: v for k, v in content.items() if type(v) is not Maybe})
        merged = self._symbol(contents, "a dict")
        return {WHOLE: merged if type(merged) is Poison else Whole(merged)}

    def _entry(self, values: list[Any], key: Any) -> Any:
        if not any(value is MISSING or type(value) is Maybe for value in values):
            return self.value(values, f"[{key!r}]")
        if any(type(value) is Poison for value in values):
            return next(value for value in values if type(value) is Poison)
        plain = [UNSET if v is MISSING else v.value if type(v) is Maybe else v for v in values]
        symbol = self._symbol(plain, f"[{key!r}]")
        return symbol if type(symbol) is Poison else Maybe(symbol)

    def items(self, contents: list[list[Any]]) -> list[Any]:
        """The content of a list."""
        if any(len(c) == 1 and type(c[0]) is Poison for c in contents):
            return next(c for c in contents if len(c) == 1 and type(c[0]) is Poison)
        if all(len(content) == len(contents[0]) for content in contents) and not _uneven(contents):
            return [self.value(list(values), "an item") for values in zip(*contents, strict=True)]
        same = 0
        for values in zip(*contents, strict=False):
            if not all(_is_same(value, values[0]) for value in values):
                break
            same += 1
        prefix = contents[0][:same]
        if sum(type(value) is Spread for value in prefix) >= _MAX_SPREADS:
            prefix, same = [], 0
        rest = self._symbol([content[same:] for content in contents], "a list")
        return [rest] if type(rest) is Poison else [*prefix, Spread(rest)]

    # -- values -----------------------------------------------------------------------------------

    def value(self, values: list[Any], name: str) -> Any:
        """One value that stands for those of all paths."""
        first = values[0]
        if all(_is_same(value, first) for value in values):
            return first
        poison = next((value for value in values if type(value) is Poison), None)
        if poison is not None:
            return poison
        if all(type(value) is Spread for value in values):
            merged = self._symbol([value.value for value in values], name)
            return merged if type(merged) is Poison else Spread(merged)
        if all(isinstance(v, tuple) and type(v) is type(first) for v in values):
            if all(len(v) == len(first) for v in values):
                parts = [self.value(list(p), name) for p in zip(*values, strict=True)]
                make = getattr(type(first), "_make", None)
                return tuple(parts) if make is None else make(parts)
        if all(type(value) in (list, dict) for value in values):
            return self._container(values, name)
        return self._symbol(values, name)

    def _container(self, values: list[Any], name: str) -> Any:
        """A list or dict of which each path has another."""
        key = tuple(map(id, values))
        if any(id(value) in self._ownership.conflicts for value in values):
            return Poison(aliased(name))
        if key not in self._made:
            kind = type(values[0])
            if any(type(value) is not kind for value in values):
                return self._symbol(values, name)
            self._kept.append(values)
            contents = [self.content(path, value) for path, value in enumerate(values)]
            made = self._made[key] = kind()
            put_back(made, self.items(contents) if kind is list else self._dict(contents))
        return self._made[key]

    def _symbol(self, values: list[Any], name: str) -> Any:
        """A Merge of plain data; Poison where it is none."""
        frozen: list[Any] = []
        for path, value in enumerate(values):
            if isinstance(value, list | dict) and id(value) in self._conflicts(values):
                return Poison(aliased(name))
            frozen.append(self._frozen(path, value))
        if any(isinstance(v, TracedHandle) for v in values):
            if not all(isinstance(v, TracedHandle) for v in values):
                return Poison(differs(name))
            operands = self.each(lambda i: self.trace.operand(values[i]))
            return rebuild(self.trace, self.merge(operands, values, [_common_handle(values)]))
        try:
            operands = self.each(lambda i: self._operand(frozen[i]))
        except Refusal as refusal:
            is_plain = all(type(v) in (*SCALARS, Symbol, list, dict, tuple) for v in values)
            return Poison(refusal.error.reason if is_plain else differs(name))
        return rebuild(self.trace, self.merge(operands, frozen))

    def _conflicts(self, values: list[Any]) -> set[int]:
        return self._ownership.conflicts if any(type(v) in (list, dict) for v in values) else set()

    def _frozen(self, path: int, value: Any, depth: int = 0) -> Any:
        """A copy of a container as it is at the end of a path."""
        if type(value) not in (list, dict, tuple) or depth > 20:
            return value
        content: Any = value if type(value) is tuple else self.content(path, value)
        if type(value) is dict:
            return {k: self._frozen(path, v, depth + 1) for k, v in content.items()}
        items = [self._frozen(path, v, depth + 1) for v in content]
        return items if type(value) is list else tuple(items)

    def _operand(self, value: Any) -> Any:
        return UNSET if value is UNSET else self.trace.operand(value)

    def merge(
        self, operands: list[Any], values: Sequence[Any], forms: list[Form] | None = None
    ) -> Symbol:
        """A Merge node; those with the same operands are one."""
        is_plain = all(isinstance(o, Ref) or type(o) in SCALARS for o in operands)
        key = repr(operands) if is_plain else ""
        found = self._merges.get(key) if key else None
        if found is None:
            attrs = {"values": tuple(operands), "tokens": self.tokens}
            node = self.trace.node(Op.MERGE, attrs, may_fail=False)
            given = forms or [form_of(value) for value in values if value is not UNSET]
            form = common_form(given)
            found = self._merges[key] = Symbol(self.region, node, form)
            self.region.note(node, self._domain(values), form.kind == "str")
        return found

    def _domain(self, values: Sequence[Any]) -> Any:
        found: list[Any] = []
        for path, value in zip(self.paths, values, strict=True):
            domain = self.trace.facts.on_path(path.facts, value)
            if domain is None:
                return None
            found += domain
        return distinct(found)


def unset_local(name: str) -> str:
    return f"`{name}` is not set on every path; set it before"


def unset_attribute(name: str) -> str:
    return f"attribute {name} is not set on every path; set it before"


def aliased(name: str) -> str:
    return (
        f"{_shown(name)} is a list that has another name too on one path, and another list on the "
        "other; copy it on both (list(...) or dict(...))"
    )


def differs(name: str) -> str:
    return (
        f"{_shown(name)} is a different stream, function or object on each path; move the use into "
        "the arms, or order the branches with sort or max and a key"
    )


def _shown(name: str) -> str:
    return "the return value" if name == RETURN_SLOT else f"`{name}`"


def _is_same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is Symbol and type(b) is Symbol:
        return a.key == b.key
    if type(a) is type(b) and type(a) in (Spread, Maybe, Whole):
        return bool(a.value.key == b.value.key)
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_is_same, a, b))
    if isinstance(a, TracedHandle) and isinstance(b, TracedHandle):
        return a.symbol.key == b.symbol.key
    return type(a) in SCALARS and same_constant(a, b)


def _are_same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(_is_same, a, b))


def _common_handle(handles: list[TracedHandle]) -> Form:
    """The form of a handle that is one of several: what all of the programs set."""
    from sgc.trace.subprogram import Callee

    callees = list({id(h.symbol.form.target): h.symbol.form.target for h in handles}.values())
    if len(callees) == 1:
        return handles[0].symbol.form
    names = [n for n in callees[0].variables if all(n in c.variables for c in callees)]
    variables = {n: common_form([c.variables[n] for c in callees]) for n in names}
    every = {n for c in callees for n in (*c.variables, *c.unsure)}
    unsure = frozenset(n for c in callees for n in c.unsure) | (every - set(names))
    program = " or ".join(dict.fromkeys(c.program for c in callees))
    value = common_form([c.value for c in callees])
    return Form("handle", target=Callee("", program, variables, unsure, value, is_done=True))


def _uneven(contents: list[list[Any]]) -> bool:
    """Whether an item of one path stands where another has a stretch of run-time length."""
    for values in zip(*contents, strict=True):
        spreads = sum(type(value) is Spread for value in values)
        if 0 < spreads < len(values):
            return True
    return False
