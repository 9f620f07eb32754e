"""Models that cannot be loaded are refused in one line; those that can say what they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.model import saved, tiny_model

from sgc_ir.errors import ModelError
from sgc_runtime.model.loader import load_model
from sgc_runtime.model.number_format import cpu_has_fast_bfloat16


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return saved(tiny_model("llama"), tmp_path / "tiny-llama")


def refused(path: Path, words: str, **options: Any) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        load_model(path, **options)
    assert "\n" not in str(caught.value)


def edit_config(folder: Path, **changes: Any) -> None:
    place = folder / "config.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **changes}))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], object]) -> None:
    place = folder / "model.safetensors"
    weights = load_file(place)
    edit(weights)
    save_file(weights, place)


def test_what_a_loaded_model_says(folder: Path) -> None:
    loaded = load_model(str(folder), "bfloat16", "cpu")
    assert loaded.name == "tiny-llama"
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.model.device == torch.device("cpu")
    config = loaded.config
    assert (config.num_layers, config.num_kv_heads, config.head_dim) == (3, 2, 8)
    assert (config.vocab_size, config.max_positions) == (97, 256)


def test_default_format_is_the_fast_one(folder: Path) -> None:
    fast = torch.bfloat16 if cpu_has_fast_bfloat16() else torch.float32
    assert load_model(folder).model.dtype == fast


def test_end_of_text_ids_of_both_files(folder: Path) -> None:
    assert load_model(folder).config.eos_token_ids == (2,)
    (folder / "generation_config.json").write_text('{"eos_token_id": [7, 2, 9]}')
    edit_config(folder, eos_token_id=5)
    assert load_model(folder).config.eos_token_ids == (7, 2, 9, 5)
    (folder / "generation_config.json").write_text('{"eos_token_id": "</s>"}')
    refused(folder, r"generation_config\.json: eos_token_id is '</s>'")


def test_missing_files(folder: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nothing", "no model at .*nothing")
    (folder / "model.safetensors").unlink()
    refused(folder, "neither model.safetensors nor model.safetensors.index.json")
    (folder / "config.json").unlink()
    refused(folder, "cannot read .*config.json")


def test_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a model")
    refused(tmp_path / "notes.txt", "is not a GGUF file")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is no JSON"), ("[1]", "is not a JSON object"), ("{}", "architecture None")],
)
def test_broken_config(text: str, words: str, folder: Path) -> None:
    (folder / "config.json").write_text(text)
    refused(folder, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"architectures": ["GemmaForCausalLM"]}, "'GemmaForCausalLM' is not supported"),
        ({"architectures": None, "model_type": "mamba"}, "'mamba' is not supported"),
        ({"hidden_size": None}, "hidden_size is None, expected a positive integer"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers is '3'"),
        ({"num_attention_heads": 0}, "num_attention_heads is 0"),
        ({"num_key_value_heads": 3}, "num_key_value_heads is 3"),
        ({"head_dim": 7}, "head_dim is 7"),
        ({"rms_norm_eps": True}, "rms_norm_eps is True"),
        ({"attention_bias": 1}, "attention_bias is 1"),
        ({"hidden_act": "gelu"}, "hidden_act is 'gelu'"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantised by 'awq'"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "'longrope' is not supported"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
        ({"rope_parameters": [1]}, "rope_parameters is"),
        ({"original_max_position_embeddings": "8k"}, "original_max_position_embeddings is '8k'"),
        ({"original_max_position_embeddings": 0}, "original_max_position_embeddings is 0"),
        (
            {
                "architectures": ["Qwen2ForCausalLM"],
                "use_sliding_window": True,
                "max_window_layers": "all",
                "layer_types": None,
            },
            "max_window_layers is 'all', expected an integer",
        ),
        ({"hidden_size": 40, "head_dim": 8}, "shape"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000, expected at most"),
        ({"num_hidden_layers": 4}, r"lacks tensors model\.layers\.3\..* and 6 more"),
        ({"num_hidden_layers": 2}, r"has unexpected tensors model\.layers\.2\."),
        ({"architectures": ["Qwen2ForCausalLM"]}, r"lacks tensors .*\.bias"),
        ({"architectures": ["Qwen3ForCausalLM"]}, r"lacks tensors .*k_norm\.weight"),
    ],
)
def test_configs_that_do_not_fit(changes: dict[str, Any], words: str, folder: Path) -> None:
    edit_config(folder, **changes)
    refused(folder, words)


def test_older_spelling_of_rope(folder: Path) -> None:
    edit_config(folder, rope_parameters=None, rope_theta=5e5)
    assert load_model(folder).config.rope.theta == 5e5
    edit_config(folder, rope_scaling={"type": "linear", "factor": 4})
    rope = load_model(folder).config.rope
    assert (rope.kind, rope.factor, rope.theta) == ("linear", 4.0, 5e5)


def test_weights_that_do_not_fit(folder: Path) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    edit_weights(folder, lambda w: w.update({"model.vision.weight": torch.ones(2)}))
    refused(folder, r"has unexpected tensors model\.vision\.weight")
    edit_weights(
        folder, lambda w: (w.pop("model.vision.weight"), w.update({name: torch.ones(3, 3)}))
    )
    refused(folder, r"up_proj\.weight has shape \[3, 3\] where the config says \[48, 32\]")
    edit_weights(folder, lambda w: w.update({name: torch.ones(48, 32, dtype=torch.int8)}))
    refused(folder, r"up_proj\.weight has type torch\.int8")
    edit_weights(folder, lambda w: w.pop(name))
    refused(folder, rf"lacks tensors {name}")


def test_computed_tables_and_a_tied_head_may_be_stored(folder: Path) -> None:
    table = "model.layers.0.self_attn.rotary_emb.inv_freq"
    edit_weights(folder, lambda w: w.update({table: torch.ones(4)}))
    edit_config(folder, tie_word_embeddings=True)
    assert load_model(folder).config.tie_embeddings


def test_truncated_weights(folder: Path) -> None:
    place = folder / "model.safetensors"
    whole = place.read_bytes()
    for length in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        place.write_bytes(whole[:length])
        refused(folder, "model.safetensors is damaged or incomplete")


def test_shards(tmp_path: Path) -> None:
    folder = saved(tiny_model("llama"), tmp_path / "m", max_shard_size="20KB")
    load_model(folder)
    index = folder / "model.safetensors.index.json"
    good = index.read_text()
    index.write_text(good.replace("model-00001-of", "../model-00001-of"))
    refused(folder, "outside its directory")
    index.write_text('{"weight_map": 3}')
    refused(folder, "is no index of shards")
    index.write_text(good)
    shard = sorted(folder.glob("model-0*"))[1]
    shard.unlink()
    refused(folder, f"cannot read .*{shard.name}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dtype": "int8"}, "number format 'int8' is not supported"),
        ({"dtype": torch.float64}, "number format 'torch.float64' is not supported"),
        ({"device": "tpu9"}, "unknown device 'tpu9'"),
        ({"device": "meta"}, "device meta is not supported"),
        ({"device": f"cuda:{torch.cuda.device_count()}"}, "is not to be had"),
        ({"attention": "triton"}, "^attention=triton needs a CUDA device"),
        ({"attention": "magic"}, "^attention='magic': give one of auto"),
    ],
)
def test_options(options: dict[str, Any], words: str, folder: Path) -> None:
    refused(folder, words, **options)
