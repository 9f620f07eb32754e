"""Which number format weights and activations have."""

from __future__ import annotations

from pathlib import Path

import torch

from sgc_ir.errors import ModelError

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
# Names of torch (x86, ARM) and of /proc/cpuinfo for instructions that multiply bfloat16.
_FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16", "svebf16")


def pick_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """The format asked for; for None the default of the device.

    Raises:
        ModelError: a format that is not float32, bfloat16 or float16.
    """
    if dtype is None:
        fast = device.type != "cpu" or cpu_has_fast_bfloat16()
        return torch.bfloat16 if fast else torch.float32
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if found is None or found not in DTYPES.values():
        raise ModelError(f"number format {str(dtype)!r} is not supported: give {', '.join(DTYPES)}")
    return found


def cpu_has_fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 natively (AVX-512 BF16, AMX, ARM BF16).

    Without such instructions torch emulates the format, which is slower than float32.
    """
    capabilities = getattr(torch.cpu, "get_capabilities", None)
    if capabilities is not None:
        return any(capabilities().get(name, False) for name in _FAST_BFLOAT16)
    flags = Path("/proc/cpuinfo")
    words = set(flags.read_text().split()) if flags.is_file() else set()
    return not words.isdisjoint(_FAST_BFLOAT16)
