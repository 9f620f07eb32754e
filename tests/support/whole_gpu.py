"""Tests that look at the memory of the whole GPU."""

from __future__ import annotations

import os

import pytest

whole_gpu = pytest.mark.skipif(
    "PYTEST_XDIST_WORKER" in os.environ,
    reason="looks at the memory of the whole GPU, which other tests take meanwhile: run without -n",
)
