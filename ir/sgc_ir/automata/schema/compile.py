"""JSON Schema to an automaton of the JSON texts whose values are valid under it."""

from __future__ import annotations

from typing import Any

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.compile import json_text
from sgc_ir.automata.digest import language_digest
from sgc_ir.automata.limits import DEFAULT_LIMITS, Limits
from sgc_ir.automata.nodes import Node
from sgc_ir.automata.pool import Pool
from sgc_ir.automata.schema.document import Document
from sgc_ir.automata.schema.emit import Emitter, Tools
from sgc_ir.automata.schema.feasible import Feasible
from sgc_ir.automata.schema.forms import Forms
from sgc_ir.automata.schema.numbers import NumberTexts
from sgc_ir.automata.schema.plans import Plans
from sgc_ir.automata.schema.size import check_size
from sgc_ir.automata.schema.strings import StringTexts
from sgc_ir.automata.schema.style import Level, style_named
from sgc_ir.errors import ConstraintError


def schema_automaton(
    schema: Any, style: str = "spaced", limits: Limits = DEFAULT_LIMITS
) -> Automaton:
    """The automaton of the JSON texts of values that are valid under `schema`.

    Args:
        schema: plain JSON data, a dict or a bool (draft 2020-12 or draft-7).
        style: white space, as `json.dumps` writes it: "compact", "spaced" or "pretty".

    Raises:
        ConstraintError: malformed, a keyword that is not supported (with its JSON pointer in
            `where`), no valid value, or a limit.
    """
    return Automaton(
        lambda pool: schema_expression(pool, schema, style), schema_digest(schema, style), limits
    )


def schema_digest(schema: Any, style: str) -> bytes:
    """Names the texts of `schema` in `style`; the order of names counts.

    Raises:
        ConstraintError: no JSON data ("malformed"), or too large ("limit").
    """
    check_size(schema)
    return language_digest("schema", style, json_text(schema))


def schema_expression(pool: Pool, schema: Any, style: str = "spaced") -> Node:
    """The JSON texts of values that are valid under `schema`, as an expression of `pool`.

    Raises:
        ConstraintError: as `schema_automaton`.
    """
    chosen = style_named(style)
    name = "s" + schema_digest(schema, style).hex()[:16]
    try:
        strings, numbers = StringTexts(pool, name), NumberTexts(pool, name)
        document = Document(schema)
        feasible = Feasible(pool, strings, numbers)
        forms = Forms(document, pool, feasible.overlap)
        feasible.connect(forms, Plans(forms, strings))
        goal = document.goal(schema, "#", "")
        if not feasible.solve(goal):
            raise ConstraintError(
                "no value is valid under the schema; mend it", kind="unsatisfiable", where="#"
            )
        emitter = Emitter(Tools(pool, name, chosen, feasible, strings, numbers))
        emitter.check()
        return emitter.value(goal, Level(0))
    except RecursionError:
        raise ConstraintError("the schema is nested too deeply; flatten it") from None
