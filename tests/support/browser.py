"""A real headless Chromium for tests of pages, and what is asked of a page in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser of the machine, driven by playwright; skips the test where one of them lacks."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium here (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A page of a file, and all that went wrong or left the machine while it was open."""

    def __init__(self, browser: Any, file: Path, width: int = 1280, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", lambda line: self.faults.append(f"{line.type}: {line.text}"))
        self.page.on("dialog", lambda dialog: self._dialog(dialog))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def rows(self) -> list[list[str]]:
        """Cells of the visible rows of the table, top to bottom."""
        script = """() => [...document.querySelectorAll("#table tbody tr")]
            .filter((row) => !row.hidden)
            .map((row) => [...row.cells].map((cell) => cell.innerText.split("\\n")[0]))"""
        found: list[list[str]] = self.page.evaluate(script)
        return found

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))
