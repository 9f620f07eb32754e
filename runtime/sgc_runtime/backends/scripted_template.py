"""A chat template for the scripted backend, from Jinja source alone."""

from __future__ import annotations

import re

from sgc_runtime.executor.backend import ChatTemplate
from sgc_runtime.tokenizer.chat import JinjaChatTemplate

_CONTROL = re.compile(r"<\|[^|<>{}\s]+\|>|</?s>|<[a-z]+_of_[a-z]+>|\[/?[A-Z_]+\]")


def template_of(source: str) -> ChatTemplate:
    """The template of Jinja `source`; `bos_token` and `eos_token` are empty.

    There is no tokenizer that could name the control tokens: what looks like one in the source
    (`<|...|>`, `<s>`, `[INST]`) counts as one.
    """
    tokens = tuple(dict.fromkeys(_CONTROL.findall(source)))
    return JinjaChatTemplate(source, {"bos_token": "", "eos_token": ""}, tokens)
