"""Generation under a constraint with a model that is a function of the ids, without an engine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from support.masks import tokens_of
from support.tokenizer import Kind, save_directory
from tokenizers import Tokenizer as Encoder
from tokenizers import decoders, models, pre_tokenizers

from sgc_ir.automata.automaton import Automaton
from sgc_runtime.constraints.canonical import Canonical
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary
from sgc_runtime.sampling.healing import TokenPrefixes
from sgc_runtime.tokenizer.token_bytes import byte_alphabet
from sgc_runtime.tokenizer.tokenizer import Tokenizer, load_tokenizer

Model = Callable[[list[int]], npt.NDArray[np.float64]]
END = -1
_INNER_BLANK = re.compile("[^\u2581]\u2581")


def byte_tokenizer(folder: Path) -> Tokenizer:
    """One of 260 tokens: four control tokens, and every byte."""
    return bpe_tokenizer(folder, [])


def bpe_tokenizer(folder: Path, words: Sequence[str]) -> Tokenizer:
    """Four control tokens, every byte, and words, each made of two that are there before it."""
    letters = {byte: letter for letter, byte in byte_alphabet().items()}
    controls = [f"<control {i}>" for i in range(4)]
    names = [*controls, *(letters[byte] for byte in range(256))]
    merges: list[tuple[str, str]] = []
    for word in words:
        name = "".join(letters[byte] for byte in word.encode())
        cut = next(i for i in range(1, len(name)) if name[:i] in names and name[i:] in names)
        merges.append((name[:cut], name[cut:]))
        names.append(name)
    made = Encoder(models.BPE({name: i for i, name in enumerate(names)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(controls)
    made.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": controls[0]}))
    return load_tokenizer(folder)


def word_tokenizer(kind: Kind, folder: Path) -> Tokenizer:
    """One of `kind` that makes no token across the place before a blank, as published ones do:
    small corpora give such tokens to those that cut text nowhere else."""
    data = save_directory(kind, folder)
    merges = data["model"]["merges"]
    data["model"]["merges"] = [pair for pair in merges if not _INNER_BLANK.search("".join(pair))]
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    return load_tokenizer(folder)


class Bench:
    """What all constraints over one tokenizer share."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary(TokenTrie.of(tokenizer))
        self.canonical = Canonical(tokenizer)
        self.prefixes = TokenPrefixes(tokenizer.token_bytes, tokenizer.vocab_size)

    def planner(self, automaton: Automaton) -> Planner:
        return Planner(TokenMasks(automaton, self.vocabulary), self.canonical, self.prefixes)

    def text(self, ids: list[int]) -> bytes:
        return self.canonical.bytes_of(ids)


@dataclass
class Trace:
    """What happened: forward passes, forced and rolled-back ids, tokens that are not canonical."""

    passes: int = 0
    free: int = 0
    forced: int = 0
    rolled_back: int = 0
    exceptions: int = 0
    complete: bool = False
    steps: list[str] = field(default_factory=list)


def random_model(seed: int, vocab_size: int) -> Model:
    """Scores that depend on the ids alone, the end's first."""

    def scores(ids: list[int]) -> npt.NDArray[np.float64]:
        return np.random.default_rng([seed, *ids]).gumbel(size=vocab_size + 1)

    return scores


def take(matcher: Matcher, ids: Iterable[int]) -> None:
    for token in ids:
        matcher.accept(token)


def settle(bench: Bench, matcher: Matcher, trace: Trace) -> list[int]:
    """Apply the jumps that are due; the ids at the end that no forward pass has seen."""
    first = len(matcher.ids)
    while (jump := matcher.jump()) is not None:
        before = bench.text(matcher.ids)
        trace.forced += len(jump.ids)
        trace.rolled_back += jump.rollback
        matcher.apply(jump)
        assert bench.text(matcher.ids).startswith(before), "a jump changed the text"
        first = min(first, len(matcher.ids) - len(jump.ids))
    return matcher.ids[first:]


def first_canonical(matcher: Matcher, order: list[int]) -> int:
    """The first that is not known to be no canonical one; the first of all if none of 32 is."""
    return next((t for t in order[:32] if matcher.is_canonical(t) is not False), order[0])


def sample(matcher: Matcher, model: Model, trace: Trace) -> int:
    """Greedy: the best token of the mask that is canonical, or the end."""
    scores = model(matcher.ids)
    tokens = tokens_of(matcher.mask())
    order = tokens[np.argsort(-scores[tokens + 1], kind="stable")].tolist()
    assert order or matcher.end_allowed, "nothing may follow"
    best = first_canonical(matcher, order) if order else END
    if best == END or (matcher.end_allowed and scores[0] >= scores[best + 1]):
        return END
    trace.exceptions += matcher.is_canonical(best) is False
    trace.free += 1
    return best


def generate(bench: Bench, matcher: Matcher, model: Model, max_tokens: int = 60) -> Trace:
    """With jumps: forced ids ride along with the token behind which they come."""
    trace = Trace()
    settle(bench, matcher, trace)
    while not matcher.is_final and len(matcher.ids) < max_tokens:
        trace.passes += 1
        best = sample(matcher, model, trace)
        if best == END:
            break
        matcher.accept(best)
        settle(bench, matcher, trace)
    trace.complete = matcher.end_allowed
    return trace


def generate_singly(
    bench: Bench, make: Callable[[], Matcher], model: Model, max_tokens: int = 60
) -> list[int]:
    """Without jumps: one id a pass; the matcher is made anew behind every id that is sampled, as
    after a retraction. The ids of a jump that no pass has seen are part of the sample."""
    ids: list[int] = []  # what passes have seen
    due = settle(bench, matcher := make(), Trace())
    while True:
        if due:
            ids.append(due.pop(0))
            continue
        assert ids == matcher.ids
        matcher = make()
        take(matcher, ids)
        assert matcher.jump() is None, "the plan of a sample that has jumped"
        end = matcher.is_final or len(ids) >= max_tokens
        best = END if end else sample(matcher, model, Trace())
        if best == END:
            return ids
        matcher.accept(best)
        due = settle(bench, matcher, Trace())
        ids = matcher.ids[: len(matcher.ids) - len(due)]
