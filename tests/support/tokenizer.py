"""Tiny tokenizers of several kinds, trained on the spot and saved as model directories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Regex, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Trainable

from sgc_runtime.executor.backend import Text
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_SPLIT = LLAMA3_SPLIT.replace("{1,3}", "")

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's late, we'll see; don't stop now!",
    "In 2024 there were 1234567 of them, 42 here and 3.14159 there: aaa aaaa abab.",
    "héllo wörld, naïve café 你好世界 こんにちは 😀👍🏽 ok",
    "def code(x):\n\treturn {'a': [1, 2]}  # spaces\n\n\nuser assistant system [INST] <s>",
    "answer the question: what is the capital of France? Paris is the capital of France.",
] * 4

CHATML = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + "
    "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
CHATML_DEFAULT_SYSTEM = (
    "{%- if messages[0].role == 'system' %}\n"
    "    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}\n"
    "{%- else %}\n"
    "    {{- '<|im_start|>system\\nYou are a tiny assistant.<|im_end|>\\n' }}\n"
    "{%- endif %}\n"
    "{%- for message in messages %}\n"
    "    {%- if loop.first and message.role == 'system' %}{%- continue %}{%- endif %}\n"
    "    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n"
)
LLAMA3 = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + "
    "message['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}"
    "{{ content }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% set ns = namespace(system='') %}{% for message in messages %}"
    "{% if message['role'] == 'system' %}{% set ns.system = message['content'] + '\n\n' %}"
    "{% elif message['role'] == 'user' %}{{ '[INST] ' + ns.system + message['content'] + "
    "' [/INST]' }}{% set ns.system = '' %}"
    "{% elif message['role'] == 'assistant' %}{% generation %}{{ ' ' + message['content'] + "
    "eos_token }}{% endgeneration %}"
    "{% else %}{{ raise_exception('Only user, assistant and system roles') }}{% endif %}"
    "{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)


@dataclass(frozen=True)
class Kind:
    """A shape of tokenizer: its specials, the tokens matched whole, its template."""

    name: str
    special: tuple[str, ...]
    template: str | None
    whole: tuple[str, ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    bos_by_post_processor: bool = False


KINDS = (
    Kind("gpt2", ("<|endoftext|>",), None, config={"eos_token": "<|endoftext|>"}),
    Kind(
        "smollm",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        CHATML,
        config={"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"},
    ),
    Kind(
        "qwen2",
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        CHATML_DEFAULT_SYSTEM,
        whole=("<think>", "</think>"),
        config={"eos_token": "<|im_end|>", "add_bos_token": True},
    ),
    Kind(
        "llama-bpe",
        ("<|begin|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        LLAMA3,
        config={"bos_token": "<|begin|>", "eos_token": "<|eot_id|>"},
        bos_by_post_processor=True,
    ),
    Kind(
        "llama2",
        ("<unk>", "<s>", "</s>"),
        MISTRAL,
        config={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
        bos_by_post_processor=True,
    ),
    Kind(
        "mistral",
        ("<unk>", "<s>", "</s>", "[INST]", "[/INST]"),
        MISTRAL,
        config={"bos_token": "<s>", "eos_token": "</s>"},
        bos_by_post_processor=True,
    ),
    Kind(
        "gemma",
        ("<unk>", "<bos>", "<eos>"),
        GEMMA,
        whole=("<start_of_turn>", "<end_of_turn>", "\n\n", "\n\n\n"),
        config={"bos_token": "<bos>", "eos_token": "<eos>"},
        bos_by_post_processor=True,
    ),
)
BYTE_LEVEL = ("gpt2", "smollm", "qwen2", "llama-bpe")


def tokenizer_json(kind: Kind) -> dict[str, Any]:
    """The content of `tokenizer.json` of a freshly trained tokenizer of this kind."""
    steps, normalizer = _cutting(kind.name)
    trained = Trainable(models.BPE())
    if normalizer is not None:
        trained.normalizer = normalizer
    if steps:
        trained.pre_tokenizer = pre_tokenizers.Sequence(steps)
    byte_level = kind.name in BYTE_LEVEL
    first = [*kind.special, *kind.whole]
    if not byte_level:
        first += [f"<0x{byte:02X}>" for byte in range(256)]
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    trained.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=len(first) + (500 if byte_level else 260),
            initial_alphabet=alphabet,
            special_tokens=first,
            show_progress=False,
        ),
    )
    data: dict[str, Any] = json.loads(trained.to_str())
    data["added_tokens"] = [
        {**token, "special": token["content"] in kind.special}
        for token in data["added_tokens"]
        if token["content"] in (*kind.special, *kind.whole)
    ]
    _finish(data, kind)
    return data


def _cutting(name: str) -> tuple[list[Any], Any]:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
    blanks = normalizers.Replace(" ", "\u2581")
    if name == "smollm":
        return [pre_tokenizers.Digits(individual_digits=True), gpt2], None
    if name == "qwen2":
        return [pre_tokenizers.Split(Regex(QWEN2_SPLIT), "isolated"), byte_level], normalizers.NFC()
    if name == "llama-bpe":
        return [pre_tokenizers.Split(Regex(LLAMA3_SPLIT), "isolated"), byte_level], None
    if name == "llama2":
        return [], normalizers.Sequence([normalizers.Prepend("\u2581"), blanks])
    if name == "mistral":
        return [pre_tokenizers.Metaspace("\u2581", "first", split=False)], None
    if name == "gemma":
        return [pre_tokenizers.Split(" ", "merged_with_previous")], blanks
    return [gpt2], None


def _finish(data: dict[str, Any], kind: Kind) -> None:
    if kind.name in BYTE_LEVEL:
        data["decoder"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
        data["model"]["ignore_merges"] = kind.name == "llama-bpe"
    else:
        data["decoder"] = {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
            ],
        }
        data["model"] |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}
    if kind.bos_by_post_processor:
        bos = kind.config["bos_token"]
        ids = [token["id"] for token in data["added_tokens"] if token["content"] == bos]
        special = {"SpecialToken": {"id": bos, "type_id": 0}}
        text = {"Sequence": {"id": "A", "type_id": 0}}
        data["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [special, text],
            "pair": [special, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {bos: {"id": bos, "ids": ids, "tokens": [bos]}},
        }


def save_directory(kind: Kind, folder: Path) -> dict[str, Any]:
    """Write the tokenizer as a Hugging Face directory; gives the data of `tokenizer.json`."""
    data = tokenizer_json(kind)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **kind.config}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    if kind.template is not None:
        if kind.name == "mistral":  # the newer place
            (folder / "chat_template.jinja").write_text(kind.template, encoding="utf-8")
        else:
            config["chat_template"] = kind.template
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    return data


class Pair:
    """The same files read by sgc and by transformers."""

    def __init__(
        self, kind: Kind, folder: Path, data: dict[str, Any], ours: Tokenizer, theirs: Any
    ) -> None:
        self.kind = kind
        self.folder = folder
        self.data = data
        self.ours = ours
        self.theirs = theirs

    def __repr__(self) -> str:
        return f"Pair({self.kind.name})"


def build_pair(kind: Kind, folder: Path) -> Pair:
    from transformers import AutoTokenizer

    data = save_directory(kind, folder)
    theirs = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    return Pair(kind, folder, data, load_tokenizer(folder), theirs)


LOOK_ALIKES = (
    *("<|im_start|>", "<|im_end|>", "<s>", "</s>", "[INST]", "<|eot_id|>", "<|begin|>"),
    *("<start_of_turn>", "<end_of_turn>", "<think>", "<bos>", "<|endoftext|>", "<unk>"),
)
WORDS = (
    *("The quick", " brown", "  ", "\n", "\n\n", "\n\n\n", " 2024", "1234567", "don't", "\t x"),
    *(
        "é",
        "e\u0301",
        "你好",
        "😀",
        "👍🏽",
        "\u2581",
        "\ufffd",
        "<0x41>",
        "[IN",
        "ST]",
        "<|im_",
        "x",
    ),
)


def plain_texts() -> Any:
    """Hypothesis strategy: text of many scripts without control tokens."""
    from hypothesis import strategies as st

    piece = st.one_of(st.text(max_size=6), st.sampled_from(WORDS))
    texts = st.lists(piece, max_size=6).map("".join)
    return texts.filter(lambda text: not any(token in text for token in LOOK_ALIKES))


def tricky_texts() -> Any:
    """Hypothesis strategy: the same with control tokens' texts in between."""
    from hypothesis import strategies as st

    piece = st.one_of(plain_texts(), st.sampled_from(LOOK_ALIKES))
    return st.lists(piece, max_size=5).map("".join)


def encode_control(tokenizer: Tokenizer, text: str, *, start: bool = True) -> list[int]:
    """Ids of text in which control tokens count as such, without BOS."""
    return tokenizer.encode_pieces([Text(text, control=True)], start=start)


def encode_prompt(tokenizer: Tokenizer, pieces: Sequence[Text]) -> list[int]:
    """Ids of a whole prompt: BOS in front if the tokenizer adds it and raw text comes first."""
    first = next((piece for piece in pieces if piece.text), None)
    begin = [] if tokenizer.bos_id is None or (first and first.control) else [tokenizer.bos_id]
    return begin + tokenizer.encode_pieces(pieces)
