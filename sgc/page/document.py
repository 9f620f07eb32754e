"""Puts a page together: markup, style, script and data in one file that loads nothing else.

All that comes from programs, rows and traces travels as JSON, which the script shows as text and
never as markup. A policy in the page lets only its own style and script act, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

SCRIPTS = ("base", "graph", "details", "table", "load", "timeline", "main")
_HOLE = re.compile(r"\{\{([A-Z]+)\}\}")


def document(title: str, data: Mapping[str, Any]) -> str:
    """The page as HTML without lone surrogates; `data` is what the scripts of `assets` expect."""
    script = "(() => {\n'use strict';\n" + "\n".join(_asset(f"{n}.js") for n in SCRIPTS) + "})();\n"
    style = _asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{policy_source(script)}'; "
        f"style-src '{policy_source(style)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": markup_text(title),
        "POLICY": policy,
        "STYLE": style,
        "DATA": embedded(data),
        "SCRIPT": script,
    }
    return _HOLE.sub(lambda hole: parts[hole[1]], _asset("page.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that may stand within a script element: without `<`, in ASCII."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def markup_text(text: str) -> str:
    """Escaped text in ASCII; a lone surrogate, which no document may hold, becomes the replacement
    character."""
    plain = escape(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return plain.encode("ascii", "xmlcharrefreplace").decode()


def policy_source(text: str) -> str:
    """What a content security policy calls a script or style of the page."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


@cache
def _asset(name: str) -> str:
    return files("sgc.page").joinpath("assets", name).read_text("utf-8")
