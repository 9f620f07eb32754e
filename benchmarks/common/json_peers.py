"""outlines and guidance on transformers' model, each generating objects under a regex."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.common.peer import PeerMissing


class JsonPeer(ABC):
    """A library with a regex compiled once, before it is timed.

    Args:
        model: name or path of a GGUF file.
        pattern: what is generated.
        prompt_of: the text in front of it, by name.
        max_tokens: bound of each.

    Raises PeerMissing when the library is not there or does not take the model.

    Attributes:
        tokens: generated in the last run.
        passes: those of the model in the last run.
        legal: texts of the last run that match the regex as a whole.
    """

    method: str

    def __init__(
        self, model: str, pattern: str, prompt_of: Callable[[str], str], max_tokens: int
    ) -> None:
        self._pattern, self._prompt_of, self._max_tokens = pattern, prompt_of, max_tokens
        self.tokens = self.legal = self.passes = 0
        try:
            self._tokenizer, loaded = _load(model)
            loaded.register_forward_pre_hook(self._count)
            self._make(loaded)
        except Exception as error:  # each library has its own kinds
            reason = " ".join(str(error).split())[:200]
            raise PeerMissing(f"{type(error).__name__}: {reason}") from error

    def time(self, names: Sequence[str]) -> float:
        """Seconds for all names."""
        self.passes = 0
        begin = time.perf_counter()
        texts = self._answer([self._prompt_of(name) for name in names])
        seconds = time.perf_counter() - begin
        self.legal = sum(re.fullmatch(self._pattern, text) is not None for text in texts)
        self.tokens = sum(len(self._tokenizer.encode(text)) for text in texts)
        return seconds

    def _count(self, *_: Any) -> None:
        self.passes += 1

    @abstractmethod
    def _make(self, model: Any) -> None:
        """Compile the regex for `model`."""

    @abstractmethod
    def _answer(self, prompts: list[str]) -> list[str]: ...


class OutlinesPeer(JsonPeer):
    """`Generator(model, Regex(...))`, its default backend, prompts in one padded batch."""

    method = "outlines.Generator(model, Regex), batch(), greedy"

    def _make(self, model: Any) -> None:
        outlines: Any = import_module("outlines")
        self._tokenizer.chat_template = None  # the prompt is plain text for every engine
        self._generator = outlines.Generator(
            outlines.from_transformers(model, self._tokenizer), outlines.regex(self._pattern)
        )

    def _answer(self, prompts: list[str]) -> list[str]:
        found: list[str] = self._generator.batch(
            prompts, max_new_tokens=self._max_tokens, do_sample=False
        )
        return found


class GuidancePeer(JsonPeer):
    """`gen(regex=)` with its own jumps, one program after another: it has no batches."""

    method = "guidance.models.Transformers, gen(regex=), one program at a time, greedy"

    def _make(self, model: Any) -> None:
        self._guidance: Any = import_module("guidance")
        _crop_to_lengths()
        self._model = self._guidance.models.Transformers(model, self._tokenizer, echo=False)

    def _answer(self, prompts: list[str]) -> list[str]:
        gen = self._guidance.gen("json", regex=self._pattern, temperature=0.0)
        return [(self._model + prompt + gen)["json"] for prompt in prompts]


def _crop_to_lengths() -> None:
    """Let transformers' cache be cropped to a length, as guidance does it between programs.

    Newer releases take the number of tokens to remove instead, refuse lengths above 0, and leave
    everything where the length is 0.
    """
    from transformers import DynamicCache

    crop = DynamicCache.crop
    if getattr(crop, "takes_lengths", False):
        return

    def crop_to(cache: DynamicCache, length: int) -> None:
        crop(cache, length if length < 0 else length - cache.get_seq_length())

    crop_to.takes_lengths = True  # type: ignore[attr-defined]
    DynamicCache.crop = crop_to


PEERS: dict[str, type[JsonPeer]] = {"outlines": OutlinesPeer, "guidance": GuidancePeer}


def _load(model: str) -> tuple[Any, Any]:
    import transformers

    from benchmarks.common.transformers_model import load_transformers
    from sgc_runtime.models import resolve

    path = Path(resolve(model))
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    loaded = load_transformers(path)
    loaded.generation_config.eos_token_id = tokenizer.eos_token_id
    loaded.config.eos_token_id = tokenizer.eos_token_id
    return tokenizer, loaded
