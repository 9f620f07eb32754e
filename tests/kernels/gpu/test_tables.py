"""Tables in one transfer."""

from __future__ import annotations

import numpy as np
import torch

from sgc_kernels.gpu.attention.tables import upload_tables


def test_tables_come_as_they_are_and_begin_at_16_bytes() -> None:
    sizes = [(3, 5), (0,), (1,), (4,), (7,)]
    tables = [np.arange(np.prod(size), dtype=np.int64).reshape(size) for size in sizes]
    parts = upload_tables(tables, torch.device("cpu"))
    for part, table in zip(parts, tables, strict=True):
        assert part.dtype == torch.int32
        assert part.tolist() == table.ravel().tolist()
        assert part.storage_offset() % 4 == 0
