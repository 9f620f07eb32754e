"""The report as one HTML page that loads nothing else: its pictures, and the text of `report.md`.

What comes from suites, rows and conditions is escaped, and a policy in the page lets only its own
style and script act, by their hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any

from sgc.eval.charts import charts
from sgc.eval.page_charts import figure
from sgc.page.document import markup_text, policy_source

_HOLE = re.compile(r"\{\{([A-Z]+)\}\}")
_NUMBER = re.compile(r"[-+]?[\d.,]+( ?%|/s)?( \(.*\))?|-")
_CELLS = re.compile(r"(?<!\\)\|")
_LONG = 40  # characters of a cell whose lines may break


def report_page(report: Mapping[str, Any], text: str) -> str:
    """The page of a report.

    Args:
        text: of `report.md`: headings, tables, paragraphs, and notices in bold.
    """
    style, script = _asset("report.css"), _asset("report.js")
    model = report["conditions"].get("model") or "a model"
    policy = (
        f"default-src 'none'; script-src '{policy_source(script)}'; "
        f"style-src '{policy_source(style)}'; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "TITLE": markup_text(f"Evaluation of {model}"),
        "POLICY": policy,
        "STYLE": style,
        "BODY": "\n".join(_body(report, text)),
        "SCRIPT": script,
    }
    return _HOLE.sub(lambda hole: parts[hole[1]], _asset("report.html"))


def _body(report: Mapping[str, Any], text: str) -> Iterator[str]:
    pictures = "\n".join(figure(chart) for chart in charts(report))
    before, *sections = re.split(r"^## ", "\n" + text, flags=re.MULTILINE)
    lines = [line for line in before.splitlines() if not line.startswith("# ")]
    yield from (_notice(line) for line in lines if line.startswith("**"))
    yield f'<div class="charts">\n{pictures}\n</div>'
    yield _section("Figures", [line for line in lines if not line.startswith("**")])
    for section in sections:
        title, _, rest = section.partition("\n")
        yield _section(title, rest.splitlines())


def _notice(line: str) -> str:
    return f'<p class="notice">{markup_text(line.strip("*"))}</p>'


def _section(title: str, lines: Sequence[str]) -> str:
    parts = [f"<section><h2>{markup_text(title)}</h2>"]
    for is_table, block in groupby(lines, key=lambda line: line.startswith("|")):
        found = [line for line in block if line.strip()]
        parts += [_table(found)] if is_table else [_line(line) for line in found]
    return "\n".join([*parts, "</section>"])


def _line(line: str) -> str:
    if line.startswith("### "):
        return f"<h3>{markup_text(line[4:])}</h3>"
    return f"<p>{markup_text(line)}</p>"


def _table(lines: Sequence[str]) -> str:
    head, _, *rows = [_cells(line) for line in lines]
    is_left = [
        at == 0 or not all(_NUMBER.fullmatch(row[at]) for row in rows if at < len(row))
        for at in range(len(head))
    ]
    parts = ['<div class="scroll" tabindex="0"><table>', "<thead>", _row("th", head, is_left)]
    parts += ["</thead>", "<tbody>", *(_row("td", row, is_left) for row in rows)]
    return "\n".join([*parts, "</tbody>", "</table></div>"])


def _cells(line: str) -> list[str]:
    parts = _CELLS.split(line.strip())[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _row(tag: str, cells: Sequence[str], is_left: Sequence[bool]) -> str:
    made = []
    for at, cell in enumerate(cells):
        left = at >= len(is_left) or is_left[at]
        kinds = [*(["left"] if left else []), *(["long"] if len(cell) > _LONG else [])]
        attribute = f' class="{" ".join(kinds)}"' if kinds else ""
        made.append(f"<{tag}{attribute}>{markup_text(cell)}</{tag}>")
    return f"<tr>{''.join(made)}</tr>"


@cache
def _asset(name: str) -> str:
    return files("sgc.eval").joinpath("assets", name).read_text("utf-8")
