"""Every `weights` option against the plain model of the same numbers, and what is refused."""

from __future__ import annotations

import functools
import threading
from pathlib import Path

import pytest
import torch
from support.gguf import Kind, write_gguf
from support.model import Runner, saved, tiny_model

from sgc_ir.errors import BackendError, ModelError
from sgc_kernels.linear import Linear
from sgc_kernels.weights.by_rows import ByRowsLinear
from sgc_kernels.weights.grouped import GroupedLinear, can_group
from sgc_runtime.engine.options import EngineOptions
from sgc_runtime.model import products
from sgc_runtime.model.converted import Converted
from sgc_runtime.model.loader import LoadedModel, load_model
from sgc_runtime.model.mlp import DenseMlp

needs_products = pytest.mark.skipif(
    not can_group(torch.device("cpu"), torch.bfloat16), reason="no integer products here"
)
IDS = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26]
WIDE = "llama with wide layers"


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf", tiny_model(WIDE), Kind.Q4_1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tiny_model(WIDE), tmp_path_factory.mktemp("hf") / "m")


def logits(loaded: LoadedModel) -> torch.Tensor:
    runner = Runner(loaded)
    return runner.step([(runner.sequence(IDS), len(IDS))])[0]


def forms(loaded: LoadedModel) -> set[type[Linear]]:
    weights = loaded.model.weights
    found = {type(weights.head)}
    for layer in weights.layers:
        assert isinstance(layer.mlp, DenseMlp)
        products = (layer.qkv, layer.out, layer.mlp.gate_up, layer.mlp.down)
        found |= {type(form) for form in products}
    return found


def error(loaded: LoadedModel, reference: LoadedModel) -> float:
    wanted = logits(reference)
    return float((logits(loaded) - wanted).abs().max() / wanted.std())


@needs_products
def test_auto_takes_the_integers_of_a_file(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "grouped_rows", lambda bits, threads: None)
    auto = load_model(gguf_file, "bfloat16")
    assert forms(auto) == {GroupedLinear}
    reference, dense = (
        load_model(gguf_file, "float32"),
        load_model(gguf_file, "bfloat16", weights="dense"),
    )
    assert error(auto, reference) < max(0.05, 1.5 * error(dense, reference))
    for weights in ("int4", "int8"):  # the file has nothing in more bits
        assert torch.equal(logits(load_model(gguf_file, "bfloat16", weights=weights)), logits(auto))


@needs_products
def test_dense_where_the_file_holds_floats(folder: Path) -> None:
    auto, dense = (load_model(folder, "bfloat16", weights=w) for w in ("auto", "dense"))
    assert GroupedLinear not in forms(auto)
    assert torch.equal(logits(auto), logits(dense))


@needs_products
@pytest.mark.parametrize(("weights", "bound"), [("int8", 0.15), ("int4", 1.5)])
def test_rounded_on_request(weights: str, bound: float, folder: Path) -> None:
    loaded = load_model(folder, "bfloat16", weights=weights)
    assert forms(loaded) <= {GroupedLinear, ByRowsLinear}
    assert 0 < error(loaded, load_model(folder, "float32")) < bound


@needs_products
def test_both_forms_where_dense_is_faster_for_many_rows(
    gguf_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "grouped_rows", lambda bits, threads: 4)
    both = load_model(gguf_file, "bfloat16")
    assert forms(both) == {ByRowsLinear}
    dense = load_model(gguf_file, "bfloat16", weights="dense")
    qkv, dense_qkv = (m.model.weights.layers[0].qkv for m in (both, dense))
    x = torch.randn(5, 64).bfloat16()
    assert torch.equal(qkv(x), dense_qkv(x))
    assert not torch.equal(qkv(x[:4]), dense_qkv(x[:4]))


def test_shapes_that_do_not_fit_stay_dense(tmp_path: Path) -> None:
    """48 columns are no whole groups, 97 tokens no whole tiles."""
    folder = saved(tiny_model("llama"), tmp_path / "m")
    if can_group(torch.device("cpu"), torch.bfloat16):
        loaded = load_model(folder, "bfloat16", weights="int8")
        assert type(loaded.model.weights.head) is not GroupedLinear
        assert error(loaded, load_model(folder, "float32")) < 0.2


def test_float32_is_not_touched(gguf_file: Path) -> None:
    plain, dense = (load_model(gguf_file, "float32", weights=w) for w in ("auto", "dense"))
    assert forms(plain) == forms(dense)
    assert torch.equal(logits(plain), logits(dense))
    for weights in ("int4", "int8"):
        with pytest.raises(ModelError, match=f"weights={weights} needs bfloat16 on a CPU"):
            load_model(gguf_file, "float32", weights=weights)


@needs_products
@pytest.mark.parametrize("limit", [None, 4])
def test_a_kept_copy_computes_the_same(
    limit: int | None, gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "grouped_rows", lambda bits, threads: limit)
    monkeypatch.setattr(products, "Converted", functools.partial(Converted, least_bytes=1))
    plain = load_model(gguf_file, "bfloat16")
    first = load_model(gguf_file, "bfloat16", kept_in=tmp_path)
    for thread in threading.enumerate():
        if thread.name == "sgc-keep":
            thread.join()
    (copy,) = tmp_path.iterdir()
    written = copy.stat().st_ino
    monkeypatch.setattr(products, "pack", None)  # the second load has no need of it
    second = load_model(gguf_file, "bfloat16", kept_in=tmp_path)
    assert torch.equal(logits(first), logits(plain))
    assert torch.equal(logits(second), logits(plain))
    assert forms(second) == forms(plain)
    assert copy.stat().st_ino == written


def test_options() -> None:
    assert EngineOptions().weights == "auto"
    with pytest.raises(BackendError, match="weights='int3': give one of auto, dense, int4, int8"):
        EngineOptions(weights="int3")
    with pytest.raises(BackendError, match="weights=int4 with dtype=float32"):
        EngineOptions(weights="int4", dtype="float32")
