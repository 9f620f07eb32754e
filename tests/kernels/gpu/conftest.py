"""Set-up of the Triton kernels' tests: without a GPU they run in Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

import numpy as np
import pytest
import torch

_HAS_TRITON = importlib.util.find_spec("triton") is not None
_INTERPRET = not torch.cuda.is_available()
_NUMPY_ONLY = ("test_plan.py",)

if _HAS_TRITON and _INTERPRET and "triton" not in sys.modules:
    # Read when triton is loaded: its own functions are made then.
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_not()
    for item in items:
        here = item.path.is_relative_to(os.path.dirname(__file__))
        if here and reason and item.path.name not in _NUMPY_ONLY:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_not() -> str | None:
    if not _HAS_TRITON:
        return "triton is not installed"
    if _INTERPRET and os.environ.get("TRITON_INTERPRET") != "1":
        return "triton was loaded before its interpreter was asked for"
    return None


def _let_loops_count() -> None:
    """Have the interpreter take the bounds of loops from tensors, which numpy 2.4 refuses it."""
    from triton.runtime import interpreter

    before = interpreter._patch_lang_tensor

    def patch(tensor: Any, scope: Any) -> None:
        before(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch


if _HAS_TRITON and _INTERPRET:
    _let_loops_count()


@pytest.fixture
def products_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the interpreter's products go through their columns in order, as a GPU does; NumPy's
    order depends on the shape. Without the interpreter nothing changes."""
    if not (_HAS_TRITON and _INTERPRET):
        return
    from triton.runtime import interpreter

    def create_dot(
        self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any
    ) -> Any:
        left, right = a.data.astype(np.float32), b.data.astype(np.float32)
        total = d.data.copy()
        for k in range(left.shape[1]):
            total += left[:, k : k + 1] * right[k : k + 1, :]
        return interpreter.TensorHandle(total, d.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)
