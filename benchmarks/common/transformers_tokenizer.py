"""transformers' tokenizer of the default model, from its GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
import transformers
from tokenizers import models, pre_tokenizers

from sgc_runtime.model.gguf_file import open_gguf

_CONTROL = 3  # of `tokenizer.ggml.token_type`


def default_model_tokenizer(path: Path) -> Any:
    """The file's vocabulary, merges and template with the steps that the authors'
    `tokenizer.json` has, which a GGUF file only names."""
    facts = open_gguf(path).metadata
    tokens = facts["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ")) for pair in facts["tokenizer.ggml.merges"]]
    made = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    kinds = facts["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    made.add_special_tokens(control)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, chat_template=facts["tokenizer.chat_template"]
    )
