"""One sequence in the engine: what was asked, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

import numpy as np

from sgc_runtime.cache.radix_tree import Ids, Node, Slots
from sgc_runtime.engine.guide import Guide
from sgc_runtime.engine.output import OutputWatcher
from sgc_runtime.engine.scoring import Scoring
from sgc_runtime.engine.times import Times
from sgc_runtime.sampling.row import SamplingRow, TokenLogprobs


class State(Enum):
    NEW = "new"
    WAITING = "waiting"
    PREFILLING = "prefilling"
    RUNNING = "running"  # decoding
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request.

    Attributes:
        node: end of the sequence's cached part, to begin the next match at (not locked).
        cached_tokens: prompt tokens whose KV was there when the request began.
        error: why the request failed, or None.
        complete: the text of a gen is all that its constraint asks for.
    """

    node: Node | None = None
    cached_tokens: int = 0
    error: Exception | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Prefix:
    """A soft hold: the first `length` tokens of a sequence once ended at `node` or above.

    Where `node` ends behind `length`, the tokens between were rolled back and are to leave the
    tree.
    """

    node: Node
    length: int


class Region(NamedTuple):
    """What is known of later reads of a call's tokens behind the first `start`, up to the next
    region.

    Attributes:
        readers: calls of the instance that are not issued yet and read it, None: not known.
        next_use: tokens that are generated one after another before the first of them, at most;
            None: not known.
    """

    start: int
    readers: int | None
    next_use: int | None


class Request:
    """A generation, or the scoring of given tokens.

    Positions of `tokens`, all half-open:

    | range                       | what                                               |
    |-----------------------------|----------------------------------------------------|
    | [0, num_prompt)             | asked; for a scoring all tokens to compute         |
    | [num_prompt, num_tokens)    | sampled, or forced by the constraint               |
    | [0, num_linear)             | each follows the one before it (see `TokenTrie`),  |
    |                             | and will hardly be taken back                      |
    | [0, node.end)               | KV in the tree, locked (`slots` holds its slots);  |
    |                             | what others share of a step is there before it     |
    | [node.end, num_slots)       | slots owned by this request                        |
    | [0, num_computed)           | KV computed                                        |

    While it waits, `anchor` is a node on its path where a match may begin, and `leader` another
    request that computes a prefix of it in later steps.

    Args:
        prompt: ids, at least one; for a scoring the tokens of its trie.
        row: sampling state, or None for a scoring.
        watcher: stop rules and text, or None for a scoring.
        guide: the constraint, or None.
        scoring: what is scored, or None for a generation.
        prefix: soft hold of the stream that asks.
        call_prompt: tokens of the call's prompt, 0 when another request of it counts them.
        instance: number of the program instance that asks, or None: it belongs to none.
        more_tokens: tokens that later calls of the instance may generate at most; None: unknown.
        most: tokens that it generates at most, as far as that is known; None: as many as it may.
        regions: who reads its tokens again, from the first to the last region; (): not known.
        on_done: called once, in the engine's thread, with the outcome.

    Attributes:
        forced: for each id of the output, whether the constraint forced it.
        logprobs: of each id of the output, where asked for; None: to be computed with the next
            chunk (the last ids, if any).
        closing: the gen has ended, but for log-probabilities that are to be computed.
        is_ahead: no call has asked for it (`prefill_ahead`).
        may_match: it may find in the cache what was computed before (`EngineConfig.match_share`).
        aside: nothing is computed for it until more is found out about its constraint (`slices`).
        pending: 1 while an id behind its tokens is being sampled, which is not known yet; else 0.
        ahead: 1 while a chunk is launched whose last id is not known or may not stay, which
            `num_computed` does not count.
        flight: how often it has left the flight: what was begun for it before is not its any more.
        num_tabled: leading slots that the device's table holds as they are in `slots`. The runner
            raises it, to `end` of the last chunk at most; whoever changes slots lowers it.
    """

    def __init__(
        self,
        prompt: Ids,
        *,
        on_done: Callable[[Request, Outcome], None],
        row: SamplingRow | None = None,
        watcher: OutputWatcher | None = None,
        guide: Guide | None = None,
        scoring: Scoring | None = None,
        prefix: Prefix | None = None,
        call_prompt: int = 0,
        instance: int | None = None,
        more_tokens: int | None = None,
        most: int | None = None,
        regions: tuple[Region, ...] = (),
    ) -> None:
        self.num_prompt = self.num_tokens = len(prompt)
        self.row, self.watcher, self.guide, self.scoring = row, watcher, guide, scoring
        self.prefix, self.call_prompt, self.on_done = prefix, call_prompt, on_done
        self.instance, self.more_tokens = instance, more_tokens
        self.max_new = 0 if row is None else row.max_new
        self.bound = self.max_new if most is None else min(most, self.max_new)
        self.regions = regions
        capacity = len(prompt) + self.max_new
        self.tokens: Ids = np.empty(capacity, np.int32)
        self.tokens[: len(prompt)] = prompt
        self.slots: Slots = np.empty(capacity, np.int64)
        self.num_slots = self.num_computed = 0
        self.is_ahead, self.may_match = False, True
        self.node: Node | None = None  # locked while PREFILLING or RUNNING
        self.anchor: Node | None = None
        self.waits_at: Node | None = None  # node that it holds while it waits (`lifetimes`)
        self.leader: Leader | None = None
        self.state = State.NEW
        # Whether its prompt was covered when it was counted for the best possible hit rate.
        self.covered: bool | None = None
        self.arrival = 0
        self.cached_tokens: int | None = None  # set at the first admission
        self.num_matched = 0  # tokens that the cache had at the last admission
        self.num_ahead_read = 0  # of those it reads in the cache, computed ahead for a call
        self.num_lost = 0  # tokens computed once that a retraction took away
        self.times = Times()
        self.forced: list[bool] = []
        self.logprobs: list[TokenLogprobs | None] = []
        self.closing = self.aside = False
        self.pending = self.ahead = self.flight = self.num_tabled = 0

    @property
    def num_growth(self) -> int:
        """Slots that it may still need behind its present tokens."""
        # The last token that is sampled is never computed.
        growth = self.num_prompt + self.bound - self.num_tokens - 1
        if self.guide is not None and self.state is State.RUNNING:
            forced = self.num_tokens - self.num_slots - 1  # of which none has a slot yet
            growth += max(0, forced)
        return growth if growth > 0 else 0

    @property
    def num_needed(self) -> int:
        """Slots that it may still take, while it is in flight."""
        return max(0, self.num_prompt + self.bound - 1 - self.num_slots)

    @property
    def num_target(self) -> int:
        """Tokens to compute before the next sampling, or before the scoring is complete."""
        return self.num_tokens - self.closing

    @property
    def num_ahead(self) -> int:
        """`num_target`, and the id that is being sampled."""
        return self.num_tokens - self.closing + self.pending

    @property
    def ends_with_pending(self) -> bool:
        """Whether the id that is being sampled is the last one in any case, or would be but for
        healing: nothing is computed behind it then before it is known."""
        row = self.row
        assert row is not None
        made = self.num_tokens + self.pending - self.num_prompt - row.num_healed
        return made >= row.params.max_tokens

    def leave(self) -> None:
        """Let go of what was begun for it: it leaves the flight."""
        self.pending = self.ahead = self.num_tabled = 0
        self.flight += 1

    @property
    def num_linear(self) -> int:
        """Tokens that are one sequence, which others may share while it is computed."""
        if self.scoring is not None:
            return self.scoring.trie.num_prompt
        if self.guide is not None:
            return self.num_prompt + self.guide.num_settled
        return self.num_tokens

    @property
    def num_asked(self) -> int:
        """Tokens of what was asked, for a scoring without the texts that are scored."""
        return self.num_prompt if self.scoring is None else self.scoring.trie.num_prompt

    @property
    def num_matchable(self) -> int:
        """Tokens that may come out of the cache; the next one's logits are wanted."""
        if self.scoring is not None:
            return max(0, self.scoring.trie.num_prompt - 1)
        return max(0, min(self.num_target, self.first_unrecorded) - 1)

    @property
    def first_unrecorded(self) -> int:
        """The first token whose log-probability is asked for and not there yet."""
        if not self.logprobs or self.logprobs[-1] is not None:
            return self.num_tokens
        return self.num_prompt + self.logprobs.index(None)

    @property
    def prompt(self) -> Ids:
        return self.tokens[: self.num_prompt]

    @property
    def output(self) -> Ids:
        return self.tokens[self.num_prompt : self.num_tokens]

    def push(self, token: int) -> None:
        self.tokens[self.num_tokens] = token
        self.num_tokens += 1

    def push_all(self, tokens: Sequence[int], forced: Sequence[bool]) -> None:
        """`push` of each, and whether it was forced."""
        end = self.num_tokens + len(tokens)
        if len(tokens) == 1:  # mostly
            self.tokens[end - 1] = tokens[0]
        else:
            self.tokens[self.num_tokens : end] = tokens
            self.times.force(sum(forced))
        self.forced += forced
        self.num_tokens = end

    def take_back(self, count: int) -> None:
        """Undo `push` of the last ids."""
        self.num_tokens -= count
        del self.forced[len(self.forced) - count :]
        del self.logprobs[max(0, len(self.logprobs) - count) :]

    def record(self, place: int, found: TokenLogprobs) -> None:
        """Note the log-probability of token `place`, of which those before have theirs."""
        index = place - self.num_prompt
        forced = self.guide is not None and self.forced[index]
        self.logprobs[index] = replace(found, forced=True) if forced else found

    def choose_path(self, indices: Sequence[int]) -> int:
        """Bring the computed tokens at `indices` (ascending), with their slots, directly behind
        the linear ones; the number of tokens that are one sequence now."""
        first = self.num_linear
        chosen = np.array(indices, np.int64)
        rest = np.setdiff1d(np.arange(first, self.num_tokens), chosen)
        order = np.concatenate([chosen, rest])
        self.tokens[first : self.num_tokens] = self.tokens[order]
        self.slots[first : self.num_tokens] = self.slots[order]
        return first + len(chosen)


@dataclass(frozen=True, slots=True)
class Leader:
    """Another request, and the token up to which it is worth waiting for."""

    request: Request
    until: int

    def computes(self) -> bool:
        """Whether it still is on its way there."""
        return self.request.state is State.PREFILLING and self.request.num_computed < self.until
