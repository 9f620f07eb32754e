"""A grammar of schemas with the frequencies of schemas that people wrote, and instances near them.

`KINDS` counts, in 220 public schemas with 3,637 schemas in them (tool calls, Kubernetes, JSON
Schema Store, Snowplow, MCP), how many schemas say which `type`, and how many of those use which
keyword. A keyword that the schemas of a kind could use and never do stands in the table with
`RARE`: one in a hundred. Keywords are drawn independently of one another.
"""

from __future__ import annotations

import random
from typing import Any

RARE = 0  # a count of none: drawn as if it were a hundredth of the schemas of its kind
KINDS: dict[str, tuple[int, dict[str, int]]] = {
    "string": (
        1001,
        {"minLength": 68, "enum": 60, "format": 47, "pattern": 46, "maxLength": 46, "const": 38,
         "anyOf": 2, "oneOf": 1, "allOf": RARE},
    ),
    "object": (
        680,
        {"properties": 568, "required": 358, "additionalProperties": 321, "patternProperties": 32,
         "propertyNames": 11, "allOf": 7, "maxProperties": 5, "minProperties": 5, "anyOf": 5,
         "oneOf": 4, "if": 1},
    ),
    "$ref": (455, {"properties": 20}),
    "list": (
        304,
        {"maxLength": 60, "items": 29, "properties": 20, "format": 18, "minLength": 13,
         "additionalProperties": 11, "minimum": 8, "required": 6, "enum": 3,
         "patternProperties": 3, "pattern": 3, "maxItems": 1, "uniqueItems": 1},
    ),
    "array": (
        226,
        {"items": 223, "uniqueItems": 43, "minItems": 21, "maxItems": 11, "prefixItems": RARE,
         "contains": RARE},
    ),
    "none": (
        224,
        {"oneOf": 41, "enum": 33, "properties": 28, "anyOf": 25, "const": 22, "required": 19,
         "additionalProperties": 17, "allOf": 9, "pattern": 5, "if": 4, "patternProperties": 1,
         "format": 1},
    ),
    "number": (
        223,
        {"maximum": 20, "minimum": 20, "exclusiveMinimum": RARE, "exclusiveMaximum": RARE,
         "multipleOf": RARE, "enum": RARE},
    ),
    "boolean": (148, {"const": 1}),
    "integer": (
        85,
        {"minimum": 23, "maximum": 11, "exclusiveMinimum": RARE, "exclusiveMaximum": RARE,
         "multipleOf": RARE, "enum": RARE},
    ),
    "null": (10, {}),
}  # fmt: skip
ROOTS = {"object": 193, "$ref": 22, "none": 3, "list": 1, "array": 1}
LISTS = {
    ("string", "null"): 185, ("integer", "null"): 22, ("array", "null"): 22,
    ("object", "null"): 22, ("number", "null"): 15, ("boolean", "null"): 13,
    ("string", "integer"): 7, ("string", "object"): 8, ("array", "string"): 4,
}  # fmt: skip
FORMATS = {
    "uri": 25, "date-time": 6, "date": 5, "email": 2, "duration": 1, "time": 1, "hostname": 1,
    "ipv4": 1, "ipv6": 1, "uuid": 1,
}  # fmt: skip
OTHERS = {False: 242, "schema": 69, True: 38}  # values of additionalProperties
MEMBERS = {0: 8, 1: 121, 2: 184, 3: 121, 4: 67, 5: 49, 6: 22, 7: 16, 8: 44}  # 8 and more
REQUIRED = {0: 3, 1: 144, 2: 156, 3: 43, 4: 23, 5: 14}
BRANCHES = {"oneOf": {2: 39, 3: 2, 4: 3, 5: 2}, "anyOf": {1: 2, 2: 22, 3: 6, 4: 2},
            "allOf": {1: 14, 2: 1, 4: 1}}  # fmt: skip
VALUES = {1: 12, 2: 28, 3: 19, 4: 9, 5: 7, 6: 9, 7: 2, 8: 10}  # of an enum; 8 and more

NAMES = "name id type value size tags items enabled url kind version options".split()
WORDS = ["", "a", "left", "right", "on", "off", "v1.2", "red-2", "é", "item_7", "no way", 'q"']
PATTERNS = [
    "^[a-z0-9_-]+$", r"^\S+$", r"^[\w ]+$", "^https?://", "^.+$", "^[A-Z]{2}$", r"^\d+(\.\d+)*$",
    "-", "^(left|right)$", "^x_", "^[^/]*$", "[0-9]{2,4}$",
]  # fmt: skip
SAMPLES = {
    "uri": "http://a.b/c", "date-time": "2024-02-29T10:00:00Z", "date": "2024-02-29",
    "email": "a@b.c", "duration": "P1DT2H", "time": "10:00:00Z", "hostname": "a.example",
    "ipv4": "127.0.0.1", "ipv6": "::1", "uuid": "0b1f6a2e-0000-4000-8000-00000000000a",
}  # fmt: skip
_DEPTH = 4


def _drawn(rng: random.Random, counts: dict[Any, int]) -> Any:
    return rng.choices(list(counts), list(counts.values()))[0]


class Grammar:
    """Draws one schema document."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._defs = [f"d{i}" for i in range(rng.randint(1, 3))]

    def document(self) -> dict[str, Any]:
        schema = self._schema(_drawn(self._rng, ROOTS), 0, guarded=False, place=-1)
        definitions = {
            name: self._schema(self._kind(1, False), 1, guarded=False, place=i)
            for i, name in enumerate(self._defs)
        }
        return {**schema, "$defs": definitions}

    def _kind(self, depth: int, reference: bool = True) -> str:
        flat = depth >= _DEPTH
        left_out = {"object", "array", "none", "list"} if flat else set()
        kinds = {kind: count for kind, (count, _) in KINDS.items() if kind not in left_out}
        if not reference:
            del kinds["$ref"]
        return str(_drawn(self._rng, kinds))

    def _below(self, depth: int) -> dict[str, Any]:
        """The schema of a member or an item, where a reference may lead anywhere."""
        return self._schema(self._kind(depth + 1), depth + 1, guarded=True, place=0)

    def _beside(self, depth: int, guarded: bool, place: int) -> dict[str, Any]:
        """A schema of the same value: its references lead on, so that none is circular."""
        kind = self._kind(depth + 1, guarded or place + 1 < len(self._defs))
        return self._schema(kind, depth + 1, guarded, place)

    def _schema(self, kind: str, depth: int, guarded: bool, place: int) -> dict[str, Any]:
        rng = self._rng
        schema: dict[str, Any] = {}
        if kind == "$ref":
            target = rng.choice(self._defs if guarded else self._defs[place + 1 :])
            schema["$ref"] = f"#/$defs/{target}"
        elif kind == "list":
            schema["type"] = list(_drawn(rng, LISTS))
        elif kind != "none":
            schema["type"] = kind
        total, counts = KINDS[kind]
        for word, count in counts.items():
            if rng.random() * total < (count or total / 100):
                self._say(schema, word, kind, (depth, guarded, place))
        return schema

    def _say(
        self, schema: dict[str, Any], word: str, kind: str, where: tuple[int, bool, int]
    ) -> None:
        """Add a keyword."""
        rng, depth = self._rng, where[0]
        if word == "propertyNames":
            schema[word] = {"type": "string", "pattern": rng.choice(PATTERNS)}
        elif word == "if":
            for branch in ("if", "then", "else")[: rng.randint(2, 3)]:
                schema[branch] = self._beside(*where)
        elif word in BRANCHES:
            count = _drawn(rng, BRANCHES[word])
            schema[word] = [self._beside(*where) for _ in range(count)]
        elif word in ("items", "contains"):
            schema[word] = self._below(depth)
            if word == "contains" and rng.random() < 0.5:
                schema[rng.choice(["minContains", "maxContains"])] = rng.randint(1, 3)
        elif word == "prefixItems":
            schema[word] = [self._below(depth) for _ in range(rng.randint(1, 3))]
        elif word == "properties":
            names = rng.sample(NAMES, _drawn(rng, MEMBERS))
            schema[word] = {name: self._below(depth) for name in names}
        elif word == "patternProperties":
            schema[word] = {rng.choice(PATTERNS): self._below(depth)}
        elif word == "additionalProperties":
            chosen = _drawn(rng, OTHERS)
            schema[word] = self._below(depth) if chosen == "schema" else chosen
        else:
            schema[word] = self._plain(schema, word, kind)

    def _plain(self, schema: dict[str, Any], word: str, kind: str) -> Any:
        """The value of a keyword that holds no schemas."""
        rng = self._rng
        if word == "required":
            known = list(schema.get("properties", NAMES))
            return rng.sample(known, min(len(known), _drawn(rng, REQUIRED)))
        if word in ("enum", "const"):
            values = [self._value(kind) for _ in range(_drawn(rng, VALUES))]
            return values if word == "enum" else values[0]
        if word == "format":
            return _drawn(rng, FORMATS)
        if word == "pattern":
            return rng.choice(PATTERNS)
        if word == "uniqueItems":
            return True
        if word == "multipleOf":
            return rng.choice([1, 2, 5, 10, 0.5, 0.01])
        if word.startswith("min"):
            return rng.choice([0, 1, 1, 1, 2, 3])
        if word == "exclusiveMinimum":
            return rng.choice([0, 0, -1, 0.5])
        return rng.choice([1, 2, 5, 10, 100, 255, 2000])

    def _value(self, kind: str) -> Any:
        rng = self._rng
        if kind in ("number", "integer"):
            return rng.randint(-3, 40) if kind == "integer" or rng.random() < 0.7 else 2.5
        if kind == "boolean":
            return rng.random() < 0.5
        return rng.choice(WORDS) if rng.random() < 0.9 else rng.choice([None, True, 3, 2.5])


class Instances:
    """Draws values near to what a document asks for: mostly, and not by its rules, valid."""

    def __init__(self, document: dict[str, Any], rng: random.Random) -> None:
        self._document = document
        self._rng = rng

    def draw(self) -> Any:
        return self._near(self._document, 0)

    def _near(self, schema: Any, depth: int) -> Any:
        rng = self._rng
        if not isinstance(schema, dict) or depth > 6 or rng.random() < 0.04:
            return rng.choice([None, True, 0, 7, -2.5, "a", "left", [], {}, ["a"], {"id": 1}])
        if "$ref" in schema and rng.random() < 0.9:
            name = schema["$ref"].rsplit("/", 1)[1]
            return self._near(self._document["$defs"][name], depth + 1)
        for word in ("anyOf", "oneOf", "allOf"):
            if word in schema and rng.random() < 0.5:
                return self._near(rng.choice(schema[word]), depth + 1)
        if "const" in schema or "enum" in schema:
            return schema["const"] if "const" in schema else rng.choice(schema["enum"])
        return self._of_type(schema, self._type(schema), depth)

    def _type(self, schema: dict[str, Any]) -> str:
        named = schema.get("type") or ("object" if "properties" in schema else "string")
        return str(self._rng.choice(named) if isinstance(named, list) else named)

    def _of_type(self, schema: dict[str, Any], kind: str, depth: int) -> Any:
        rng = self._rng
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            size = rng.randint(0, 3)
            first = schema.get("prefixItems", [])[:size]
            others = [schema.get("items", True)] * (size - len(first))
            return [self._near(item, depth + 1) for item in [*first, *others]]
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
            return low + rng.choice([0, 0, 1, 2, 5, -1] if kind == "integer" else [0, 0.5, 3, -1])
        if kind == "string":
            sample = SAMPLES.get(schema.get("format", ""))
            if sample and rng.random() < 0.8:
                return sample
            return rng.choice(WORDS) + rng.choice(["", "", "", "http://b-12", "x_1"])
        return None if kind == "null" else rng.random() < 0.5

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        rng = self._rng
        members = schema.get("properties", {})
        required = schema.get("required", [])
        kept = [name for name in members if name in required or rng.random() < 0.4]
        kept += [name for name in required if name not in members]
        value = {name: self._near(members.get(name, True), depth + 1) for name in kept[:8]}
        for word in ("additionalProperties", "patternProperties"):
            if word in schema and rng.random() < 0.3:
                others = schema[word]
                inner = others if word[0] == "a" else next(iter(others.values()))
                value[rng.choice(["free", "x_free", "12"])] = self._near(inner, depth + 1)
        if value and rng.random() < 0.08:
            del value[rng.choice(list(value))]
        return value
