"""The slot table against the slots of requests that come, grow, change and leave."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sgc_ir.params import SamplingParams
from sgc_kernels.select import select_kernels
from sgc_kernels.step import ROW, TOKEN, StepTensors, prepare_step
from sgc_runtime.device.slot_table import Ints, SlotTable
from sgc_runtime.device.uploads import Uploads
from sgc_runtime.engine.request import Request
from sgc_runtime.engine.scheduler import Chunk
from sgc_runtime.sampling.row import SamplingRow

CPU = torch.device("cpu")


def table_of(rows: int) -> SlotTable:
    kernels = select_kernels(CPU, torch.float32).rows
    return SlotTable(rows, 64, padding_slot=999, kernels=kernels, uploads=Uploads(CPU), device=CPU)


def request_of(first_slot: int, prompt: int = 10) -> Request:
    row = SamplingRow(SamplingParams(max_tokens=20), 0)
    request = Request(np.arange(prompt, dtype=np.int32), on_done=lambda *_: None, row=row)
    request.slots[:] = np.arange(first_slot, first_slot + len(request.slots))
    return request


def number(table: SlotTable, *chunks: Chunk) -> Ints:
    """The numbers of a step, which has begun."""
    numbers = table.number(chunks)
    out = StepTensors.empty(len(numbers), CPU)
    prepare_step(torch.from_numpy(numbers), table.table, table.last_ids, out)
    return numbers


def check(table: SlotTable, request: Request, length: int) -> None:
    row, slots = table.row(request), request.slots[:length].tolist()
    assert table.mirror[row, :length].tolist() == slots
    assert table.table[row, :length].tolist() == slots
    assert request.num_tabled == length


def test_slots_before_a_chunk_are_brought() -> None:
    table, request = table_of(2), request_of(100)
    numbers = number(table, Chunk(request, 8, 10))
    assert numbers.tolist() == [[table.row(request), 108, 8, 8], [table.row(request), 109, 9, 9]]
    check(table, request, 10)
    assert table.changed == {table.row(request)}


def test_growing_rows_bring_nothing() -> None:
    table, request = table_of(2), request_of(100)
    number(table, Chunk(request, 0, 10))
    table.changed.clear()
    request.pending = 1
    numbers = number(table, Chunk(request, 10, 11))
    assert numbers[0, TOKEN] == -1  # the id is on the device
    assert not table.changed
    check(table, request, 11)


def test_many_tokens_are_numbered_as_few_are() -> None:
    table, other = table_of(3), table_of(3)
    first, second, third = request_of(100), request_of(200, 25), request_of(300)
    again = request_of(200, 25)
    second.pending = 1
    again.pending = 1
    numbers = number(table, Chunk(first, 8, 10), Chunk(second, 3, 26), Chunk(third, 9, 10))
    few = [number(other, Chunk(again, place, place + 1)) for place in range(3, 26)]
    assert numbers[2:25, 1:].tolist() == np.concatenate(few)[:, 1:].tolist()
    assert numbers[:, ROW].tolist() == [table.row(first)] * 2 + [table.row(second)] * 23 + [
        table.row(third)
    ]
    assert numbers[24, TOKEN] == -1
    check(table, second, 26)
    check(table, third, 10)


def test_changed_slots_are_brought_again() -> None:
    table, request = table_of(2), request_of(100)
    number(table, Chunk(request, 0, 10))
    table.changed.clear()
    request.slots[:6] = np.arange(6) + 50  # they were there already: another request's stay
    request.num_tabled = 0
    request.push(7)
    number(table, Chunk(request, 10, 11))
    check(table, request, 11)
    assert table.changed == {table.row(request)}


def test_tokens_taken_back_leave_a_mark() -> None:
    table, request = table_of(2), request_of(100)
    number(table, Chunk(request, 0, 10))
    table.changed.clear()
    request.num_tabled = 8
    request.slots[8] = 400
    number(table, Chunk(request, 8, 9))
    check(table, request, 9)
    assert table.changed == {table.row(request)}


def test_rows_are_handed_on() -> None:
    table = table_of(2)
    first, second, third = (request_of(100 * i) for i in range(3))
    number(table, Chunk(first, 0, 10), Chunk(second, 0, 10))
    row = table.row(first)
    table.changed.clear()
    table.forget(first)
    table.forget(first)
    assert first.num_tabled == 0
    assert table.changed == {row}
    assert table.row(third) == row
    number(table, Chunk(third, 5, 10))
    check(table, third, 10)
    with pytest.raises(AssertionError, match="more requests"):
        table.row(request_of(900))
