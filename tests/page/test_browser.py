"""Pages in a real browser: they draw, tell, sort, zoom, and do nothing that a program says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.browser import Opened
from support.page_run import HOSTILE, PageRun

from sgc.page.build import inspect_page
from sgc_ir.text import parse_program

BOXES = """() => [...document.querySelectorAll("#graph .item")].map((item) => {
    const box = (found) => {
        const {x, y, width, height} = found.getBBox();
        return [x, y, width, height];
    };
    const texts = [...item.querySelectorAll("text")];
    return {kind: item.classList[1], rect: box(item.querySelector("rect")),
            texts: texts.map((text) => [text.textContent, ...box(text)])};
})"""


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("kind", ["inspect", "explain"])
def test_it_draws_itself_without_network_faults_or_overflow(
    browser: Any, run: PageRun, kind: str, width: int, dark: bool
) -> None:
    file = getattr(run, kind)
    opened = Opened(browser, file, width, dark)
    opened.page.wait_for_timeout(100)
    assert opened.faults == []
    assert opened.requests == [file.as_uri()]
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.text("h1") == "page_quiz"
    background = opened.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert (background == "rgb(13, 17, 23)") == dark
    opened.page.click("#theme")
    assert opened.page.evaluate("document.documentElement.dataset.theme") != (
        "dark" if dark else "light"
    )
    opened.page.close()


def test_labels_lie_in_their_boxes_and_boxes_beside_each_other(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    items = opened.page.evaluate(BOXES)
    assert len(items) > 20
    for item in items:
        x, y, width, height = item["rect"]
        for text, left, top, text_width, text_height in item["texts"]:
            assert x <= left, text
            assert left + text_width <= x + width + 1, text
            assert y - 1 <= top, text
            assert top + text_height <= y + height + 1, text
    plain = [item["rect"] for item in items if item["kind"] != "loop"]
    for at, (x, y, width, height) in enumerate(plain):
        for u, v, other_width, other_height in plain[at + 1 :]:
            apart = x + width <= u or u + other_width <= x
            assert apart or y + height <= v or v + other_height <= y
    opened.page.close()


def test_what_a_program_says_is_text(browser: Any, run: PageRun) -> None:
    for file in (run.inspect, run.explain):
        opened = Opened(browser, file)
        for line in opened.page.query_selector_all("#table tbody tr"):
            line.click()
        opened.page.fill("#search", "onerror")
        opened.page.wait_for_timeout(50)
        assert opened.faults == []
        assert opened.page.query_selector("img") is None
        assert len(opened.page.query_selector_all("script")) == 2
        shown = opened.page.evaluate("document.body.innerText")
        assert HOSTILE in shown
        opened.page.close()


def test_a_click_on_a_node_tells_about_it(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    opened.page.click("#graph .item.call >> nth=0")
    told = opened.text("#details")
    assert "page_quiz: g0" in told
    assert 's += question + " Answer: " + sgc.gen("first", max_tokens=4)' in told
    row = run.result["nodes"][0]
    assert f"{run.result['actual'][0]['prompt_tokens']:,}" in told
    assert f"{row['prompt_tokens'][0]:,}" in told
    chosen = opened.page.query_selector_all("#table tr.chosen")
    assert [line.query_selector("td").inner_text() for line in chosen] == ["page_quiz: g0"]
    opened.page.keyboard.press("Escape")
    assert "Choose a node" in opened.text("#details")
    assert opened.faults == []
    opened.page.close()


def test_a_row_brings_its_nodes_into_view_one_after_the_other(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    seen = []
    for _ in range(4):
        opened.page.click("#table tbody tr:has-text('f0[*]/g1')")
        chosen = opened.page.query_selector("#graph .item.chosen")
        seen.append(chosen.get_attribute("data-node"))
        inside = opened.page.evaluate(
            """(item) => { const a = item.getBoundingClientRect();
            const b = document.getElementById("graph").getBoundingClientRect();
            const beside = a.left >= b.right || a.right <= b.left;
            return !beside && a.top < b.bottom && a.bottom > b.top }""",
            chosen,
        )
        assert inside
    assert len(set(seen)) == 3
    assert seen[0] == seen[3]
    opened.page.close()


@pytest.mark.parametrize(
    ("title", "column", "key"), [("calls", 3, "calls"), ("prompt", 4, "prompt_tokens")]
)
def test_a_click_on_a_head_sorts(
    browser: Any, run: PageRun, title: str, column: int, key: str
) -> None:
    opened = Opened(browser, run.explain)
    ran = [(node[key], -at) for at, node in enumerate(run.result["actual"])]
    names = [node["node"] for node in run.result["nodes"]]
    down = [names[-at] for _, at in sorted(ran, reverse=True)]
    opened.page.click(f"#table th:has-text('{title}') button")
    assert [row[0].split(": ")[1] for row in opened.rows()] == down
    assert opened.page.get_attribute(f"#table th:nth-child({column + 1})", "aria-sort") == (
        "descending"
    )
    opened.page.click(f"#table th:has-text('{title}') button")
    up = [names[at] for _, at in sorted((number, -at) for number, at in ran)]
    assert [row[0].split(": ")[1] for row in opened.rows()] == up
    opened.page.close()


def test_search_dims_the_rest_and_enter_goes_on(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    opened.page.fill("#search", "GEN more")
    assert opened.text("#matches") == "3"
    lit = opened.page.query_selector_all("#graph .item:not(.dimmed)")
    assert len(lit) == 3
    assert [row[1] for row in opened.rows()] == ["more"]
    found = []
    for _ in range(3):
        opened.page.press("#search", "Enter")
        found.append(opened.page.get_attribute("#graph .item.chosen", "data-node"))
    assert found == [item.get_attribute("data-node") for item in lit]
    opened.page.fill("#search", "")
    assert opened.page.query_selector("#graph .item.dimmed") is None
    opened.page.close()


def test_zooming_keeps_what_is_under_the_pointer(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    page = opened.page
    page.click("#zoom-fit")
    fits = page.evaluate(
        "(() => { const v = document.getElementById('graph');"
        " return v.scrollWidth <= v.clientWidth + 1 && v.scrollHeight <= v.clientHeight + 1 })()"
    )
    assert fits
    page.click("#zoom-one")
    page.evaluate("document.getElementById('graph').scrollTo(0, 0)")
    box = page.query_selector("#graph .item.call").bounding_box()
    x, y = box["x"] + 10, box["y"] + 10
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -120)
    page.keyboard.up("Control")
    page.wait_for_timeout(50)
    after = page.query_selector("#graph .item.call").bounding_box()
    factor = after["width"] / box["width"]
    assert factor > 1.3
    assert abs(after["x"] + 10 * factor - x) < 2
    assert abs(after["y"] + 10 * factor - y) < 2
    left = page.evaluate("document.getElementById('graph').scrollTop")
    page.mouse.down()
    page.mouse.move(x, y + 40, steps=4)
    page.mouse.up()
    assert page.evaluate("document.getElementById('graph').scrollTop") == left - 40
    assert "Choose a node" in opened.text("#details")  # the end of a drag is no click
    page.close()


def test_two_thousand_nodes(browser: Any, tmp_path: Path) -> None:
    """Also further down than a screen is high they are drawn, found and sorted."""
    lines = ["program long", "graph long(q: str) {", '  %0 = Argument name="q"']
    for at in range(1000):
        lines.append(f'  %{2 * at + 1} = ConstantText text="text {at}"')
        lines.append(f'  %{2 * at + 2} = Gen name="v{at}" ordinal={at} max_tokens=4')
    program = parse_program("\n".join([*lines, "  %2001 = Return value=None vars={}", "}", ""]))
    file = tmp_path / "long.html"
    file.write_text(inspect_page(program, {}))
    opened = Opened(browser, file)
    assert len(opened.page.query_selector_all("#graph .item")) == 2001
    opened.page.fill("#search", "gen v999")
    opened.page.press("#search", "Enter")
    assert opened.page.is_visible("#graph .item.chosen")
    assert "long: g999" in opened.text("#details")
    opened.page.fill("#search", "")
    opened.page.click("#table th:has-text('node') button")
    names = [row[0] for row in opened.rows()]
    assert names[:3] == ["long: g0", "long: g1", "long: g2"]
    assert names[999:1001] == ["long: g999", "long: t1"]
    assert opened.faults == []
    opened.page.close()


def test_two_fingers_zoom(browser: Any, run: PageRun) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 900}, has_touch=True)
    page = context.new_page()
    page.goto(run.explain.as_uri())
    page.evaluate("document.getElementById('graph').scrollIntoView()")
    box = page.query_selector("#graph").bounding_box()
    touch = context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + 120

    def fingers(kind: str, apart: float) -> None:
        points = [{"x": x - apart, "y": y, "id": 1}, {"x": x + apart, "y": y, "id": 2}]
        touch.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if apart else []}
        )

    before = page.query_selector("#graph svg").bounding_box()["width"]
    fingers("touchStart", 30)
    for apart in (40, 50, 60):
        fingers("touchMove", apart)
    fingers("touchEnd", 0)
    page.wait_for_timeout(50)
    after = page.query_selector("#graph svg").bounding_box()["width"]
    assert after / before == pytest.approx(2.0, rel=0.1)
    context.close()


def test_colour_shows_which_nodes_cost_most(browser: Any, run: PageRun) -> None:
    opened = Opened(browser, run.explain)
    opened.page.select_option("#colour", "output")
    shades = opened.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("#graph .heat")].map(
        (heat) => [heat.parentElement.querySelector("text").textContent,
                   Number(heat.getAttribute("fill-opacity"))]))"""
    )
    ran = {node["name"]: node["output_tokens"] for node in run.result["actual"]}
    shown = {name.split()[-1]: shade for name, shade in shades.items()}
    assert set(shown) == {name for name, number in ran.items() if number}
    order = sorted(shown, key=lambda name: (-shown[name], name))
    assert order == sorted(shown, key=lambda name: (-ran[name], name))
    opened.page.select_option("#colour", "nothing")
    assert opened.page.query_selector("#graph .heat") is None
    opened.page.close()
