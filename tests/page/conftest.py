"""A browser and pages for the tests of this folder, made once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.browser import chromium
from support.page_run import PageRun, page_run


@pytest.fixture(scope="module")  # while it is open an event loop runs in this thread, so briefly
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> PageRun:
    return page_run(tmp_path_factory.mktemp("page"))
