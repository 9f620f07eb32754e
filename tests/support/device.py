"""Steps of a device runner over a pool, driven without an engine: requests that share prefixes,
come, grow by several tokens, are rolled back and leave."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from support.model import Runner

from sgc_ir.params import SamplingParams
from sgc_runtime.cache.kv_pool import KVPool
from sgc_runtime.device.runner import DeviceOptions, DeviceRunner
from sgc_runtime.engine.host_runner import HostFlight, HostRunner
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.runner import Flight
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.engine.step_input import Positions
from sgc_runtime.model.loader import LoadedModel
from sgc_runtime.sampling.row import SamplingRow


class HostSampler:
    """Chooses on the device of the logits as the host's runner does; ids are there at once."""

    def __init__(self) -> None:
        self._host = HostRunner.__new__(HostRunner)
        self._host._last_ids = {}

    def start(
        self,
        logits: torch.Tensor,
        rows: Sequence[Request],
        logit_rows: Sequence[int],
        recording: Sequence[tuple[Positions, int]],
        scoring: Sequence[tuple[Positions, int]],
        last_ids: torch.Tensor,
        table_rows: Sequence[int],
    ) -> Flight:
        from sgc_runtime.engine import host_runner

        parts = [logits[row : row + p[2] - p[1]] for p, row in recording]
        recorded = [
            host_runner._recorded(p, part) for (p, _), part in zip(recording, parts, strict=True)
        ]
        scored = [logits[row : row + p[2] - p[1]] for p, row in scoring]
        scores = host_runner._scores([p for p, _ in scoring], torch.cat(scored)) if scoring else []
        flight = self._host._choose(rows, logits[list(logit_rows)], recorded, scores)
        if len(rows):
            ids = torch.tensor(flight.results.ids).to(last_ids)
            last_ids[torch.tensor(list(table_rows)).to(last_ids)] = ids
        return flight

    def again(
        self, flight: Flight, rows: Sequence[int], excluded: Sequence[Sequence[int]]
    ) -> list[int]:
        assert isinstance(flight, HostFlight)
        return self._host.again(flight, rows, excluded)


def pool_of(loaded: LoadedModel, num_slots: int) -> KVPool:
    """A pool with a spare slot, full of NaN."""
    config, model = loaded.config, loaded.model
    shape = (config.num_layers, num_slots, config.num_kv_heads, config.head_dim)
    pool = KVPool(*shape, model.dtype, model.device, spare=1)
    for tensor in (*pool.k, *pool.v):
        tensor.fill_(float("nan"))
    return pool


def runner_of(
    loaded: LoadedModel, pool: KVPool, rows: int, sampler: Any = None, **options: Any
) -> DeviceRunner:
    defaults: Mapping[str, Any] = {
        "max_running": rows,
        "max_context": loaded.config.max_positions,
        "padding_slot": pool.num_slots,
    }
    made = DeviceOptions(**{**defaults, **options})
    return DeviceRunner(loaded.model, pool, sampler or HostSampler(), made)


def check_that_logits_outlive_a_step(runner: DeviceRunner, sizes: Sequence[int]) -> None:
    """Steps of so many rows, a token each: the logits of each are there while the next one runs."""
    params, count = SamplingParams(temperature=0, max_tokens=2), len(sizes)
    requests = []
    for i in range(max(sizes)):
        ids = torch.randint(3, 97, (count,), generator=torch.Generator().manual_seed(i))
        row = SamplingRow(params, 0)
        requests.append(Request(ids.int().numpy(), on_done=lambda *_: None, row=row))
        requests[i].slots[:count] = range(i * count, (i + 1) * count)
        requests[i].num_tokens = 0
    before: tuple[torch.Tensor, torch.Tensor] | None = None
    for size in sizes:
        chunks = []
        for request in requests[:size]:
            request.num_tokens += 1
            chunks.append(Chunk(request, request.num_tokens - 1, request.num_tokens))
        logits = runner.launch(chunks).logits
        assert logits.shape[0] == size
        if before is not None:
            assert torch.equal(*before)
        assert bool(torch.isfinite(logits).all())
        before = logits, logits.clone()
    for request in requests:
        runner.forget(request)


class Fleet:
    """Requests in flight over one pool, computed by a runner step by step, where every logit is
    compared with the model's own over the request's tokens alone.

    Args:
        reference: the model on the CPU, where `loaded` is elsewhere.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        seed: int,
        reference: LoadedModel | None = None,
        num_slots: int = 900,
        rows: int = 8,
        **options: Any,
    ) -> None:
        self.reference, self.chance = reference or loaded, random.Random(seed)
        self.pool = pool_of(loaded, num_slots)
        self.runner = runner_of(loaded, self.pool, rows, **options)
        free = list(range(num_slots))
        self.chance.shuffle(free)
        self.free, self.most = free, rows
        self.flying: list[Request] = []
        self.done: dict[Request, int] = {}
        self.users: dict[int, int] = {}
        self.checked = 0

    def live(self, turns: int, back: float = 0.15, moves: float = 0.15) -> None:
        """So many steps, before each of which requests may come, leave, be rolled back (with the
        chance `back`) or get other slots (`moves`)."""
        chance = self.chance
        for _ in range(turns):
            if len(self.flying) < self.most and chance.random() < 0.3:
                self.join()
            if len(self.flying) > 2 and chance.random() < 0.1:
                self.leave(chance.choice(self.flying))
            settled = [r for r in self.flying if self.done[r] > 4 and not r.pending]
            if settled and chance.random() < back:
                self.roll_back(chance.choice(settled))
            if settled and moves and chance.random() < moves:
                self.move(chance.choice(settled))
            self.step()

    def join(self) -> None:
        """A new request, perhaps with the beginning of another one's tokens and slots."""
        chance = self.chance
        if self.flying and chance.random() < 0.7:
            other = chance.choice(self.flying)
            self._join(other, chance.randint(0, self.done[other]))
        else:
            self._join(None, 0)

    def _join(self, other: Request | None, count: int) -> Request:
        """A new request with `count` tokens and slots of another one."""
        chance = self.chance
        shared: list[int] = []
        slots: list[int] = []
        if other is not None:
            shared, slots = other.tokens[:count].tolist(), other.slots[:count].tolist()
        own = chance.choices(range(3, 97), k=chance.randint(1, 12))
        params = SamplingParams(temperature=0, max_tokens=100)
        request = Request(
            torch.tensor(shared + own, dtype=torch.int32).numpy(),
            on_done=lambda *_: None,
            row=SamplingRow(params, 0),
        )
        request.slots[: len(slots)] = slots
        for slot in slots:
            self.users[slot] += 1
        self.flying.append(request)
        self.done[request] = len(slots)
        return request

    def leave(self, request: Request) -> None:
        self.flying.remove(request)
        self._release(request, 0)
        del self.done[request]
        self.runner.forget(request)

    def roll_back(self, request: Request) -> None:
        """Take a few tokens back, perhaps more than it owns alone."""
        count = min(self.chance.randint(1, 3), self.done[request] - 1)
        kept = self.done[request] - count
        self._release(request, kept)
        self.done[request] = kept
        request.num_tokens, request.pending = kept + 1, 0
        request.tokens[kept] = self.chance.randint(3, 96)
        request.num_tabled = min(request.num_tabled, kept)

    def move(self, request: Request) -> None:
        """Its computed tokens turn out to lie in other slots as well (a copy stands for them)."""
        count = self.chance.randint(1, self.done[request])
        mine = request.slots[:count].tolist()
        fresh = [self._take() for _ in range(count)]
        for tensor in (*self.pool.k, *self.pool.v):
            tensor[torch.tensor(fresh)] = tensor[torch.tensor(mine)]
        self._give(mine)
        request.slots[:count] = fresh
        request.num_tabled = 0

    def step(self) -> None:
        """Compute the next tokens of some, and check what comes out."""
        chance, chunks = self.chance, []
        for request in self.flying:
            start = self.done[request]
            left = request.num_ahead - start
            if left == 0 or chance.random() < 0.1:
                continue
            end = start + (left if chance.random() < 0.6 else chance.randint(1, left))
            chunks.append(self._chunk(request, start, end))
        if not chunks:
            return
        if len(self.flying) < self.most and chance.random() < 0.3:
            chunks.insert(chance.randint(0, len(chunks)), self._follow(chance.choice(chunks)))
        launched = self.runner.launch(chunks)
        for request, _, end in chunks:
            self.done[request] = end
            if request.pending and end == request.num_tokens + 1:  # the id is known now
                request.num_tokens, request.pending = end, 0
        ends = {request: end for request, _, end in chunks}
        self._check(launched.sampling, launched.logits, ends)
        self._sample(launched.sampling)

    def _chunk(self, request: Request, start: int, end: int) -> Chunk:
        for place in range(start, end):
            request.slots[place] = self._take()
        return Chunk(request, start, end)

    def _follow(self, chunk: Chunk) -> Chunk:
        """A new request that shares what another one computes in the same step."""
        known = chunk.end - chunk.is_pending
        request = self._join(chunk.request, self.chance.randint(chunk.start, known))
        start = self.done[request]
        return self._chunk(request, start, self.chance.randint(start + 1, request.num_tokens))

    def _check(
        self, requests: Sequence[Request], logits: torch.Tensor, ends: Mapping[Request, int]
    ) -> None:
        expected = {r for r, end in ends.items() if end == r.num_tokens}
        assert set(requests) == expected
        if not requests:
            return
        texts = [request.tokens[: ends[request]].tolist() for request in requests]
        runner = Runner(self.reference, num_slots=sum(map(len, texts)))
        parts = runner.step([(runner.sequence(ids), len(ids)) for ids in texts])
        alone = torch.stack([part[-1] for part in parts])
        torch.testing.assert_close(logits.cpu(), alone, atol=1e-4, rtol=1e-4)
        self.checked += len(requests)

    def _sample(self, requests: Sequence[Request]) -> None:
        """The next id of each, which the runner alone knows for some."""
        table = self.runner.table
        for request in requests:
            if request.num_tokens + 1 >= len(request.tokens):
                continue
            token = self.chance.randint(3, 96)
            request.tokens[request.num_tokens] = 0 if self.chance.random() < 0.7 else token
            if request.tokens[request.num_tokens] == 0:
                request.tokens[request.num_tokens] = token
                request.pending = 1
                table.last_ids[table.row(request)] = token
                continue
            more = self.chance.choice((1, 1, 2, 5))  # forced ones behind it
            last = min(request.num_tokens + more, len(request.tokens) - 1)
            for place in range(request.num_tokens + 1, last):
                request.tokens[place] = self.chance.randint(3, 96)
            request.num_tokens = max(last, request.num_tokens + 1)

    def _take(self) -> int:
        slot = self.free.pop()
        self.users[slot] = 1
        return slot

    def _release(self, request: Request, kept: int) -> None:
        self._give(request.slots[kept : self.done[request]].tolist())

    def _give(self, slots: Sequence[int]) -> None:
        for slot in slots:
            self.users[slot] -= 1
            if not self.users[slot]:
                self.free.insert(0, slot)
                for tensor in (*self.pool.k, *self.pool.v):
                    tensor[slot] = float("nan")
