"""Closed sets of texts as ids to be scored, and the choice among them by their probabilities.

A mask alone draws each id from the model's distribution, renormalised: an allowed beginning may
have only unlikely ends. Where the constraint leaves few texts, each can be scored as a whole.

The texts of a set are compared up to the same place, and that place is one where no token of any
of them reaches beyond:
- In the middle of a constraint, all texts are followed by the same forced text (`; Reason: `), of
  which each gets as much as ends with a token in all of them and is safe from what may follow.
- At the end, each text is followed by what ends the gen: the stop strings that it was given, any
  of them; without them an EOS (or end-of-turn) id, any of them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import torch

from sgc_ir.automata.automaton import Automaton
from sgc_ir.automata.closed import ClosedSet
from sgc_ir.automata.limits import OutOfTime, SliceEnded, time_slice
from sgc_ir.params import SamplingParams
from sgc_runtime.constraints.canonical import Window
from sgc_runtime.constraints.held import ENCODE_PIECES
from sgc_runtime.constraints.jump import Planner
from sgc_runtime.constraints.matcher import Matcher
from sgc_runtime.constraints.memo import Memo
from sgc_runtime.sampling.row import SamplingRow
from sgc_runtime.sampling.sampler import NO_TOKEN, sample
from sgc_runtime.tokenizer.borders import whole_characters

FEW_TEXTS = 64  # as long as they are
FEW_TOKENS = 512  # of any number of texts, shared ones counted once

_TAIL = 64  # bytes of the forced text behind a set that are scored with it
_SEARCHED = 512  # states
_TRIED = 8192  # texts that are encoded
_MOST_S = 3.0  # processor time of the search
_SLICE_S = 0.005  # and of one piece of it
_PLACES = 4096
_TOLD = 64  # texts whose probabilities are told

_Ids = tuple[int, ...]
_Answer = TypeVar("_Answer")


class Option(NamedTuple):
    """One text of a set.

    Attributes:
        text: without what is forced behind it.
        ids: those it goes on with, the last ones before the set among them.
        num_own: how many of them the text reaches into; the others are forced.
        scored: sequences, none the beginning of another, whose probabilities add up to the text's.
    """

    text: bytes
    ids: _Ids
    num_own: int
    scored: tuple[_Ids, ...]


class OptionSet(NamedTuple):
    """What a sample may say next.

    Attributes:
        num_kept: ids of the sample that stay as they are; the options begin behind them.
        ends: the sample ends with the option.
    """

    num_kept: int
    options: tuple[Option, ...]
    ends: bool


def _go_on(worked: float) -> None:
    """For those who need not rest."""


class _Slices:
    """Does work in slices, so that nobody waits long for the constraint's lock."""

    def __init__(self, automaton: Automaton, rest: Callable[[float], None]) -> None:
        self._automaton, self._rest, self._left = automaton, rest, _MOST_S

    def do(self, work: Callable[[], _Answer]) -> _Answer:
        seconds = _SLICE_S
        while True:
            begin = time.thread_time()
            try:
                with self._automaton.one_step(), time_slice(seconds):
                    return work()
            except SliceEnded:
                seconds *= 1.5
            finally:
                worked = time.thread_time() - begin
                self._left -= worked
                self._rest(worked)
            if self._left < 0:
                raise OutOfTime(
                    f"looking for places with few texts takes more than {_MOST_S:g} s; "
                    "make the constraint smaller"
                )


class ClosedSets:
    """Finds the sets of one constraint.

    Args:
        end_ids: ids that end a gen.
        stops: its stop strings.
    """

    def __init__(self, planner: Planner, end_ids: Collection[int], stops: Sequence[str]) -> None:
        self._planner, self._canonical = planner, planner.canonical
        self._end_ids = tuple(sorted(end_ids))
        self._stops = [stop.encode() for stop in stops]
        self._found: Memo[_Place, OptionSet | None] = Memo(_PLACES)
        self._encoded: Memo[tuple[Window, bytes], _Ids | None] = Memo(_TRIED)
        self._num_encoded = 0  # up to `_TRIED`, each text counts once: none is dropped before

    def at(self, matcher: Matcher) -> OptionSet | None:
        """The set that begins where `matcher` is, nothing being forced there; the one that
        reaches farthest of those that are small enough and end at a safe place."""
        with self._planner.inside():
            place = _Place(matcher.window, matcher.rest, matcher.state, matcher.end_allowed)
            found = self._found.find(place, self._find)
        if found is None:
            return None
        return found._replace(num_kept=len(matcher.ids) - len(place.window.ids))

    def any_within_reach(self, rest: Callable[[float], None] = _go_on) -> bool:
        """Whether some state has a set, so far as little work says: False is certain.

        Args:
            rest: called now and then, with the seconds of work since, while the constraint is free
                for others.

        Raises:
            ConstraintError: it takes longer than is allowed at all.
        """
        with self._planner.inside():
            return self._search(_Slices(self._planner.masks.automaton, rest))

    # -- below ----------------------------------------------------------------------------------

    def _search(self, slices: _Slices) -> bool:
        start = self._planner.masks.automaton.start
        seen, queue = {start}, [start]
        for state in queue:
            if len(seen) > _SEARCHED or self._num_encoded > _TRIED:
                return True
            following = slices.do(partial(self._behind, state))
            if following is None:
                return True
            queue += [found for found in following if found not in seen]
            seen.update(following)
        return False

    def _behind(self, state: int) -> dict[int, None] | None:
        """The states behind what is forced in `state`, in the order of the bytes that lead there;
        None where a set begins there."""
        data = self._planner.run(state).data
        behind = self._planner.walk(state, data[: whole_characters(data)])
        if self._find(_Place(Window(), b"", behind, False)) is not None:
            return None
        with self._planner.masks.lock:
            return dict.fromkeys(way[2] for way in self._planner.masks.automaton.ways(behind))

    def _find(self, place: _Place) -> OptionSet | None:
        for found in self._planner.closed_sets(place.state):
            options = self._whole(place, found) if found.state is None else self._met(place, found)
            if options is not None and _is_small(options):
                return OptionSet(0, options, found.state is None)
        return None

    def _whole(self, place: _Place, found: ClosedSet) -> tuple[Option, ...] | None:
        """Texts with which the sample ends."""
        options = []
        for text in found.texts:
            data = place.rest + text if text or not place.end_allowed else b""
            ids = self._encode(place.window, data)
            scored = None if ids is None else self._ended(place.window, data, ids)
            if ids is None or not scored:
                return None
            options.append(Option(text, ids, len(ids), scored))
        return tuple(options)

    def _ended(self, window: Window, data: bytes, ids: _Ids) -> tuple[_Ids, ...] | None:
        if not self._stops:
            return tuple((*ids, end) for end in self._end_ids)
        ended = [self._encode(window, data + stop) for stop in self._stops]
        known = [e for e in ended if e is not None]
        return _without_longer(known) if len(known) == len(ended) else None

    def _met(self, place: _Place, found: ClosedSet) -> tuple[Option, ...] | None:
        """Texts after which all go on alike, up to the last safe border that they share."""
        assert found.state is not None
        tail = self._planner.run(found.state).data[:_TAIL]
        encoded: list[_Ids] = []
        shared: set[int] | None = None
        for text in found.texts:
            ids = self._safe(place, found.state, text, tail)
            if ids is None:
                return None
            own = len(self._canonical.bytes_of(place.window.ids) + place.rest + text)
            ends = {end - own for end in self._ends(ids) if end >= own}
            shared = ends if shared is None else shared & ends
            if not shared:
                return None
            encoded.append(ids)
        assert shared is not None
        size = max(shared)
        return tuple(
            self._cut(place, text, ids, size)
            for text, ids in zip(found.texts, encoded, strict=True)
        )

    def _safe(self, place: _Place, state: int, text: bytes, tail: bytes) -> _Ids | None:
        """The ids of a text and of what is forced behind it that stay whatever follows."""
        own = place.rest + text
        old = self._canonical.bytes_of(place.window.ids)
        end = whole_characters(old + own + tail)
        if end < len(old + own):
            return None
        data = (old + own + tail)[:end]
        ids = self._encode(place.window, data[len(old) :])
        behind = self._planner.walk(state, data[len(old + own) :])
        return None if ids is None else self._planner.settled(data, ids, behind)

    def _cut(self, place: _Place, text: bytes, ids: _Ids, size: int) -> Option:
        """The option of a text with `size` bytes of what follows it."""
        own = len(self._canonical.bytes_of(place.window.ids) + place.rest + text)
        ends = self._ends(ids)
        kept = ids[: ends.index(own + size) + 1]
        return Option(text, kept, 1 + sum(end < own for end in ends), (kept,))

    def _ends(self, ids: _Ids) -> list[int]:
        """Where each token ends, in bytes."""
        ends, end = [], 0
        for token in ids:
            end += len(self._canonical.token_bytes(token))
            ends.append(end)
        return ends

    def _encode(self, window: Window, data: bytes) -> _Ids | None:
        return self._encoded.find((window, data), self._encode_behind) if data else window.ids

    def _encode_behind(self, key: tuple[Window, bytes]) -> _Ids | None:
        self._planner.masks.automaton.tick(ENCODE_PIECES)
        found = self._canonical.encode_behind(*key)
        self._num_encoded += 1
        return found


class _Place(NamedTuple):
    window: Window
    rest: bytes
    state: int
    end_allowed: bool


def _without_longer(sequences: Iterable[_Ids]) -> tuple[_Ids, ...]:
    """Those that begin with no other one."""
    found: list[_Ids] = []
    for ids in sorted(set(sequences), key=len):
        if not any(ids[: len(short)] == short for short in found):
            found.append(ids)
    return tuple(found)


def _is_small(options: Sequence[Option]) -> bool:
    if len(options) <= FEW_TEXTS:
        return True
    tokens = {ids[:end] for o in options for ids in o.scored for end in range(1, len(ids) + 1)}
    return len(tokens) <= FEW_TOKENS


class Weighed(NamedTuple):
    """Options with the logarithms of their probabilities under the model, not renormalised."""

    options: tuple[Option, ...]
    logprobs: tuple[float, ...]

    @property
    def mass(self) -> float:
        """The logarithm of what all options have together."""
        return _log_sum(self.logprobs)

    def to_meta(self) -> dict[str, object]:
        """The likeliest texts and their shares, which add up to 1 over all of them."""
        mass = self.mass
        order = sorted(range(len(self.options)), key=lambda i: (-self.logprobs[i], i))[:_TOLD]
        return {
            "texts": [self.options[i].text.decode("utf-8", "replace") for i in order],
            "probabilities": [math.exp(self.logprobs[i] - mass) for i in order],
            "mass": mass,
        }


def weigh(options: tuple[Option, ...], sequences: Sequence[Sequence[float]]) -> Weighed:
    """The options with their probabilities.

    Args:
        sequences: log-probabilities of the ids of each scored sequence, in nats, one option after
            another.
    """
    sums = iter([math.fsum(values) for values in sequences])
    return Weighed(options, tuple(_log_sum([next(sums) for _ in o.scored]) for o in options))


def choose(weighed: Weighed, params: SamplingParams, seed: int, step: int) -> int | None:
    """The number of the option that is taken: the likeliest one, or a draw. Temperature, `top_k`,
    `top_p` and `min_p` mean the whole texts. None where the probabilities are not numbers.

    Args:
        step: ids before, which with `seed` decide the random number.
    """
    row = SamplingRow(params, seed)
    row.step = step
    best = max(weighed.logprobs)
    logits = torch.tensor([[value - best for value in weighed.logprobs]], dtype=torch.float32)
    (found,) = sample(logits, [row]).ids
    return None if found == NO_TOKEN else found


def _log_sum(values: Sequence[float]) -> float:
    best = max(values)
    if not math.isfinite(best):
        return best
    return best + math.log(math.fsum(math.exp(value - best) for value in values))
