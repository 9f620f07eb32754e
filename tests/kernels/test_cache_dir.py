"""Where what is kept on a machine lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from sgc_kernels.cache_dir import cache_dir


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    monkeypatch.setenv("SGC_CACHE", "~/somewhere")
    assert cache_dir() == Path.home() / "somewhere"
    monkeypatch.setenv("SGC_CACHE", "")
    assert cache_dir() == Path("/xdg/sgc")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "sgc"
