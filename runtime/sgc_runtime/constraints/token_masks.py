"""The masks of one automaton over one vocabulary, a state at a time."""

from __future__ import annotations

import time
from collections.abc import Iterable
from threading import RLock

from sgc_ir.automata.automaton import Automaton
from sgc_kernels.masks.trie_table import Int32
from sgc_runtime.constraints.mask_files import pack, unpack
from sgc_runtime.constraints.mask_maker import MaskMaker
from sgc_runtime.constraints.recorded_masks import RecordedMasks
from sgc_runtime.constraints.vocabulary import Vocabulary

_SAVED = 4096  # most masks that are written to the file at once
_NAME_BYTES = 128  # of a name, and of its place in a table
_PREPARED = 8  # sets of characters whose tables are made with the automaton


class TokenMasks:
    """Which tokens may follow in each state; made when first asked for (the first state's at once),
    then kept.

    A mask is known by its state's signature, so that equal states of all automata share it, in
    memory and on disk.

    Args:
        automaton: the constraint.
        vocabulary: the tokens, and where masks are kept.

    Raises:
        ConstraintError: the automaton passes one of its limits.

    Attributes:
        lock: whoever steps the automaton from several threads holds it.
    """

    def __init__(self, automaton: Automaton, vocabulary: Vocabulary) -> None:
        self.automaton = automaton
        self.vocabulary = vocabulary
        self.lock = RLock()
        self._maker = MaskMaker(automaton, vocabulary)
        self._longest = vocabulary.trie.table.num_levels
        self._recorded = RecordedMasks(automaton, vocabulary.trie)
        self._names: dict[int, bytes] = {}
        self._kept: dict[bytes, bytes] = {}
        self._new: set[bytes] = set()
        for chars in automaton.run_sets()[:_PREPARED]:  # now, where nobody waits for a mask
            vocabulary.prepare(chars)
        self._file = None
        if vocabulary.files is not None:
            self._file = vocabulary.files.path(automaton.digest, vocabulary.trie.digest)
            self._kept = vocabulary.files.read(self._file)
        self._is_written = bool(self._kept)
        self._packed_bytes = sum(map(len, self._kept.values()))
        with automaton.one_step():
            self.mask(automaton.start)  # every text's first one, as early

    @property
    def num_bytes(self) -> int:
        """Memory of the constraint, about: of its automaton, and of masks read from its file. Those
        in memory are the vocabulary's, with a bound of their own."""
        names = _NAME_BYTES * (len(self._names) + len(self._new) + len(self._kept))
        return self.automaton.num_bytes + names + self._packed_bytes

    def mask(self, state: int) -> Int32:
        """The tokens that may follow in `state`.

        Returns:
            int32 [num_words], read-only; bit t % 32 of word t // 32 is 1 where the constraint can
            still be met behind token t. Tokens without text (EOS among them) are never in it.

        Raises:
            ConstraintError: the automaton passes one of its limits.
        """
        found = self.known(state)
        if found is not None:
            return found
        with self.lock:
            return self._find(state)

    def known(self, state: int) -> Int32 | None:
        """`mask`, where it is here already."""
        name = self._names.get(state)
        return None if name is None else self.vocabulary.cache.get(name)

    def warm(self, seconds: float = 0.05, states: int = 256) -> int:
        """Make masks ahead: breadth first from the start, up to a time and a number of states.

        Returns:
            How many states have their mask.
        """
        end = time.monotonic() + seconds
        seen = {self.automaton.start: None}
        queue = [self.automaton.start]
        for done, state in enumerate(queue):
            if time.monotonic() > end:
                return done
            with self.lock:
                self._find(state)
                recall = self.automaton.recalls(state)  # masks are kept of its shape only
                shape = state if recall is None else recall.shape
                following = [next_state for _, _, next_state in self.automaton.ways(shape)]
            for next_state in following:
                if next_state not in seen and len(seen) < states:
                    seen[next_state] = None
                    queue.append(next_state)
        return len(queue)

    def keep(self, states: Iterable[int]) -> None:
        """Drop what is known of all other states, see `Automaton.keep`; with the lock held."""
        self.automaton.keep(states)
        self._maker = MaskMaker(self.automaton, self.vocabulary)
        self._names.clear()

    def save(self) -> bool:
        """Write the masks that were made here, and those that were read, to the file.

        Returns:
            Whether they are on disk.
        """
        files = self.vocabulary.files
        with self.lock:
            if files is None or self._file is None:
                return False
            if not self._new:
                return self._is_written
            for name in self._new:
                words = self.vocabulary.cache.get(name)
                if words is not None:
                    self._kept[name] = pack(words)
            self._new.clear()
            self._packed_bytes = sum(map(len, self._kept.values()))
            self._is_written = files.write(self._file, self._kept)
            return self._is_written

    def _find(self, state: int) -> Int32:
        name = self._names.get(state)
        state, before = self.automaton.near(state, self._longest), state  # of the same mask
        if name is None:
            name = self._names[before] = self.automaton.signature(state)
        cache = self.vocabulary.cache
        found = cache.get(name)
        if found is not None:
            return found
        recall = self.automaton.recalls(state)
        if recall is not None:  # one of very many states: its mask is not for the file
            words = self._find(recall.shape)
            return cache.put(name, self._recorded.correct(state, recall, words))
        packed = self._kept.get(name)
        if packed is not None:
            return cache.put(name, unpack(packed))
        if len(self._new) < _SAVED:
            self._new.add(name)
        return cache.put(name, self._maker.make(state, self._find))
