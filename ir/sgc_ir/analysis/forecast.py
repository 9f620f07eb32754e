"""What a run over rows will ask for: calls, tokens, sharing and memory, within bounds.

Two cases bound the run: the least (calls that happen for certain, shortest texts) and the most
(calls of all paths, longest texts; both arms of a branch are counted). Text between two unknown
spans is tokenised by itself, and a text that one call made and another one reads counts as many
tokens as when it was made; so token counts may be off by a few at such borders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

from sgc_ir.analysis.call_keys import keyed_calls
from sgc_ir.analysis.encoding import Encoding, Remembered
from sgc_ir.analysis.follow import follow
from sgc_ir.analysis.known_calls import Instance, KnownCall, NodeKey, Setting
from sgc_ir.analysis.known_stream import Renderer
from sgc_ir.analysis.plan import plan_rows, row_facts
from sgc_ir.analysis.prefix_trie import Item, Place, PrefixTrie, computed_tokens, path
from sgc_ir.analysis.spans import Span
from sgc_ir.graph import Program
from sgc_ir.params import SamplingParams


class Range(NamedTuple):
    """Bounds of a number; `high` None: there is none."""

    low: int
    high: int | None

    def __add__(self, other: object) -> Range:
        assert isinstance(other, Range)
        high = None if self.high is None or other.high is None else self.high + other.high
        return Range(self.low + other.low, high)

    def __str__(self) -> str:
        if self.high is None:
            return f"{self.low:,} or more"
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"

    def holds(self, number: float) -> bool:
        return self.low <= number and (self.high is None or number <= self.high)


ZERO = Range(0, 0)


@dataclass(slots=True)
class NodeForecast:
    """Sums over the calls of one node in all rows.

    Attributes:
        shareable_tokens: known prompt tokens at places that other prompts hold too.
        cached_tokens: prompt tokens that the best order with enough memory need not compute.
        output_tokens: of all samples.
        readers: most prompts that share a place of one of its prompts.
        longest: prompt and output tokens, which is KV memory, of its longest call.
    """

    source: str
    kind: str
    calls: Range = ZERO
    prompt_tokens: Range = ZERO
    shareable_tokens: int = 0
    cached_tokens: Range = ZERO
    output_tokens: Range = ZERO
    readers: int = 0
    longest: Range = ZERO


@dataclass(frozen=True, slots=True)
class Case:
    """Sums over the run in one of the two cases."""

    calls: int
    prompt_tokens: int
    computed_tokens: int
    output_tokens: int

    @property
    def hit_rate(self) -> float:
        return 1.0 - self.computed_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole run.

    Attributes:
        nodes: by node, in the order of their first calls.
        least, most: see the module; where bounded is False, `most` leaves out what has no bound.
        longest_request: prompt and output tokens of the longest call.
        instance_kv: KV tokens that one instance takes at once at most: at least its longest
            request, at most all that it ever needs.
        static_prefix: tokens that the prompts of all calls of all rows begin with.
        row_order: rows in the order in which a run starts them, where it plans all of them at once.
        failures: row -> why nodes of it cannot be computed.
    """

    rows: int
    nodes: Mapping[NodeKey, NodeForecast]
    least: Case
    most: Case
    bounded: bool
    longest_request: Range
    instance_kv: Range
    static_prefix: int
    row_order: tuple[int, ...]
    failures: Mapping[int, str]


def forecast(
    program: Program,
    rows: Iterable[tuple[int, Mapping[str, Any]]],
    encoding: Encoding,
    renderer: Renderer,
    defaults: SamplingParams | None = None,
) -> Forecast:
    """Forecast a run of `program`.

    Args:
        rows: row index -> arguments.

    Raises:
        InputError: a row's arguments do not fit; see `follow`.
    """
    known = Remembered(encoding)
    setting = Setting(renderer, known.count, defaults or SamplingParams())
    instances = [follow(program, arguments, index, setting) for index, arguments in rows]
    return _Sums(instances, known).forecast()


@dataclass(slots=True)
class _Keyed:
    call: KnownCall
    key: list[Item]
    output: Span
    place: Place | None = None


@dataclass(slots=True)
class _Sums:
    instances: Sequence[Instance]
    encoding: Remembered
    nodes: dict[NodeKey, NodeForecast] = field(default_factory=dict)

    def forecast(self) -> Forecast:
        keyed = [_Keyed(*k) for i in self.instances for k in keyed_calls(i, self.encoding)]
        certain = [k for k in keyed if k.call.calls_low]
        most = self._case(keyed, _longest, self._note_most)
        least = self._case([replace(k) for k in certain], _shortest, self._note_least)
        for found in keyed:
            self._note_call(found)
        bounded = all(i.bounded for i in self.instances)
        bounded = bounded and all(n.output_tokens.high is not None for n in self.nodes.values())
        bounded = bounded and all(n.prompt_tokens.high is not None for n in self.nodes.values())
        return Forecast(
            rows=len(self.instances),
            nodes=self.nodes,
            least=least,
            most=most,
            bounded=bounded,
            longest_request=self._longest_request(),
            instance_kv=self._instance_kv(keyed),
            static_prefix=_common_prefix([k.key for k in keyed]),
            row_order=self._row_order(),
            failures={i.row: i.failure for i in self.instances if i.failure is not None},
        )

    def _node(self, call: KnownCall) -> NodeForecast:
        found = self.nodes.get(call.node)
        if found is None:
            found = self.nodes[call.node] = NodeForecast(str(call.source), call.kind)
        return found

    # -- the two cases

    def _case(
        self,
        keyed: Sequence[_Keyed],
        length: Callable[[Item], int],
        note: Callable[[KnownCall, int, int], None],
    ) -> Case:
        trie = PrefixTrie()
        for found in keyed:
            found.place = trie.add(found.key)
        for found in keyed:
            trie.make(found.key, found.output)
        prompts = outputs = 0
        ended: set[Place] = set()
        for number, found in enumerate(keyed):
            assert found.place is not None
            places = path(found.place)
            tokens = sum(_size(place, length) for place in places)
            lacking = sum(_size(p, length) for p in places if p.first == number and not p.made)
            if places:
                lacking += found.place.made or found.place in ended
                ended.add(found.place)
            prompts += tokens
            outputs += _output(found.call, length)
            note(found.call, tokens, tokens - lacking)
        computed = computed_tokens(trie, lambda place: _size(place, length))
        return Case(len(keyed), prompts, computed, outputs)

    def _note_most(self, call: KnownCall, tokens: int, cached: int) -> None:
        node = self._node(call)
        is_open = any(isinstance(p, Span) and p.high is None for p in call.prompt)
        high = None if is_open or call.repeats else tokens
        node.prompt_tokens += Range(0, high)
        node.cached_tokens += Range(0, None if high is None else cached)
        node.output_tokens += Range(0, None if call.repeats else call.tokens_high)
        node.calls += Range(call.calls_low, call.calls_high)

    def _note_least(self, call: KnownCall, tokens: int, cached: int) -> None:
        node = self._node(call)
        node.prompt_tokens += Range(tokens, 0)
        node.cached_tokens += Range(cached, 0)
        node.output_tokens += Range(call.tokens_low, 0)

    def _note_call(self, found: _Keyed) -> None:
        node, place = self._node(found.call), found.place
        for shared in path(place) if place is not None else ():
            if shared.readers > 1:
                node.shareable_tokens += sum(isinstance(item, int) for item in shared.items)
                node.readers = max(node.readers, shared.readers)
        node.longest = _longer(node.longest, _request(found.call, found.key))

    # -- memory and order

    def _row_order(self) -> tuple[int, ...]:
        plan = plan_rows([row_facts(instance) for instance in self.instances])
        return tuple(self.instances[place].row for place in plan.order)

    def _longest_request(self) -> Range:
        return reduce(_longer, (node.longest for node in self.nodes.values()), ZERO)

    def _instance_kv(self, keyed: Sequence[_Keyed]) -> Range:
        longest = self._longest_request()
        if longest.high is None or not all(i.bounded for i in self.instances):
            return Range(longest.low, None)
        tries: dict[int, PrefixTrie] = {}
        more: dict[int, int] = {}
        for found in keyed:
            call, trie = found.call, tries.setdefault(found.call.row, PrefixTrie())
            trie.add(found.key)
            trie.make(found.key, found.output)
            others = (call.samples or 1) - 1
            more[call.row] = more.get(call.row, 0) + others * _longest(call.output)
        sizes = [
            more[row] + sum(_size(place, _longest) for place in trie.places())
            for row, trie in tries.items()
        ]
        return Range(longest.low, max(sizes, default=0))


def _size(place: Place, length: Callable[[Item], int]) -> int:
    return sum(map(length, place.items))


def _shortest(item: Item) -> int:
    return item.low if isinstance(item, Span) else 1


def _longest(item: Item) -> int:
    if not isinstance(item, Span):
        return 1
    return item.low if item.high is None else item.high


def _output(call: KnownCall, length: Callable[[Item], int]) -> int:
    return call.tokens_low if length is _shortest else call.tokens_high or call.tokens_low


def _request(call: KnownCall, key: Sequence[Item]) -> Range:
    """Tokens of a call's prompt and output; none for certain where it may not happen."""
    low = sum(map(_shortest, key)) + call.tokens_low if call.calls_low else 0
    if call.tokens_high is None or any(isinstance(i, Span) and i.high is None for i in key):
        return Range(low, None)
    return Range(low, sum(map(_longest, key)) + call.tokens_high)


def _longer(one: Range, other: Range) -> Range:
    high = None if one.high is None or other.high is None else max(one.high, other.high)
    return Range(max(one.low, other.low), high)


def _common_prefix(keys: Sequence[Sequence[Item]]) -> int:
    if not keys:
        return 0
    low, high = min(keys, key=len), keys
    for at, item in enumerate(low):
        if isinstance(item, Span) or any(key[at] != item for key in high):
            return at
    return len(low)
