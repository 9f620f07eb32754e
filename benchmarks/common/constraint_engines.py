"""Libraries for constrained decoding behind one face: compile, mask, accept.

Each fills a packed int32 mask that it is given, as an engine would before sampling. Those that
are not installed are left out.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.common.constraint_cases import Case

Words = npt.NDArray[np.int32]
Encode = Callable[[str], list[int]]


class Session(ABC):
    """One text under a constraint."""

    @abstractmethod
    def fill(self, words: Words) -> None:
        """Write the mask of the next token into `words`."""

    @abstractmethod
    def accept(self, token: int) -> None:
        """Go on behind a token that the mask allows."""


class Constraint(ABC):
    """A compiled constraint."""

    @abstractmethod
    def session(self) -> Session:
        """A text from its beginning."""

    def num_bytes(self) -> int:
        """Memory that it takes, where the library tells; else 0."""
        return 0


class Engine(ABC):
    """A library over one vocabulary.

    Args:
        tokens: bytes of each id; none for control tokens.
        eos: the id that ends a text.
        encode: ids of a text.
    """

    interruptible = True  # whether a compile that takes too long can be broken off
    name: str
    module: str  # what must be importable

    @abstractmethod
    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None: ...

    @abstractmethod
    def compile(self, case: Case) -> Constraint:
        """Compile anew; raises what the library raises for what it does not support."""

    def num_bytes(self) -> int:
        """Memory that constraints share, where the library tells; else 0."""
        return 0


def installed() -> list[type[Engine]]:
    """The engines whose packages are here, sgc first."""
    return [engine for engine in (Sgc, LlGuidance, XGrammar, OutlinesCore) if _is_here(engine)]


def _is_here(engine: type[Engine]) -> bool:
    try:
        importlib.import_module(engine.module)
    except ImportError:
        return False
    return True


class Sgc(Engine):
    """Ours, without files on disk."""

    name, module = "sgc", "sgc_runtime.constraints.vocabulary"

    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None:
        importlib.import_module("sgc_ir.automata.schema.compile")
        from sgc_runtime.constraints.token_trie import TokenTrie
        from sgc_runtime.constraints.vocabulary import Vocabulary

        self._eos = eos
        self._tokens = list(tokens)
        self._vocabulary = Vocabulary(TokenTrie(self._tokens))

    def compile(self, case: Case) -> Constraint:
        from sgc_runtime.constraints.token_masks import TokenMasks

        return _SgcConstraint(
            TokenMasks(_automaton(case), self._vocabulary), self._tokens, self._eos
        )

    def num_bytes(self) -> int:
        return self._vocabulary.num_bytes


def _automaton(case: Case) -> Any:
    if case.kind == "regex":
        from sgc_ir.automata.regex import regex_automaton

        return regex_automaton(case.source)
    import json

    from sgc_ir.automata.schema.compile import schema_automaton

    return schema_automaton(json.loads(case.source))


class _SgcConstraint(Constraint):
    def __init__(self, masks: Any, tokens: list[bytes], eos: int) -> None:
        self._masks, self._tokens, self._eos = masks, tokens, eos

    def session(self) -> Session:
        return _SgcSession(self._masks, self._tokens, self._eos)

    def num_bytes(self) -> int:
        found: int = self._masks.automaton.num_bytes
        return found


class _SgcSession(Session):
    def __init__(self, masks: Any, tokens: list[bytes], eos: int) -> None:
        self._masks, self._tokens = masks, tokens
        self._automaton = masks.automaton
        self._state = self._automaton.start
        self._word, self._bit = eos >> 5, np.int32(np.uint32(1 << (eos & 31)).view(np.int32))

    def fill(self, words: Words) -> None:
        words[:] = self._masks.mask(self._state)
        if self._automaton.is_accepting(self._state):
            words[self._word] |= self._bit

    def accept(self, token: int) -> None:
        self._state = self._automaton.walk(self._state, self._tokens[token])


class _Named:
    """A tokenizer as llguidance wants it."""

    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None:
        self.tokens = [data or b"\xff<%d>" % i for i, data in enumerate(tokens)]
        self.special_token_ids = [i for i, data in enumerate(tokens) if not data]
        self.eos_token_id, self.bos_token_id = eos, None
        self._encode = encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text)


class LlGuidance(Engine):
    name, module = "llguidance", "llguidance"

    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None:
        import llguidance

        self._tokenizer = llguidance.LLTokenizer(
            llguidance.TokenizerWrapper(_Named(tokens, eos, encode))
        )

    def compile(self, case: Case) -> Constraint:
        from llguidance import LLMatcher

        if case.kind == "regex":
            grammar = LLMatcher.grammar_from_regex(case.source)
        else:
            grammar = LLMatcher.grammar_from_json_schema(case.source)
        matcher = LLMatcher(self._tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return _LlConstraint(matcher)


class _LlConstraint(Constraint):
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def session(self) -> Session:
        self._matcher.reset()
        return _LlSession(self._matcher)


class _LlSession(Session):
    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def fill(self, words: Words) -> None:
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)

    def accept(self, token: int) -> None:
        self._matcher.consume_token(token)


class XGrammar(Engine):
    name, module = "xgrammar", "xgrammar"

    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None:
        import xgrammar

        names = [data or b"<%d>" % i for i, data in enumerate(tokens)]
        empty = [i for i, data in enumerate(tokens) if not data and i != eos]
        for i in empty:
            names[i] = b""  # an empty name is a special token that no text holds
        info = xgrammar.TokenizerInfo(names, vocab_size=len(names), stop_token_ids=[eos])
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, case: Case) -> Constraint:
        if case.kind == "regex":
            return _XConstraint(self._compiler.compile_regex(case.source))
        return _XConstraint(self._compiler.compile_json_schema(case.source))


class _XConstraint(Constraint):
    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled

    def session(self) -> Session:
        return _XSession(self._compiled)

    def num_bytes(self) -> int:
        return int(self._compiled.memory_size_bytes)


class _XSession(Session):
    def __init__(self, compiled: Any) -> None:
        import xgrammar

        self._matcher = xgrammar.GrammarMatcher(compiled)

    def fill(self, words: Words) -> None:
        self._matcher.fill_next_token_bitmask(words[None])

    def accept(self, token: int) -> None:
        self._matcher.accept_token(token)


class OutlinesCore(Engine):
    name, module = "outlines-core", "outlines_core"
    interruptible = False

    def __init__(self, tokens: Sequence[bytes], eos: int, encode: Encode) -> None:
        from outlines_core import Vocabulary

        ids: dict[bytes, list[int]] = {}
        for i, data in enumerate(tokens):
            if data:
                ids.setdefault(data, []).append(i)
        self._vocabulary = Vocabulary(eos, ids)

    def compile(self, case: Case) -> Constraint:
        from outlines_core import Index
        from outlines_core.json_schema import build_regex_from_schema

        regex = case.source if case.kind == "regex" else build_regex_from_schema(case.source)
        return _OutlinesConstraint(Index(regex, self._vocabulary))


class _OutlinesConstraint(Constraint):
    def __init__(self, index: Any) -> None:
        self._index = index

    def session(self) -> Session:
        return _OutlinesSession(self._index)


class _OutlinesSession(Session):
    def __init__(self, index: Any) -> None:
        from outlines_core import Guide

        self._guide = Guide(index)

    def fill(self, words: Words) -> None:
        self._guide.write_mask_into(words.ctypes.data, words.size, words.itemsize)

    def accept(self, token: int) -> None:
        self._guide.advance(token, return_tokens=False)
