"""The reference for scores of choices: its kept keys and values change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from support.local import tiny_folder

from benchmarks.common.choice_reference import ChoiceReference

ROWS = (
    ("What is the capital of France? Answer:", (" Paris", " the quick brown fox", " fox")),
    ("What is the capital of France? Answer:", (" Paris", " the quick brown fox", " fox")),
    ("What is the capital of the fox? ", ("lazy dog", "lazy fox jumps")),
    ("fox", (" is", " jumps over")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def test_rows_that_share_their_beginning_equal_whole_forwards(folder: Path) -> None:
    model = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    reference = ChoiceReference(model, tokenizer.encode)
    for prompt, choices in ROWS:
        found = reference.logprobs(prompt, choices)
        start = len(tokenizer.encode(prompt.rstrip()))
        for choice, values in zip(choices, found):
            ids = tokenizer.encode(prompt + choice)
            with torch.inference_mode():
                each = model(torch.tensor([ids])).logits[0].log_softmax(-1)
            whole = [float(each[at - 1, ids[at]]) for at in range(start, len(ids))]
            assert values == pytest.approx(whole, abs=1e-4), (prompt, choice)
