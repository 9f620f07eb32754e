"""The kernels of a model, compiled: one object file each."""

from __future__ import annotations

from collections.abc import Callable

from sgc_kernels.compiled.attend import make_attend, make_merge
from sgc_kernels.compiled.cut import make_count, make_fill
from sgc_kernels.compiled.elementwise import (
    make_add_norm,
    make_norm,
    make_silu_mul,
    make_turn_store,
)
from sgc_kernels.compiled.object_code import object_code
from sgc_kernels.compiled.step import Layout
from sgc_kernels.compiled.target import Format, Target


def build(form: Format, head_dim: int, group: int, target: Target) -> dict[str, bytes]:
    """Object code of all kernels by name; takes a second. Each holds one function of that name."""
    layout = Layout(target, form, head_dim, group)
    sources: dict[str, Callable[..., None]] = {
        "attend": make_attend(target, form, head_dim, group),
        "merge": make_merge(form, head_dim),
        "count": make_count(layout),
        "fill": make_fill(layout),
        "add_norm": make_add_norm(form),
        "norm": make_norm(form),
        "silu_mul": make_silu_mul(form),
        "turn_store": make_turn_store(form, head_dim),
    }
    return {name: object_code(name, source, target) for name, source in sources.items()}
