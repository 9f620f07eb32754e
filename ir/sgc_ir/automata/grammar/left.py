"""Left recursion, direct, indirect and hidden behind rules that may be empty, turned into loops.

The rules that begin with one another (a component of the left-corner relation) are one left-linear
system: `A_i = b_i | A_j a_ij | ...`, where no `b_i` begins with a rule of the component. So a text
of `A_i` is a text of some `b_j` and then a path of `a`s from `j` up to `i`. The paths are the rules
of a right-linear system, one for each pair that is needed: the left-corner transform of
Rosenkrantz and Lewis (1970), kept to the rules that need it (Johnson 1998). A rule that begins
with itself alone becomes a plain loop, `A = b a*`.

So that an empty part in front cannot hide such a beginning, every `b` and `a` is split by the
first part that is not empty.
"""

from __future__ import annotations

from collections.abc import Iterator

from sgc_ir.automata.grammar.forms import (
    NEVER,
    NOTHING,
    Form,
    Name,
    Options,
    Series,
    Times,
    Word,
    names,
    options,
    series,
    times,
)
from sgc_ir.automata.grammar.graph import components
from sgc_ir.errors import ConstraintError

_MAX_RULES = 20_000
_Lead = tuple[Form, Form]  # a terminal, or the texts of a rule that are not empty; what follows


class LeftRecursion:
    """Rewrites the rules of one grammar.

    Args:
        rules: the right sides; rewritten in place, with rules added.

    Attributes:
        nullable: the rules that hold the empty text.
    """

    def __init__(self, rules: dict[str, Form]) -> None:
        self.rules = rules
        self.nullable = _nullable_rules(rules)

    def remove(self) -> None:
        """Rewrite until no rule begins with itself."""
        edges = {name: sorted(set(self._first_names(form))) for name, form in self.rules.items()}
        for group in components(edges):
            if len(group) > 1 or group[0] in edges[group[0]]:
                _Component(self, sorted(group)).rewrite()

    def is_nullable(self, form: Form) -> bool:
        """Whether `form` holds the empty text."""
        return _holds_empty(form, self.nullable)

    def _first_names(self, form: Form) -> Iterator[str]:
        """The rules that a text of `form` can begin with."""
        if isinstance(form, Name):
            yield form.name
        elif isinstance(form, Options):
            for part in form.parts:
                yield from self._first_names(part)
        elif isinstance(form, Series):
            for part in form.parts:
                yield from self._first_names(part)
                if not self.is_nullable(part):
                    break
        elif isinstance(form, Times):
            yield from self._first_names(form.body)

    def begins_within(self, form: Form, group: frozenset[str]) -> bool:
        return not group.isdisjoint(self._first_names(form))

    def add(self, name: str, form: Form, nullable: bool) -> None:
        """Set a rule that the rewriting makes."""
        if len(self.rules) >= _MAX_RULES:
            raise ConstraintError("too many rules begin with one another; write loops with *")
        self.rules[name] = form
        if nullable:
            self.nullable.add(name)

    # Splitting

    def filled(self, form: Form) -> Form:
        """The texts of `form` that are not empty."""
        if not self.is_nullable(form):
            return form
        if isinstance(form, Options):
            return options([self.filled(part) for part in form.parts])
        if isinstance(form, Name):
            return self._filled_rule(form.name)
        if isinstance(form, Times):
            return series([self.filled(form.body), _once_less(form)])
        assert isinstance(form, Series)
        return options(
            series([self.filled(part), *form.parts[i + 1 :]]) for i, part in enumerate(form.parts)
        )

    def _filled_rule(self, name: str) -> Form:
        filled = f"{name} filled"
        if filled not in self.rules:
            self.add(filled, NEVER, False)  # so that a rule that holds itself ends
            self.rules[filled] = self.filled(self.rules[name])
        return Name(filled)

    def leads(self, form: Form) -> Iterator[_Lead]:
        """The texts of `form` that are not empty, split behind the terminal or rule that they
        begin with (of a rule, its texts that are not empty)."""
        if isinstance(form, Word | Name):
            yield form, NOTHING
        elif isinstance(form, Options):
            for part in form.parts:
                yield from self.leads(part)
        elif isinstance(form, Times):
            for lead, rest in self.leads(form.body):
                yield lead, series([rest, _once_less(form)])
        elif isinstance(form, Series):
            for i, part in enumerate(form.parts):
                for lead, rest in self.leads(part):
                    yield lead, series([rest, *form.parts[i + 1 :]])
                if not self.is_nullable(part):
                    break


def _once_less(form: Times) -> Form:
    return times(form.body, max(form.low - 1, 0), None if form.high is None else form.high - 1)


def _nullable_rules(rules: dict[str, Form]) -> set[str]:
    """The rules that hold the empty text (least fixed point)."""
    users: dict[str, list[str]] = {}
    for name, form in rules.items():
        for used in set(names(form)):
            users.setdefault(used, []).append(name)
    found: set[str] = set()
    todo = list(rules)
    while todo:
        name = todo.pop()
        if name not in found and _holds_empty(rules[name], found):
            found.add(name)
            todo += users.get(name, ())
    return found


def _holds_empty(form: Form, nullable: set[str]) -> bool:
    if isinstance(form, Name):
        return form.name in nullable
    if isinstance(form, Series):
        return all(_holds_empty(part, nullable) for part in form.parts)
    if isinstance(form, Options):
        return any(_holds_empty(part, nullable) for part in form.parts)
    return isinstance(form, Times) and (form.low == 0 or _holds_empty(form.body, nullable))


class _Component:
    """The rules that begin with one another.

    Attributes:
        bases: for each rule, its texts (not empty) that begin with no rule of the component.
        steps: for each rule j, the (rule i, what follows) with `A_i = A_j what follows`.
    """

    def __init__(self, owner: LeftRecursion, group: list[str]) -> None:
        self._owner = owner
        self._group = frozenset(group)
        self.bases: dict[str, Form] = {}
        self.steps: dict[str, dict[str, Form]] = {name: {} for name in group}
        self._paths: dict[tuple[str, str], Form] = {}
        self._open: list[tuple[str, str]] = []
        for name in group:
            self._read(name)

    def _read(self, name: str) -> None:
        form = self._owner.rules[name]
        bases: list[Form] = []
        for part in form.parts if isinstance(form, Options) else (form,):
            if not self._owner.begins_within(part, self._group):
                bases.append(self._owner.filled(part))
                continue
            for lead, rest in self._owner.leads(part):
                if isinstance(lead, Name) and lead.name in self._group:
                    known = self.steps[lead.name].get(name, NEVER)
                    self.steps[lead.name][name] = options([known, rest])
                else:
                    bases.append(series([self._owner.filled(lead), rest]))
        self.bases[name] = options(bases)

    def rewrite(self) -> None:
        owner = self._owner
        for name in sorted(self._group):
            filled = options(
                series([base, self._path(first, name)])
                for first, base in self.bases.items()
                if base != NEVER and name in self._reached(first)
            )
            if name in owner.nullable:
                owner.add(f"{name} filled", filled, False)
                filled = options([Name(f"{name} filled"), NOTHING])
            owner.rules[name] = filled
        while self._open:
            self._define(*self._open.pop())

    def _reached(self, first: str) -> set[str]:
        seen, todo = {first}, [first]
        while todo:
            for following in self.steps[todo.pop()]:
                if following not in seen:
                    seen.add(following)
                    todo.append(following)
        return seen

    def _unchanged(self, first: str) -> list[str]:
        """The rules that hold whatever `first` holds, itself among them."""
        seen = [first]
        for name in seen:
            seen += [
                following
                for following, rest in self.steps[name].items()
                if following not in seen and self._owner.is_nullable(rest)
            ]
        return seen

    def _path(self, first: str, last: str) -> Form:
        """What may follow a text of `first` so that both are a text of `last`."""
        key = (first, last)
        if key in self._paths:
            return self._paths[key]
        steps = self.steps[first]
        if first == last and len(self._group) == 1:
            path = times(self._owner.filled(steps.get(first, NEVER)), 0, None)
        else:
            name = f"{first} up to {last}"
            self._owner.add(name, NEVER, last in self._unchanged(first))
            self._open.append(key)
            path = Name(name)
        self._paths[key] = path
        return path

    def _define(self, first: str, last: str) -> None:
        same = self._unchanged(first)
        ways: list[Form] = [NOTHING] if last in same else []
        for name in same:
            for following, rest in self.steps[name].items():
                step = self._owner.filled(rest)
                if step != NEVER and last in self._reached(following):
                    ways.append(series([step, self._path(following, last)]))
        self._owner.rules[f"{first} up to {last}"] = options(ways)
