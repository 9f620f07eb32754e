"""The default number format follows what the CPU says of itself."""

from __future__ import annotations

from types import MappingProxyType

import pytest
import torch

from sgc_runtime.model.number_format import pick_dtype

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_f": True, "avx512_bf16": True}, torch.bfloat16),
        ({"avx512_bf16": False, "amx_bf16": True}, torch.bfloat16),
        ({"architecture": "aarch64", "bf16": True}, torch.bfloat16),
        ({"avx2": True, "avx512_bf16": False, "amx_bf16": False}, torch.float32),
    ],
)
def test_default(
    capabilities: dict[str, object], expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.cpu, "get_capabilities", lambda: MappingProxyType(capabilities), raising=False
    )
    assert pick_dtype(None, CPU) == expected
    assert pick_dtype(None, torch.device("cuda")) == torch.bfloat16


def test_names() -> None:
    assert pick_dtype("float32", CPU) == torch.float32
    assert pick_dtype("float16", CPU) == torch.float16
    assert pick_dtype(torch.bfloat16, CPU) == torch.bfloat16
