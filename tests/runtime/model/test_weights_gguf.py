"""Models from GGUF files: kinds of quantisation, layout of heads, rope, damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from support.gguf import Kind, write_gguf
from support.model import SIZES, Runner, hf_logits, tiny_model

from sgc_ir.errors import ModelError
from sgc_runtime.model.gguf_file import open_gguf
from sgc_runtime.model.loader import load_model
from sgc_runtime.model.weights_gguf import load_gguf_tensor

IDS = [(7 * i * i + 3) % 90 + 3 for i in range(40)]


def check(path: Path, model: transformers.PreTrainedModel) -> None:
    runner = Runner(load_model(path, torch.float32))
    (logits,) = runner.step([(runner.sequence(IDS), len(IDS))])
    torch.testing.assert_close(logits, hf_logits(model, IDS), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "kind",
    [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1],
    ids=lambda kind: kind.name,
)
def test_kinds_that_can_be_written(kind: Kind, tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {**SIZES, "intermediate_size": 64, "num_hidden_layers": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes)).eval()
    check(write_gguf(tmp_path / "m.gguf", model, kind), model)


# Where the float16 scales of a block lie (in bytes): random ones would be infinite now and then.
_SCALES = {Kind.Q2_K: (80, 82), Kind.Q3_K: (108,), Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2)}
_SCALES |= {Kind.Q6_K: (208,), Kind.IQ4_XS: (0,)}


@pytest.mark.parametrize("kind", _SCALES, ids=lambda kind: kind.name)
def test_kinds_that_can_only_be_read(kind: Kind, tmp_path: Path) -> None:
    per_block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.random.default_rng(0).integers(0, 256, (6, block_bytes), np.uint8)
    for at in _SCALES[kind]:
        blocks[:, at : at + 2] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
    stored = blocks.reshape(3, 2 * block_bytes)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("x", stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = open_gguf(tmp_path / "m.gguf")
    loaded = load_gguf_tensor(file, file.tensors["x"])
    assert loaded.shape == (3, 2 * per_block)
    assert np.array_equal(loaded.numpy(), gguf.quants.dequantize(stored, kind))


@pytest.mark.parametrize(
    "name",
    ["llama tied, biases, one kv head, wide heads", "qwen2", "qwen3", "linear rope", "yarn rope"],
)
def test_family(name: str, tmp_path: Path) -> None:
    """Biases, tied output, norms of heads; pairs of rows are put apart for llama only."""
    model = tiny_model(name)
    rope = model.config.rope_parameters
    metadata: dict[str, Any] = {}
    if rope["rope_type"] != "default":
        metadata["llama.rope.scaling.type"] = rope["rope_type"]
        metadata["llama.rope.scaling.factor"] = rope["factor"]
        metadata["llama.rope.scaling.original_context_length"] = rope.get(
            "original_max_position_embeddings"
        )
    check(write_gguf(tmp_path / "m.gguf", model, metadata=metadata), model)


def test_divided_frequencies(tmp_path: Path) -> None:
    """Llama 3's rope comes as a tensor of divisors."""
    model = tiny_model("llama3 rope")
    base = 10_000.0 ** -torch.linspace(0, 1, 5)[:4]
    divisors = (base / model.model.rotary_emb.inv_freq).numpy()
    check(
        write_gguf(tmp_path / "m.gguf", model, extra={"rope_freqs.weight": divisors}),
        model,
    )


def test_a_window_is_honoured(tmp_path: Path) -> None:
    model = tiny_model("mistral")
    metadata = {"llama.attention.sliding_window": 9}
    check(write_gguf(tmp_path / "m.gguf", model, metadata=metadata), model)


def test_config(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "tiny-chat.gguf",
        tiny_model("qwen2"),
        metadata={"tokenizer.ggml.eot_token_id": 5},
    )
    loaded = load_model(path)
    assert loaded.name == "tiny-chat"
    assert loaded.config.eos_token_ids == (2, 5)
    assert loaded.config.max_positions == 256
    assert loaded.config.vocab_size == 97
    assert not loaded.config.tie_embeddings


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"general.architecture": "gemma3"}, "architecture 'gemma3' is not supported"),
        ({"llama.block_count": None}, "block_count is None, expected a positive integer"),
        ({"llama.attention.head_count": "four"}, "head_count is 'four'"),
        ({"llama.expert_count": 8}, "mixtures of experts"),
        ({"llama.rope.scaling.type": "longrope"}, "'longrope' is not supported"),
        ({"llama.rope.dimension_count": 4}, "partial rotary"),
        ({"llama.feed_forward_length": 50}, r"mlp\.(gate|up|down)_proj.weight has shape"),
        ({"llama.block_count": 2**24}, "block_count is 16777216, expected at most 10000"),
        ({"llama.block_count": 4}, r"lacks tensors model\.layers\.3\..* and \d more"),
        ({"llama.block_count": 2}, r"has unexpected tensors model\.layers\.2"),
    ],
)
def test_wrong_metadata(metadata: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_model("llama"), metadata=metadata)
    with pytest.raises(ModelError, match=words) as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_tensors(tmp_path: Path) -> None:
    model = tiny_model("llama")
    path = write_gguf(tmp_path / "a.gguf", model, leave_out=("blk.1.attn_k.weight",))
    with pytest.raises(
        ModelError, match=r"lacks tensors model\.layers\.1\.self_attn\.k_proj\.weight"
    ):
        load_model(path)
    path = write_gguf(
        tmp_path / "b.gguf", model, extra={"blk.0.moe.weight": np.zeros((2, 32), "f")}
    )
    with pytest.raises(ModelError, match=r"unexpected tensors blk\.0\.moe\.weight"):
        load_model(path)


def test_unknown_quantisation(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tiny_model("llama"))
    data = bytearray(path.read_bytes())
    name = b"blk.0.ffn_up.weight"
    kind_at = data.index(name) + len(name) + 4 + 2 * 8
    data[kind_at : kind_at + 4] = (999).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"blk\.0\.ffn_up\.weight is quantised as number 999"):
        load_model(path)
    data[kind_at : kind_at + 4] = int(Kind.I32).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ModelError, match="quantised as I32"):
        load_model(path)


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write_gguf(tmp_path / "m.gguf", tiny_model("qwen3")).read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 4, 6, 20, 40, *range(100, len(whole) - 64, len(whole) // 23)):
        cut.write_bytes(whole[:length])
        with pytest.raises(ModelError, match=r"cut\.gguf") as caught:
            load_model(cut)
        assert "\n" not in str(caught.value)
