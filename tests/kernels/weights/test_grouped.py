"""Products with grouped weights against float64 products of the same numbers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc_kernels.linear import PlainLinear
from sgc_kernels.weights.by_rows import ByRowsLinear, _measured
from sgc_kernels.weights.grouped import (
    GroupedLinear,
    GroupedWeight,
    can_group,
    fits,
    pack,
    quantize,
    stack,
)

CPU = torch.device("cpu")
needs_products = pytest.mark.skipif(
    not can_group(CPU, torch.bfloat16), reason="no products with grouped weights here"
)
FORMS = [(4, True, torch.float16), (4, True, torch.float32), (8, False, torch.float16)]
FORMS += [(8, False, torch.float32), (8, True, torch.float16), (8, True, torch.float32)]


def random_weight(
    rows: int, columns: int, bits: int, has_min: bool, kind: torch.dtype, seed: int = 0
) -> GroupedWeight:
    source = torch.Generator().manual_seed(seed)
    low, high, dtype = (0, 16, torch.uint8) if bits == 4 else (-128, 128, torch.int8)
    ints = torch.randint(low, high, (rows, columns), generator=source).to(dtype)
    scales, mins = torch.randn(2, rows, columns // 32, generator=source).to(kind)
    return GroupedWeight(bits, ints, scales, mins if has_min else None)


def exact(weight: GroupedWeight) -> torch.Tensor:
    """The weight's numbers in float64."""
    groups = weight.ints.double().view(weight.shape[0], -1, 32)
    groups = groups * weight.scales.double().unsqueeze(-1)
    if weight.mins is not None:
        groups = groups + weight.mins.double().unsqueeze(-1)
    return groups.view(weight.shape)


def assert_close(weight: GroupedWeight, x: torch.Tensor, bias: torch.Tensor | None) -> None:
    """Half a step of bfloat16, or none where float32 comes out, and float32 sums over what is
    added: integers and minimums apart."""
    narrow, wide = GroupedLinear(pack(weight), bias)(x), GroupedLinear(pack(weight), bias, True)(x)
    assert (narrow.dtype, wide.dtype) == (torch.bfloat16, torch.float32)
    assert torch.equal(wide.bfloat16(), narrow)
    wanted = x.double() @ exact(weight).T + (0 if bias is None else bias.double())
    parts = GroupedWeight(weight.bits, weight.ints.abs(), weight.scales.abs(), weight.mins)
    size = exact(parts) if weight.mins is None else exact(_all_positive(parts))
    sums = x.double().abs() @ size.T
    bound = sums * weight.shape[1] * 2**-24 + 1e-6
    assert bool(((wide.double() - wanted).abs() <= bound).all())
    assert bool(((narrow.double() - wanted).abs() <= wanted.abs() * 2**-8 + bound).all())


def _all_positive(weight: GroupedWeight) -> GroupedWeight:
    assert weight.mins is not None
    return GroupedWeight(weight.bits, weight.ints, weight.scales, weight.mins.abs())


@needs_products
@pytest.mark.parametrize(("bits", "has_min", "kind"), FORMS)
@settings(max_examples=15, deadline=None)
@given(
    tiles=st.integers(1, 5),
    groups=st.integers(1, 6),
    rows=st.integers(1, 140),
    has_bias=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_float64(
    bits: int,
    has_min: bool,
    kind: torch.dtype,
    tiles: int,
    groups: int,
    rows: int,
    has_bias: bool,
    seed: int,
) -> None:
    weight = random_weight(16 * tiles, 32 * groups, bits, has_min, kind, seed)
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 32 * groups, generator=source).bfloat16()
    bias = torch.randn(16 * tiles, generator=source) if has_bias else None
    assert_close(weight, x, bias)


@needs_products
@pytest.mark.parametrize(("bits", "has_min", "kind"), FORMS)
def test_unit_vectors_give_the_weight_itself(bits: int, has_min: bool, kind: torch.dtype) -> None:
    weight = random_weight(48, 96, bits, has_min, kind)
    got = GroupedLinear(pack(weight))(torch.eye(96).bfloat16())
    torch.testing.assert_close(got.T.double(), exact(weight), rtol=2**-8, atol=1e-6)


@needs_products
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_row_is_the_same_in_every_batch(bits: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        linear = GroupedLinear(pack(random_weight(160, 64, bits, True, torch.float16)))
        x = torch.randn(75, 64).bfloat16()
        alone = torch.cat([linear(x[i : i + 1]) for i in range(75)])
        assert torch.equal(linear(x), alone)
    finally:
        torch.set_num_threads(before)


@needs_products
def test_takes_rows_that_are_not_contiguous() -> None:
    linear = GroupedLinear(pack(random_weight(16, 32, 4, True, torch.float16)))
    x = torch.randn(32, 5).bfloat16()
    assert torch.equal(linear(x.T), linear(x.T.contiguous()))


def test_stacked_weights_keep_their_numbers() -> None:
    parts = [random_weight(16, 64, bits, m, kind, seed=bits) for bits, m, kind in FORMS]
    whole = stack(parts)
    assert whole.bits == 8
    assert torch.equal(exact(whole), torch.cat([exact(part) for part in parts]))
    narrow = stack([parts[0], parts[0]])
    assert (narrow.bits, narrow.scales.dtype) == (4, torch.float16)


@pytest.mark.parametrize(("bits", "steps"), [(4, 15), (8, 254)])
@pytest.mark.parametrize("size", [1.0, 1e-6, 1e6])
def test_rounding_errors_have_a_bound(bits: int, steps: int, size: float) -> None:
    """Half a step between neighbours, and the rounding of a float16 scale and minimum."""
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(1)) * size
    groups = weight.view(64, 3, 32)
    low = groups.amin(-1) if bits == 4 else -groups.abs().amax(-1)
    high = groups.amax(-1) if bits == 4 else groups.abs().amax(-1)
    error = (exact(quantize(weight, bits)) - weight.double()).abs().view(64, 3, 32).amax(-1)
    largest = groups.abs().amax(-1)
    assert bool((error <= (high - low) / (2 * steps) + largest * 2**-9).all())


def test_rounds_zeros_to_zeros() -> None:
    for bits in (4, 8):
        assert not bool(quantize(torch.zeros(16, 32), bits).dequantized().any())


def test_only_whole_tiles_and_groups_fit() -> None:
    assert fits(16, 32)
    assert not fits(17, 32)
    assert not fits(16, 48)


def test_other_formats_have_no_products() -> None:
    assert not can_group(CPU, torch.float32)
    assert not can_group(CPU, torch.float16)
    assert not can_group(torch.device("meta"), torch.bfloat16)


def test_choice_by_rows() -> None:
    weight = torch.ones(2, 4)
    linear = ByRowsLinear(PlainLinear(weight), PlainLinear(-weight), limit=3)
    assert [float(linear(torch.ones(n, 4))[0, 0]) for n in (1, 3, 4, 9)] == [4, 4, -4, -4]


@needs_products
def test_limit_is_a_number_of_rows_or_none() -> None:
    limit = _measured(8)
    assert limit is None or 8 <= limit <= 256
