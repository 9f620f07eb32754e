"""Scores of suites in float32 equal plain forwards of transformers on the default model.

The long tests read `data/` of the folder that SGC_SHARED names (default: `shared` beside the
checkout), and skip when it is absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from support.local import backend

from benchmarks.common.suite_choices import Choice, run_suite
from benchmarks.eval_scores import TOLERANCE, compare, picked_by, reference_of
from sgc.eval.data import BUILTIN
from sgc.eval.registry import find_suite
from sgc.eval.suite import LoadOptions, Row
from sgc_runtime.backends.local import LocalBackend
from sgc_runtime.models import DEFAULT_MODEL

SHARED = Path(os.environ.get("SGC_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SUITES = ("hellaswag", "mmlu")
Logprobs = Callable[[str, Sequence[str]], list[list[float]]]

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def reference() -> Logprobs:
    return reference_of(DEFAULT_MODEL)


@pytest.fixture(scope="module")
def local() -> Iterator[LocalBackend]:
    with backend(DEFAULT_MODEL, kv_tokens=12_000) as made:
        yield made


def check(
    name: str, data: Path, options: LoadOptions, local: LocalBackend, reference: Logprobs
) -> None:
    suite, limit = find_suite(name), options.limit
    rows = suite.load(data / suite.folder, options)
    assert len(rows) == limit
    found = compare(run_suite(suite, rows, local), reference)
    assert found["scores"] == 4 * len(rows)
    assert found["largest_difference"] < TOLERANCE
    assert found["equal_answers"] == len(rows), found


@pytest.mark.parametrize("name", SUITES)
def test_some_builtin_rows(name: str, local: LocalBackend, reference: Logprobs) -> None:
    check(name, BUILTIN, LoadOptions(3, shots=4), local, reference)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", SUITES)
def test_200_rows(name: str, local: LocalBackend, reference: Logprobs) -> None:
    if not (SHARED / "data" / name).is_dir():
        pytest.skip(f"the data are not here: {name}")
    check(name, SHARED / "data", LoadOptions(200), local, reference)


def test_three_ways_to_pick_an_answer() -> None:
    """Token means -1, -2; sums -6, -4; per character -6/2, -4/8: each way as worked out by hand."""
    row = Row("1", {}, " long one")
    choice = Choice(row, "Q:", (" ab", " long one"), (-1.0, -2.0), " ab", 0.0)
    found = picked_by([choice], [(6, 2)])
    accuracies = {name: figures["accuracy"] for name, figures in found.items()}
    assert accuracies == {"suite": 0.0, "token mean": 0.0, "acc": 1.0, "acc_norm": 1.0}
