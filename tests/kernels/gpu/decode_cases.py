"""Random decode steps over trees of shared slots, and their attention in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from sgc_kernels.attention.spec import AttentionShape


@dataclass(frozen=True)
class Tree:
    """A batch: for each level, how many rows share how many tokens; then each row's own."""

    levels: tuple[tuple[int, int], ...]  # (rows a node, tokens), from the root on
    own: tuple[int, ...]  # tokens of each row below all nodes

    def rows(self) -> list[list[tuple[object, int]]]:
        """Each row's path: nodes (any key) with their tokens."""
        return [
            [*(((i, b // some), n) for i, (some, n) in enumerate(self.levels)), (("own", b), own)]
            for b, own in enumerate(self.own)
        ]


class Step:
    """Tensors of a decode step; slots that no row names hold NaN.

    Rows have room for `growth` further tokens; `lens` are the lengths before.
    """

    def __init__(
        self,
        tree: Tree,
        shape: AttentionShape,
        seed: int = 0,
        device: str = "cpu",
        growth: int = 0,
        shuffle: bool = False,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.shape, paths = shape, tree.rows()
        sizes = {key: n for path in paths for key, n in path}
        for b in range(len(paths)):
            sizes["own", b] += growth
        total = sum(sizes.values())
        order = torch.randperm(total + 19, generator=generator).to(torch.int32)
        slots_of = dict(zip(sizes, order[:total].split(list(sizes.values())), strict=True))
        if shuffle:
            mixed = torch.randperm(len(paths), generator=generator).tolist()
            paths = [paths[i] for i in mixed]
        contexts = [torch.cat([slots_of[key] for key, _ in path]) for path in paths]
        full = [len(context) for context in contexts]
        gaps = [torch.full((3,), 2**30, dtype=torch.int32)] * len(contexts)
        self.slots = torch.cat([x for both in zip(contexts, gaps, strict=True) for x in both])
        self.starts = torch.tensor(np.cumsum([0, *[n + 3 for n in full[:-1]]]), dtype=torch.int64)
        self.lens = torch.tensor([n - growth for n in full], dtype=torch.int32)
        pool = (total + 19, shape.num_kv_heads, shape.head_dim)
        self.k = torch.randn(pool, generator=generator).to(shape.dtype)
        self.v = torch.randn(pool, generator=generator).to(shape.dtype)
        self.k[order[total:].long()] = float("nan")
        self.v[order[total:].long()] = float("nan")
        size = (len(paths), shape.num_heads, shape.head_dim)
        self.q = torch.randn(size, generator=generator).to(shape.dtype)
        for name in ("slots", "starts", "lens", "k", "v", "q"):
            setattr(self, name, getattr(self, name).to(device))

    def hide_behind(self) -> None:
        """Make NaN of what lies behind the rows' lengths now."""
        for b, (start, n) in enumerate(zip(self.starts.tolist(), self.lens.tolist(), strict=True)):
            end = self.starts.tolist()[b + 1] if b + 1 < len(self.lens) else len(self.slots)
            later = self.slots[start + n : end - 3].long()
            self.k[later] = float("nan")
            self.v[later] = float("nan")

    def expected(self, window: int | None = None) -> torch.Tensor:
        """`[rows, heads, head_dim]` float64; zero for a row without tokens."""
        shape, group = self.shape, self.shape.num_heads // self.shape.num_kv_heads
        out = torch.zeros(self.q.shape, dtype=torch.float64, device=self.q.device)
        for b, (start, n) in enumerate(zip(self.starts.tolist(), self.lens.tolist(), strict=True)):
            first = 0 if window is None else max(0, n - window)
            if n == 0:
                continue
            seen = self.slots[start + first : start + n].long()
            keys = self.k[seen].double()
            values = self.v[seen].double()
            query = self.q[b].double().view(shape.num_kv_heads, group, shape.head_dim)
            scores = torch.einsum("hgd,thd->hgt", query, keys) * shape.scale
            found = torch.einsum("hgt,thd->hgd", scores.softmax(-1), values)
            out[b] = found.reshape(shape.num_heads, shape.head_dim)
        return out
