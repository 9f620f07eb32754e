"""The file around the data: nothing of it is markup, and nothing in it leads elsewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from sgc.page.document import document, embedded

HOSTILE = '</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> {{DATA}} & "'
TEXTS = st.text(st.characters(exclude_categories=()), max_size=20) | st.just(HOSTILE)


class Reader(HTMLParser):
    """What elements a document has, and the content of each script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        last = self.tags[-1][0] if self.tags else ""
        if last == "script":
            self.scripts[-1] += data
        elif last == "title":
            self.title += data


@settings(max_examples=60)
@given(TEXTS, st.recursive(TEXTS | st.integers(), lambda inner: st.lists(inner, max_size=3)))
def test_data_comes_back_and_cannot_leave_its_script(title: str, value: object) -> None:
    expected = json.loads(json.dumps({"value": value}))  # joins surrogates that are a pair
    assert json.loads(embedded({"value": value})) == expected
    page = document(title, {"value": value})
    page.encode()
    plain = Reader(document("", {}))
    reader = Reader(page)
    assert [tag for tag, _ in reader.tags] == [tag for tag, _ in plain.tags]
    assert json.loads(reader.scripts[0]) == expected
    assert reader.scripts[1] == plain.scripts[1]


def test_a_title_is_text() -> None:
    assert Reader(document(HOSTILE, {})).title.startswith("</script><script>")
    assert "&#65533;" in document("\ud800", {})


def test_nothing_is_loaded() -> None:
    page = document("p", {})
    reader = Reader(page)
    for tag, attributes in reader.tags:
        assert not {"src", "href", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")]
    assert not re.findall(r"url\((?!#)|@import|fetch\(|XMLHttpRequest|import\(", page)
    links = set(re.findall(r"https?://[^\"' ]+", page))
    assert links == {"http://www.w3.org/2000/svg"}  # a namespace, which nobody asks for
    policy = next(a["content"] for t, a in reader.tags if t == "meta" and "http-equiv" in a)
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
