"""Packed products equal plain ones and keep little memory, whatever numbers of rows come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sgc_kernels.linear import PackedLinear, PlainLinear, can_pack

pytestmark = pytest.mark.skipif(
    not can_pack(torch.device("cpu"), torch.float32), reason="no packed products here"
)
_MANY_ROW_COUNTS = """
from pathlib import Path
import torch
from sgc_kernels.linear import PackedLinear

def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

torch.set_num_threads(1)
linear = PackedLinear(torch.ones(3072, 64))
with torch.inference_mode():
    linear(torch.ones(300, 64))
    before = resident_bytes()
    for rows in range(1, 300):
        linear(torch.ones(rows, 64))
print(resident_bytes() - before)
"""


@pytest.mark.parametrize("rows", [1, 7, 33])
@pytest.mark.parametrize("has_bias", [False, True])
def test_packed_equals_plain(rows: int, has_bias: bool) -> None:
    torch.manual_seed(rows)
    weight, bias = torch.randn(48, 32), torch.randn(48) if has_bias else None
    x = torch.randn(rows, 32)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(weight, bias)(x), PlainLinear(weight, bias)(x))


@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="needs Linux's /proc")
def test_memory_does_not_grow_with_the_numbers_of_rows() -> None:
    """In a process of its own: torch decides at the first product how much it keeps."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    command = [sys.executable, "-c", _MANY_ROW_COUNTS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 160 << 20  # 550 MB with the default of torch
