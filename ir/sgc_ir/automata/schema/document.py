"""One schema document: its schemas by number, where each stands, and what references name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from sgc_ir.automata.schema.cells import ANYTHING, NOTHING, Goal
from sgc_ir.errors import ConstraintError

# Keywords whose value is one schema, a list of schemas, or a mapping of names to schemas.
ONE = frozenset(
    (
        "additionalProperties additionalItems contains else if items not propertyNames then "
        "unevaluatedItems unevaluatedProperties contentSchema"
    ).split()
)
MANY = frozenset("allOf anyOf oneOf prefixItems items".split())
NAMED = frozenset(
    "$defs definitions dependentSchemas patternProperties properties dependencies".split()
)


def pointer(*parts: str | int) -> str:
    """A JSON pointer (RFC 6901) of `parts`, as a URI fragment: `#` is the document."""
    escaped = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "#" + "".join(f"/{part}" for part in escaped)


def below(where: str, *parts: str | int) -> str:
    return where + pointer(*parts)[1:]


class Document:
    """A schema document.

    Args:
        source: plain JSON data.

    Attributes:
        lone_references: whether what stands beside `$ref` says nothing, as the drafts up to 7 want
            it. Only a document that names such a draft in `$schema` is read so.
        boolean_bounds: whether exclusiveMinimum and exclusiveMaximum are booleans, as the drafts up
            to 4 want it; likewise.

    Raises:
        ConstraintError: `$schema` names no draft from 3 on ("unsupported").
    """

    def __init__(self, source: Any) -> None:
        self.source = source
        draft = source.get("$schema", "") if isinstance(source, dict) else ""
        if draft and not (isinstance(draft, str) and _DIALECT.fullmatch(draft)):
            raise ConstraintError(
                f"the dialect {draft!r:.60} is not supported; name draft 2020-12 or draft-7, or "
                "leave $schema out",
                kind="unsupported",
                where="#/$schema",
            )
        named = _OLD_DRAFT.search(draft)
        self.lone_references = named is not None
        self.boolean_bounds = named is not None and int(named[1]) <= 4
        self._numbers: dict[int | str, int] = {}
        self._schemas: list[tuple[Any, str, str]] = []
        self._resources: dict[str, tuple[Any, str]] = {}
        self._anchors: dict[tuple[str, str], tuple[Any, str, str]] = {}
        self._dynamic: dict[str, set[str]] = {}  # pointers of the schemas by $dynamicAnchor
        self._indexed = False
        self._kept: list[Any] = []

    def goal(self, schema: Any, where: str, base: str) -> Goal:
        """The goal to meet `schema`.

        Args:
            schema: a dict or a bool.
            where: its JSON pointer.
            base: the URI that references in it are relative to.
        """
        if schema is True or schema == {}:
            return ANYTHING
        if schema is False:
            return NOTHING
        if not isinstance(schema, dict):
            raise ConstraintError(
                "a schema is an object, true or false; mend it", kind="malformed", where=where
            )
        return frozenset({(self.number(schema, where, base), True)})

    def number(self, schema: dict[str, Any], where: str, base: str) -> int:
        """The number of `schema`; small equal schemas without references have one number."""
        key: int | str = id(schema)
        found = self._numbers.get(key)
        if found is not None:
            return found
        content = _content(schema)
        if content is not None:
            found = self._numbers.get(content)
        if found is None:
            if isinstance(schema.get("$id"), str) and not schema["$id"].startswith("#"):
                base = urljoin(base, schema["$id"])
            found = len(self._schemas)
            self._schemas.append((schema, where, base))
            if content is not None:
                self._numbers[content] = found
        self._numbers[key] = found
        self._kept.append(schema)  # so that no other schema gets its id
        return found

    def schema(self, number: int) -> tuple[dict[str, Any], str, str]:
        """The schema of a number, its pointer, and its base URI."""
        return self._schemas[number]

    def resolve(self, reference: str, where: str, base: str) -> tuple[Any, str, str]:
        """The schema that `reference` names, its pointer, and its base URI.

        Raises:
            ConstraintError: it is outside the document ("unsupported") or nowhere ("malformed").
        """
        self._index()
        address, fragment = urldefrag(urljoin(base, reference) if reference else base)
        if reference.startswith("#"):
            address, fragment = urldefrag(base)[0], reference[1:]
        resource = self._resources.get(address)
        if resource is None:
            raise ConstraintError(
                f"the reference {reference!r} leaves the document; put its target into $defs",
                kind="unsupported",
                where=where,
            )
        if fragment and not fragment.startswith("/"):
            return self._anchor(address, unquote(fragment), reference, where)
        return self._walk(resource, unquote(fragment), address, reference, where)

    def resolve_dynamic(self, reference: str, where: str, base: str) -> tuple[Any, str, str]:
        """The same for `$dynamicRef`, where the target does not depend on how it was come by.

        Raises:
            ConstraintError: another schema has the same `$dynamicAnchor` ("unsupported").
        """
        found = self.resolve(reference, where, base)
        name = unquote(urldefrag(reference)[1])
        if isinstance(found[0], dict) and found[0].get("$dynamicAnchor") == name:
            if len(self._dynamic[name]) > 1:
                raise ConstraintError(
                    f"$dynamicRef to {name!r}, which several schemas are named, is not supported; "
                    "use $ref",
                    kind="unsupported",
                    where=where,
                )
        return found

    def _anchor(self, address: str, name: str, reference: str, where: str) -> tuple[Any, str, str]:
        found = self._anchors.get((address, name))
        if found is None:
            raise _lost(reference, where)
        return found

    def _walk(
        self, resource: tuple[Any, str], path: str, base: str, reference: str, where: str
    ) -> tuple[Any, str, str]:
        target, place = resource
        for part in path.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and name in target:
                target = target[name]
            elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
                target = target[int(name)]
            else:
                raise _lost(reference, where)
            place = below(place, name)
            if isinstance(target, dict) and isinstance(target.get("$id"), str):
                base = urldefrag(urljoin(base, target["$id"]))[0]
        return target, place, base

    def _index(self) -> None:
        """Find the resources ($id) and anchors of the document, once."""
        if self._indexed:
            return
        self._indexed = True
        self._resources[""] = (self.source, "#")
        stack: list[tuple[Any, str, str]] = [(self.source, "#", "")]
        while stack:
            schema, where, base = stack.pop()
            if not isinstance(schema, dict):
                continue
            base = self._register(schema, where, base)
            stack += [(child, place, base) for child, place in _children(schema, where)]

    def _register(self, schema: dict[str, Any], where: str, base: str) -> str:
        name = schema.get("$id", schema.get("id") if where == "#" else None)
        if isinstance(name, str) and name.startswith("#"):  # draft-7's way to write an anchor
            self._anchors[(base, name[1:])] = (schema, where, base)
        elif isinstance(name, str):
            base = urldefrag(urljoin(base, name))[0]
            self._resources[base] = (schema, where)
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(word), str):
                self._anchors[(base, schema[word])] = (schema, where, base)
        if isinstance(schema.get("$dynamicAnchor"), str):
            self._dynamic.setdefault(schema["$dynamicAnchor"], set()).add(where)
        return base

    def base(self) -> str:
        """The URI of the document, where it says one."""
        self._index()
        name = self.source.get("$id", self.source.get("id"))
        return urldefrag(name)[0] if isinstance(name, str) and not name.startswith("#") else ""


def _lost(reference: str, where: str) -> ConstraintError:
    return ConstraintError(
        f"the reference {reference!r} names nothing in the document; mend it",
        kind="malformed",
        where=where,
    )


def _children(schema: dict[str, Any], where: str) -> Iterator[tuple[Any, str]]:
    for word, value in schema.items():
        if word in ONE and isinstance(value, dict):
            yield value, below(where, word)
        elif word in MANY and isinstance(value, list):
            yield from ((child, below(where, word, i)) for i, child in enumerate(value))
        elif word in NAMED and isinstance(value, dict):
            yield from ((child, below(where, word, name)) for name, child in value.items())


def _content(schema: dict[str, Any]) -> str | None:
    """A text that is equal for equal schemas, of small ones that hold no schemas."""
    if len(schema) > 8 or not _FLAT.issuperset(schema):
        return None
    try:
        text = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError):
        return None
    return text if len(text) < 400 else None


_DIALECT = re.compile(
    r"https?://json-schema\.org/(draft-0[3-7]/|draft/20(19-09|20-12)/)?(hyper-)?schema#?"
)
_OLD_DRAFT = re.compile(r"json-schema\.org/draft-0([1-7])/")
_FLAT = frozenset(
    (
        "type format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength "
        "maxLength pattern const enum title description default examples"
    ).split()
)
