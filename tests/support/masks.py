"""Small vocabularies, and masks by trying every token."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sgc_ir.automata.automaton import DEAD, Automaton
from sgc_kernels.masks import reference
from sgc_kernels.masks.select import select_walks
from sgc_runtime.constraints.token_masks import TokenMasks
from sgc_runtime.constraints.token_trie import TokenTrie
from sgc_runtime.constraints.vocabulary import Vocabulary

BYTES = [bytes([byte]) for byte in range(256)]
CONTROLS = [b""] * 4  # EOS and the like

# Every byte, some of them twice (as byte fall-back has them); words; pieces of characters.
WORDS = [
    *CONTROLS,
    *BYTES,
    *(b"a", b"0", b"\n"),
    *(
        "a b ab aa aaa aaaa abab ba 0 00 000 123 12 x1 _ a_b A AB Ab".split()[i].encode()
        for i in range(19)
    ),
    *(
        text.encode()
        for text in ('"', '":', '": "', '",', '", "', '"}', '\\"', "\\n", "a\\n", '{"')
    ),
    *(
        text.encode()
        for text in (" ", "  ", "    ", " a", " ab", "a ", "\n", "\n\n", "a\n", ".", ". ")
    ),
    *(
        text.encode()
        for text in ("é", "éa", "aé", "ß", "日", "日本", "a日", "😀", "😀a", " 😀", "٣", "a٣")
    ),
    *("日".encode()[:2], "日".encode()[1:], b"a" + "日".encode()[:1], "日".encode()[2:] + b"a"),
    *("😀".encode()[:3], "😀".encode()[3:] + "😀".encode()[:2], b" " + "😀".encode()[:1]),
    *("日".encode()[2:] + "本".encode()[:1], b"\xc0\x80", b"\xed\xa0\x80", b"\xff", b"a\xff"),
]


def vocabularies(tokens: list[bytes]) -> list[Vocabulary]:
    """With compiled walks where the CPU allows, and with NumPy's."""
    trie = TokenTrie(tokens)
    return [Vocabulary(trie, walks=walks, common=()) for walks in (select_walks(), reference)]


def tokens_of(words: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The tokens that a mask allows, ascending."""
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))


def allowed(words: npt.NDArray[np.int32]) -> set[int]:
    return set(tokens_of(words).tolist())


def tried(automaton: Automaton, state: int, tokens: list[bytes]) -> set[int]:
    return {i for i, t in enumerate(tokens) if t and automaton.walk(state, t) != DEAD}


def check_walk(automaton: Automaton, vocabulary: Vocabulary, text: bytes, states: int = 60) -> None:
    """Masks in the states along `text`, and in some others, against every token tried."""
    masks, tokens = TokenMasks(automaton, vocabulary), vocabulary.trie.tokens
    state = automaton.start
    for at in range(len(text) + 1):
        assert allowed(masks.mask(state)) == tried(automaton, state, tokens), text[:at]
        if at < len(text):
            state = automaton.step(state, text[at])
            assert state != DEAD, text[: at + 1]
    for state in range(min(states, automaton.num_states)):
        assert allowed(masks.mask(state)) == tried(automaton, state, tokens), state
