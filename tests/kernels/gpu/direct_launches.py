"""Run by `test_launcher.py`: launches of each kernel by Triton and directly, told side by side.

Usage: direct_launches.py FOLDER
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))
from stand_in import StandIn

_DTYPE = torch.bfloat16


Cases = dict[str, Callable[[], object]]


def zeros(*shape: int, dtype: torch.dtype = _DTYPE) -> torch.Tensor:
    return torch.zeros(*shape, dtype=dtype)


def pointwise_cases() -> Cases:
    """Norms and activation."""
    from sgc_kernels.gpu.activation import prepared_silu_mul, silu_mul
    from sgc_kernels.gpu.norm import add_rms_norm, prepared_add_rms_norm, rms_norm

    x, residual, heads = zeros(4, 256), zeros(4, 256), zeros(4, 8, 64)
    weight, other, of_heads = zeros(256), zeros(256), zeros(64)
    odd = zeros(4 * 256 + 1)[1:].view(4, 256)  # not at a multiple of 16 bytes
    norm = prepared_add_rms_norm(x, residual, weight, 1e-5, zeros(4, 256))
    activation = prepared_silu_mul(x, zeros(4, 128))
    return {
        "norm": lambda: rms_norm(x, weight, 1e-5),
        "norm, less rows": lambda: rms_norm(x[:1], weight, 1e-6),
        "norm of heads": lambda: rms_norm(heads[:, :4], of_heads, 1e-5),
        "norm and sum": lambda: add_rms_norm(x, residual, weight, 1e-5),
        "norm of float32": lambda: rms_norm(x.float(), weight.float(), 1e-5),
        "norm at odd places": lambda: rms_norm(odd, weight, 1e-5),
        "activation": lambda: silu_mul(x),
        "prepared norm": lambda: (norm(weight), norm(other)),
        "prepared norm at odd places": lambda: norm(odd[0]),
        "prepared activation": lambda: activation(),
    }


def turn_cases() -> Cases:
    """The rotary turn, keys and values into their slots."""
    from sgc_kernels.gpu.rotary import norm_turn_and_store, prepared_turn_and_store, turn_and_store

    qkv, q, slots = zeros(4, 8, 64), zeros(4, 4, 64), zeros(4, dtype=torch.int64)
    k, v, norms = zeros(32, 2, 64), zeros(32, 2, 64), (zeros(64), zeros(64))
    table = zeros(4, 1, 64), zeros(4, 1, 64)
    rest = table[0][1:], table[1][1:]
    turn = prepared_turn_and_store(qkv, None, 0.0, table, (k, v), slots, q)
    norm_and_turn = prepared_turn_and_store(qkv, norms, 1e-5, table, (k, v), slots, q)
    return {
        "turn": lambda: turn_and_store(qkv, table, k, v, slots),
        "norm and turn": lambda: norm_turn_and_store(qkv, norms, 1e-5, table, k, v, slots),
        "slots at odd places": lambda: turn_and_store(qkv[1:], rest, k, v, slots[1:]),
        "prepared turn": lambda: (turn(v, k), turn(k, v)),
        "prepared norm and turn": lambda: norm_and_turn(v, k, *norms[::-1]),
    }


def extend_cases() -> Cases:
    """Attention of sequences with more new tokens."""
    from sgc_kernels.gpu.attention import extend

    q, out, pages = zeros(4, 4, 64), zeros(4, 4, 64), zeros(64, dtype=torch.int32)
    k, v, items = zeros(32, 2, 64), zeros(32, 2, 64), zeros(3, 8, dtype=torch.int32)
    partials = zeros(8, 4, 64, dtype=torch.float32), zeros(8, 4, dtype=torch.float32)
    none, tiles = (partials[0][:0], partials[1][:0]), extend.tiles(_DTYPE, 64)
    some = extend.prepared_items(q, k, v, pages, items, tiles[1], 0.1, None, out, none)

    def attend(tile: int, window: int | None, room: tuple[torch.Tensor, torch.Tensor]) -> None:
        extend.attend_items(q, k, v, pages, items, tiles[tile], 0.1, window, out, room)

    return {
        "extend": lambda: attend(1, None, none),
        "extend, cut": lambda: attend(2, 9, partials),
        "merge": lambda: extend.merge_partials(partials, items, out),
        "prepared extend": lambda: (some(v, k), some(k, v)),
    }


def decode_cases() -> Cases:
    """Attention of one token a row."""
    from sgc_kernels.attention.spec import AttentionShape
    from sgc_kernels.gpu.attention import decode
    from sgc_kernels.gpu.attention.items import Launch

    q, out, wider = zeros(4, 4, 64), zeros(4, 4, 64), zeros(4, 8, 64)
    k, v, pages = zeros(32, 2, 64), zeros(32, 2, 64), zeros(64, dtype=torch.int32)
    rows = decode.DecodeAttention(AttentionShape(4, 2, 64, 0.1, _DTYPE), 8, "cpu")
    arrays, launch = (q, k, v, pages, pages, pages), Launch(4, 8, 8, 8, 64, 16)
    narrow, own_form = decode._launch_narrow, rows.forms.own[launch.tokens]
    own = narrow.prepared(rows._attend_arguments(2, 8, arrays, own_form), (1, 2))
    return {
        "wide": lambda: rows._wide(arrays, launch),
        "own": lambda: rows._attend(narrow, 2, 8, (wider[:, :4], *arrays[1:]), own_form),
        "merge of rows": lambda: rows._merge(out, launch),
        "prepared own": lambda: (own(v, k), own(k, v)),
    }


def step_cases() -> Cases:
    """What a step begins with."""
    from sgc_kernels.gpu.step import fill_table, prepare_step, rotary_table
    from sgc_kernels.step import StepTensors

    numbers, step = zeros(4, 4, dtype=torch.int32), StepTensors.empty(4, torch.device("cpu"))
    whole, last = zeros(8, 128, dtype=torch.int32), zeros(8, dtype=torch.int64)
    slots, pages = zeros(4, dtype=torch.int64), zeros(64, dtype=torch.int32)
    frequencies = zeros(32, dtype=torch.float32)
    return {
        "rotary table": lambda: rotary_table(slots, frequencies, 1.0, _DTYPE),
        "prepare": lambda: prepare_step(numbers, whole, last, step),
        "fill": lambda: fill_table(numbers, pages, whole, 50),
    }


def cases() -> Iterator[tuple[str, Callable[[], object]]]:
    for some in (pointwise_cases, turn_cases, extend_cases, decode_cases, step_cases):
        yield from some().items()


def at_same_places(body: Callable[[], object]) -> Callable[[], None]:
    """`body`, whose new tensors lie at the same places each time."""
    made: dict[int, torch.Tensor] = {}
    before = torch.empty, torch.empty_like, torch.Tensor.float

    def again() -> None:
        number = itertools.count()

        def kept(how: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
            def make(*args: Any, **options: Any) -> torch.Tensor:
                return made.setdefault(next(number), how(*args, **options))

            return make

        torch.empty, torch.empty_like, torch.Tensor.float = (kept(how) for how in before)
        try:
            body()
        finally:
            torch.empty, torch.empty_like, torch.Tensor.float = before

    return again


def main() -> None:
    driver = StandIn(Path(sys.argv[1]))
    from sgc_kernels.gpu import launcher

    plain: list[Any] = []
    launch_plainly = launcher.Launcher._plainly

    def _plainly(self: launcher.Launcher, *args: Any) -> Any:
        plain.append(launch_plainly(self, *args))
        return plain[-1]

    launcher.Launcher._plainly = _plainly  # type: ignore[method-assign]
    for name, case in cases():
        body = at_same_places(case)
        launcher._devices.clear()
        body()
        kinds = list(plain[-1].src.signature.values())
        by_triton = driver.launches(body, kinds)
        launcher._devices.add(0)
        body()
        plain.clear()
        directly = driver.launches(body, kinds)
        print(name, "same" if by_triton == directly else f"{by_triton} {directly}", len(plain))
    launcher._devices.add(0)
    looked_up = driver.looked_up
    launch, form = launcher.Launcher(launcher._tell), launcher.Form(CONSTANT=1000, ABSENT=7)
    numbers = torch.zeros(24, dtype=torch.int32)
    at = numbers.data_ptr()
    for free in (1, -48):

        def tell(free: int = free) -> None:
            launch((3, 2), (None, numbers, numbers), (free, 0.5), (96, 1), form)

        told = driver.launches(tell, ["*", "*", "i32", "f", "i32"])
        print(told[0][0], told[0][2] == [at, at, free & 0xFFFFFFFF, 0x3F000000, 96])
    print(driver.looked_up - looked_up, "addresses asked about")


if __name__ == "__main__":
    main()
