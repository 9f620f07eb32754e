"""Makes a model folder on the spot: random weights in bfloat16 beside a given tokenizer.

Weights are drawn on the device, layer by layer, and written as one safetensors shard a layer; in a
folder in memory (`/dev/shm`) that takes a few seconds for 8 billion of them.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu.shapes import BYTES, ModelShape

_SPREAD = 0.02  # standard deviation of the weights
_WRITERS = 4  # shards at a time
_CONTROL = 3  # GGUF's type of control tokens
_CONFIG = "tokenizer_config.json"


def make_model(
    folder: Path, shape: ModelShape, tokenizer: Path, device: torch.device, seed: int = 0
) -> Path:
    """Write config, tokenizer and weights into `folder`; a model that is there stays.

    Args:
        tokenizer: a folder with a `tokenizer.json`, or a GGUF file.
    """
    done = folder / "made.json"
    if done.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    vocab, eos = write_tokenizer(folder, tokenizer)
    _dump(folder / "config.json", shape.config(vocab, eos))
    _dump(folder / "generation_config.json", {"eos_token_id": eos})
    shards = {f"layer-{i:02}": _layer_shapes(shape, i) for i in range(shape.layers)}
    shards["ends"] = _end_shapes(shape, vocab)
    files = {name: f"model-{name}.safetensors" for name in shards}
    with ThreadPoolExecutor(_WRITERS) as pool:
        jobs = [
            pool.submit(_write_shard, folder / files[name], shapes, device, seed + i)
            for i, (name, shapes) in enumerate(shards.items())
        ]
        for job in jobs:
            job.result()
    places = {tensor: files[name] for name, shapes in shards.items() for tensor in shapes}
    _dump(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": places})
    _dump(done, {"seed": seed})
    return folder


def write_tokenizer(folder: Path, source: Path) -> tuple[int, int | None]:
    """Write or copy a byte-level tokenizer; its number of ids, and the one that ends a text."""
    if source.is_dir():
        for name in ("tokenizer.json", _CONFIG):
            if (source / name).exists():
                shutil.copyfile(source / name, folder / name)
        config = json.loads((folder / _CONFIG).read_text(encoding="utf-8"))
        data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    else:
        data, config = _from_gguf(source)
        _dump(folder / "tokenizer.json", data)
        _dump(folder / _CONFIG, config)
    ids = {**data["model"]["vocab"], **{t["content"]: t["id"] for t in data["added_tokens"]}}
    return max(ids.values()) + 1, ids.get(config.get("eos_token"))


def _from_gguf(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A plain byte-level BPE. What converts GGUF files in general puts a decoder of SentencePiece
    into it, by which grammar libraries misread the vocabulary."""
    from sgc_runtime.model.gguf_file import open_gguf

    facts = {
        name.removeprefix("tokenizer.ggml."): value
        for name, value in open_gguf(file).metadata.items()
    }
    tokens: list[str] = list(facts["tokens"])
    controls = [i for i, kind in enumerate(facts["token_type"]) if kind == _CONTROL]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    level |= {"use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_control_token(i, tokens[i]) for i in controls],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, level]},
        "post_processor": None,
        "decoder": level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": list(facts["merges"]),
        },
    }
    return data, _tokenizer_config(tokens, facts)


def _tokenizer_config(tokens: list[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    named = {f"{name}_token": facts.get(f"{name}_token_id") for name in ("bos", "eos")}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: tokens[token_id] for name, token_id in named.items() if token_id is not None},
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 16_384,
    }


def _control_token(token_id: int, text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": text, **flags, "special": True}


def _layer_shapes(shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
    stem = f"model.layers.{layer}."
    norms = ("input_layernorm", "post_attention_layernorm")
    return {
        **{f"{stem}{name}.weight": size for name, size in shape.layer_products().items()},
        **{f"{stem}{name}.weight": (shape.hidden,) for name in norms},
    }


def _end_shapes(shape: ModelShape, vocab: int) -> dict[str, tuple[int, ...]]:
    return {
        "model.embed_tokens.weight": (vocab, shape.hidden),
        "model.norm.weight": (shape.hidden,),
        "lm_head.weight": (vocab, shape.hidden),
    }


def _write_shard(
    path: Path, shapes: Mapping[str, tuple[int, ...]], device: torch.device, seed: int
) -> None:
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    numbers = torch.empty(sum(sizes.values()), dtype=torch.bfloat16, device=device)
    numbers.normal_(0.0, _SPREAD, generator=torch.Generator(device).manual_seed(seed))
    entries, at = {}, 0
    for name, size in sizes.items():
        if "norm" in name:
            numbers[at : at + size] = 1.0
        ends = [BYTES * at, BYTES * (at + size)]
        entries[name] = {"dtype": "BF16", "shape": list(shapes[name]), "data_offsets": ends}
        at += size
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        _on_host(numbers).view(torch.uint8).numpy().tofile(file)


def _on_host(numbers: torch.Tensor) -> torch.Tensor:
    """By way of pinned memory, which is several times faster."""
    if numbers.device.type == "cpu":
        return numbers
    host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
    return host.copy_(numbers)


def _dump(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
