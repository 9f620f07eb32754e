"""Constraints over a tokenizer: what they share, and making them ahead of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from sgc_ir.params import SamplingParams
from sgc_kernels.cache_dir import cache_dir
from sgc_runtime.constraints.canonical import Canonical, Encoder
from sgc_runtime.constraints.compiler import ConstraintCompiler, Tools
from sgc_runtime.constraints.fewest import Fewest, fewest_tokens
from sgc_runtime.constraints.mask_files import MaskFiles
from sgc_runtime.constraints.token_trie import TokenSource, TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import TokenPrefixes


class ConstraintTokenizer(Encoder, TokenSource, Protocol):
    """What constraints need of a tokenizer."""


def constraint_tools(
    tokenizer: ConstraintTokenizer,
    num_ids: int | None = None,
    prefixes: TokenPrefixes | None = None,
) -> Tools:
    """What all constraints over `tokenizer` share; masks are kept in the cache's directory.

    Args:
        num_ids: ids that the model may choose (default: all).
        prefixes: those of these ids, where they are known already.
    """
    trie = TokenTrie.of(tokenizer, num_ids)
    vocabulary = Vocabulary(trie, files=MaskFiles(cache_dir() / "masks"))
    known = prefixes or TokenPrefixes(tokenizer.token_bytes, len(trie.tokens))
    return Tools(vocabulary, Canonical(tokenizer), known)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made of one constraint.

    Attributes:
        states: how many have their mask.
        kept: whether the masks are on disk.
        seconds: wall-clock time that it took.
        fewest: tokens of the shortest legal text.
    """

    states: int
    kept: bool
    seconds: float
    fewest: Fewest


class Preparation:
    """Compiles constraints and makes their first masks, for runs to find on disk.

    Args:
        tokenizer: of the model that will run.
        seconds: how long masks of one constraint may take.
        states: for how many states of one constraint masks are made.
    """

    def __init__(
        self, tokenizer: ConstraintTokenizer, seconds: float = 2.0, states: int = 1024
    ) -> None:
        self._tools = constraint_tools(tokenizer)
        self._compiler = ConstraintCompiler(lambda: self._tools)
        self._seconds, self._states = seconds, states

    def prepare(self, params: SamplingParams, most: int | None = None) -> Prepared:
        """Make the masks of the constraint of `params`, and write them.

        Args:
            most: tokens beyond which a shortest text is not looked for.

        Raises:
            ConstraintError: the constraint cannot be used.
        """
        begin = time.perf_counter()
        planner = self._compiler.submit(params).result()
        masks = planner.masks
        made = masks.warm(self._seconds, self._states)
        kept = masks.save()
        with masks.lock:
            fewest = fewest_tokens(masks.automaton, self._tools.vocabulary.trie.table, most)
        return Prepared(made, kept, time.perf_counter() - begin, fewest)
