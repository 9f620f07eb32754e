"""The page of a report: all figures, nothing that a suite or row says acts, nothing is loaded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.browser import Opened, chromium
from support.eval_reports import ABLATIONS, report

from sgc.eval.ablation_tables import markdown as ablation_markdown
from sgc.eval.page import report_page
from sgc.eval.report import markdown

HOSTILE = '<img src=x onerror=alert(1)></script><script>alert(2)</script> {{BODY}} & "\ud800'
GROUPS = {
    name: {"rows": 7, "accuracy": 0.25, "interval": [0.1, 0.5], "scored_rows": 7}
    for name in ("anatomy", HOSTILE)
}
MADE = report(
    {
        "hellaswag": {"groups": GROUPS, "notes": HOSTILE},
        "chat-short": {"accuracy": None, "interval": None, "optimal_hit_rate": None},
    },
    {"data": "builtin", "model": HOSTILE},
) | {"ablation": ABLATIONS}


def page() -> str:
    return report_page(MADE, markdown(MADE) + "\n".join(["", *ablation_markdown(ABLATIONS)]))


class Reader(HTMLParser):
    """Elements of a page that are open and closed in order, cells of its tables, its text."""

    void = ("meta", "rect", "line", "circle", "polyline")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_it_holds_every_table_of_the_report() -> None:
    reader = Reader(page())
    assert reader.open == []
    assert ["hellaswag", "picked ending", "50.0 % (40.0 to 60.0)"] == reader.rows[1][:3]
    assert ["anatomy", "7", "25.0 % (10.0 to 50.0)"] in reader.rows
    assert ["model_sha256", "0" * 64] in reader.rows
    assert ["no-cache: no KV is kept", "0.40 (1.00 to 1.00)", "0.40"] in reader.rows
    figures = [attributes["id"] for tag, attributes in reader.seen if tag == "figure"]
    assert figures[:5] == ["accuracy", "throughput", "hit_rate", "latency", "ablations"]


def test_nothing_is_loaded_and_nothing_hostile_is_markup() -> None:
    text = page()
    text.encode()
    reader = Reader(text)
    tags = [tag for tag, _ in reader.seen]
    assert tags.count("script") == tags.count("style") == 1
    assert "img" not in tags
    for tag, attributes in reader.seen:
        assert not {"src", "href", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.findall(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", text)


def test_bars_are_as_long_as_their_figures() -> None:
    reader = Reader(page())
    start = next(i for i, (_, a) in enumerate(reader.seen) if a.get("id") == "accuracy")
    rects = [a for tag, a in reader.seen[start : start + 12] if tag == "rect"]
    assert [rect["width"] for rect in rects[:3]] == ["1000", "500.0", "200.0"]
    assert rects[2]["x"] == "400.0"


@pytest.mark.timeout(120)
def test_it_fits_a_phone_and_a_desk_in_light_and_dark(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page())
    with chromium() as browser:
        for width, dark in ((400, True), (1280, False)):
            opened = Opened(browser, file, width, dark)
            assert opened.faults == []
            assert opened.requests == [file.as_uri()]
            assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
            script = "getComputedStyle(document.documentElement).backgroundColor"
            shown = opened.page.evaluate(script)
            assert (shown == "rgb(13, 17, 23)") == dark
            opened.page.click("#theme")
            assert opened.page.evaluate(script) != shown
            for bar in opened.page.query_selector_all(".bars svg"):
                assert bar.bounding_box()["width"] > 40
            opened.page.close()
