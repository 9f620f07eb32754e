"""What is packed comes back the same, to the type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgc_ir.params import CallResult, Usage
from sgc_runtime.journal.codec import pack, pack_results, unpack, unpack_results

texts = st.text(st.characters())  # half surrogate pairs among them
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(texts | st.integers(-9, 9), inner)
    ),
    max_leaves=20,
)
counts = st.integers(0, 10**6)
results = st.builds(
    CallResult,
    text=texts,
    token_ids=st.lists(st.integers(0, 2**31)),
    finish_reason=st.sampled_from(["stop", "eos", "length", "constraint", "choice"]),
    matched=st.none() | texts | st.integers(0, 10**5),
    complete=st.booleans(),
    usage=st.builds(Usage, counts, counts, counts, counts, counts),
    meta=st.dictionaries(texts, plain, max_size=3),
    pending=st.binary(max_size=3),
    residual=texts,
    rolled_back=counts,
)


def same(a: object, b: object) -> bool:
    """Equal, also in type and in the sign of zero."""
    return repr(a) == repr(b)


@given(plain)
def test_plain_data_comes_back(value: object) -> None:
    assert same(unpack(pack(value)), value)


@given(st.lists(results, max_size=3))
def test_results_come_back(given_results: list[CallResult]) -> None:
    assert same(unpack_results(pack_results(given_results)), given_results)


@pytest.mark.parametrize("value", [object(), {1, 2}, [1j], {"a": range(3)}])
def test_what_is_no_plain_data_is_named(value: object) -> None:
    with pytest.raises(TypeError, match="is no plain data"):
        pack(value)


@given(st.binary(max_size=40))
def test_other_bytes_give_a_value_error_or_a_value(data: bytes) -> None:
    try:
        unpack(data)
    except ValueError:
        pass
