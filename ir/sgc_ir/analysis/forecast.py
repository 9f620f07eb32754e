"""What a run over rows will ask for: calls, tokens, sharing and memory, within bounds.

Two cases bound the run: the least (calls that happen for certain, shortest texts) and the most
(calls of all paths, longest texts; both arms of a branch are counted). Text between two unknown
spans is tokenised by itself, and a text that one call made and another one reads counts as many
tokens as when it was made; so token counts may be off by a few at such borders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

from sgc_ir.analysis.call_keys import KeyedCall, keyed_calls
from sgc_ir.analysis.encoding import Encoding, Remembered
from sgc_ir.analysis.follow import follow
from sgc_ir.analysis.known_calls import Instance, KnownCall, NodeKey, Setting
from sgc_ir.analysis.known_stream import Renderer
from sgc_ir.analysis.plan import plan_rows, row_facts
from sgc_ir.analysis.prefix_trie import Place, PrefixTrie, computed_tokens
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
class _Sums:
    instances: Sequence[Instance]
    encoding: Remembered
    nodes: dict[NodeKey, NodeForecast] = field(default_factory=dict)

    def forecast(self) -> Forecast:
        keyed = [list(keyed_calls(instance, self.encoding)) for instance in self.instances]
        trie = PrefixTrie()
        placed = [found for calls in keyed for found in _grow(calls, trie)]
        trie.settle()
        most = self._case(trie, placed, _high, self._note_most)
        least = self._least(keyed)
        for found in placed:
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
            static_prefix=trie.common(),
            row_order=self._row_order(),
            failures={i.row: i.failure for i in self.instances if i.failure is not None},
        )

    def _node(self, call: KnownCall) -> NodeForecast:
        found = self.nodes.get(call.node)
        if found is None:
            found = self.nodes[call.node] = NodeForecast(str(call.source), call.kind)
        return found

    # -- the two cases

    def _least(self, keyed: Sequence[Sequence[KeyedCall]]) -> Case:
        trie = PrefixTrie()
        placed = [p for calls in keyed for p in _grow(calls, trie, _is_certain)]
        trie.settle()
        return self._case(trie, placed, _low, self._note_least)

    def _case(
        self,
        trie: PrefixTrie,
        placed: Sequence[_Placed],
        upto: Callable[[Place], int],
        note: Callable[[_Placed, int, int], None],
    ) -> Case:
        prompts = outputs = 0
        ended: set[Place] = set()
        for number, found in enumerate(placed):
            end = found.end
            tokens, lacking = upto(end), _begun(end, number, upto)
            if end is not trie.root:
                lacking += end.made or end in ended
                ended.add(end)
            prompts += tokens
            outputs += _output(found.call, upto)
            note(found, tokens, tokens - lacking)
        computed = computed_tokens(trie, lambda place: _size(place, upto))
        return Case(len(placed), prompts, computed, outputs)

    def _note_most(self, found: _Placed, tokens: int, cached: int) -> None:
        call, node = found.call, self._node(found.call)
        high = None if found.end.is_open or call.repeats else tokens
        node.prompt_tokens += Range(0, high)
        node.cached_tokens += Range(0, None if high is None else cached)
        node.output_tokens += Range(0, None if call.repeats else call.tokens_high)
        node.calls += Range(call.calls_low, call.calls_high)

    def _note_least(self, found: _Placed, tokens: int, cached: int) -> None:
        call, node = found.call, self._node(found.call)
        node.prompt_tokens += Range(tokens, 0)
        node.cached_tokens += Range(cached, 0)
        node.output_tokens += Range(call.tokens_low, 0)

    def _note_call(self, found: _Placed) -> None:
        node = self._node(found.call)
        node.shareable_tokens += found.end.shared
        node.readers = max(node.readers, found.end.most)
        node.longest = _longer(node.longest, _request(found.call, found.end))

    # -- memory and order

    def _row_order(self) -> tuple[int, ...]:
        plan = plan_rows([row_facts(instance) for instance in self.instances])
        return tuple(self.instances[place].row for place in plan.order)

    def _longest_request(self) -> Range:
        return reduce(_longer, (node.longest for node in self.nodes.values()), ZERO)

    def _instance_kv(self, keyed: Sequence[Sequence[KeyedCall]]) -> Range:
        longest = self._longest_request()
        if longest.high is None or not all(i.bounded for i in self.instances):
            return Range(longest.low, None)
        return Range(longest.low, max(map(_all_kv, keyed), default=0))


class _Placed(NamedTuple):
    """A call, and where its prompt ends in the trie of a case."""

    call: KnownCall
    end: Place


def _grow(
    calls: Sequence[KeyedCall],
    trie: PrefixTrie,
    counts: Callable[[KnownCall], bool] = lambda call: True,
) -> list[_Placed]:
    """Put those calls of an instance that count into a trie."""
    found: list[_Placed] = []
    behind: dict[int, Place] = {}  # call -> what decode puts behind it
    for number, keyed in enumerate(calls):
        if counts(keyed.call):
            items, base = keyed.items, keyed.base
            while base is not None and base not in behind:  # it does not count
                items = [*calls[base].items, calls[base].output, *items]
                base = calls[base].base
            end = trie.add(items, None if base is None else behind[base])
            behind[number] = trie.make(end, keyed.output)
            found.append(_Placed(keyed.call, end))
    return found


def _is_certain(call: KnownCall) -> bool:
    return call.calls_low > 0


def _all_kv(calls: Sequence[KeyedCall]) -> int:
    """Most KV tokens that an instance ever needs."""
    trie = PrefixTrie()
    _grow(calls, trie)
    trie.settle()
    others = sum(((k.call.samples or 1) - 1) * _most(k.call.output) for k in calls)
    return others + sum(_size(place, _high) for place in trie.places())


def _most(span: Span) -> int:
    return span.low if span.high is None else span.high


def _low(place: Place) -> int:
    return place.low


def _high(place: Place) -> int:
    return place.high


def _size(place: Place, upto: Callable[[Place], int]) -> int:
    return upto(place) - (upto(place.parent) if place.parent is not None else 0)


def _begun(end: Place, number: int, upto: Callable[[Place], int]) -> int:
    """Tokens that the prompt of this number is the first to hold, and that no decode makes."""
    total, place = 0, end
    while place.first == number and place.parent is not None:
        total += 0 if place.made else _size(place, upto)
        place = place.parent
    return total


def _output(call: KnownCall, upto: Callable[[Place], int]) -> int:
    return call.tokens_low if upto is _low else call.tokens_high or call.tokens_low


def _request(call: KnownCall, end: Place) -> Range:
    """Tokens of a call's prompt and output; none for certain where it may not happen."""
    low = end.low + call.tokens_low if call.calls_low else 0
    if call.tokens_high is None or end.is_open:
        return Range(low, None)
    return Range(low, end.high + call.tokens_high)


def _longer(one: Range, other: Range) -> Range:
    high = None if one.high is None or other.high is None else max(one.high, other.high)
    return Range(max(one.low, other.low), high)
