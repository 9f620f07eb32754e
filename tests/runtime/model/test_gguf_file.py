"""The GGUF header reader against the `gguf` package's writer, and against hostile bytes."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from sgc_ir.errors import ModelError
from sgc_runtime.model.gguf_file import open_gguf


def write(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("u8", 200)
    writer.add_int8("i8", -7)
    writer.add_uint16("u16", 60_000)
    writer.add_int16("i16", -30_000)
    writer.add_uint32("u32", 4_000_000_000)
    writer.add_int32("i32", -2_000_000_000)
    writer.add_uint64("u64", 1 << 60)
    writer.add_int64("i64", -(1 << 60))
    writer.add_float32("f32", 0.5)
    writer.add_float64("f64", 0.1)
    writer.add_bool("yes", True)
    writer.add_string("text", "Grüße 你好\n")
    writer.add_array("numbers", [3, -1, 4])
    writer.add_array("floats", [0.5, 0.25])
    writer.add_array("words", ["", "a", "ß"])
    writer.add_tensor("a", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("b", np.arange(5, dtype=np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_reads_what_was_written(tmp_path: Path) -> None:
    file = open_gguf(write(tmp_path / "x.gguf"))
    assert file.metadata == {
        "general.architecture": "llama",
        "u8": 200,
        "i8": -7,
        "u16": 60_000,
        "i16": -30_000,
        "u32": 4_000_000_000,
        "i32": -2_000_000_000,
        "u64": 1 << 60,
        "i64": -(1 << 60),
        "f32": 0.5,
        "f64": 0.1,
        "yes": True,
        "text": "Grüße 你好\n",
        "numbers": [3, -1, 4],
        "floats": [0.5, 0.25],
        "words": ["", "a", "ß"],
    }
    assert {name: tensor.shape for name, tensor in file.tensors.items()} == {"a": (2, 3), "b": (5,)}
    stored = file.raw(file.tensors["a"], 24).view(np.float32)
    assert stored.tolist() == [0, 1, 2, 3, 4, 5]
    assert file.raw(file.tensors["b"], 10).view(np.float16).tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ModelError, match="tensor b lies beyond its end"):
        file.raw(file.tensors["b"], 1 << 20)


def test_equal_to_the_gguf_package(tmp_path: Path) -> None:
    path = write(tmp_path / "x.gguf")
    theirs = gguf.GGUFReader(path)
    ours = open_gguf(path)
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert mine.offset == tensor.data_offset
        assert mine.kind == int(tensor.tensor_type)
        assert mine.shape == tuple(reversed(tensor.shape.tolist()))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a GGUF file"),
        (b"PK\x03\x04 a zip", "is not a GGUF file"),
        (b"GGUF" + struct.pack("<I", 1), "GGUF version 1"),
        (b"GGUF" + struct.pack(">I", 3), "GGUF version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "its header breaks off"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "its header breaks off"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 62) + b"key", "its header breaks off"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 77), "value type 77"),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 8, 1 << 61),
            "its header breaks off",
        ),
        (
            b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"k", 9, 4, 1 << 61),
            "its header breaks off",
        ),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"t", 9000), "9000 dimensions"),
        (b"GGUF" + struct.pack("<IQQQ2sII", 3, 0, 1, 2, b"\xff\xfe", 4, 1), "breaks off"),
    ],
)
def test_hostile_headers(data: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=words) as caught:
        open_gguf(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nested_arrays_have_a_depth_limit(tmp_path: Path) -> None:
    deep = struct.pack("<IQ", 9, 1) * 50 + struct.pack("<IQI", 4, 1, 7)
    path = tmp_path / "deep.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"k", 9) + deep)
    with pytest.raises(ModelError, match="value type 9"):
        open_gguf(path)


def test_flipped_bytes_give_a_file_or_a_model_error(tmp_path: Path) -> None:
    whole = write(tmp_path / "x.gguf").read_bytes()
    chance = random.Random(0)
    path = tmp_path / "flipped.gguf"
    refusals = []
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
        try:
            open_gguf(path)
        except ModelError as error:
            refusals.append(str(error))
    assert 0 < len(refusals) < 300
    assert all(str(path) in message for message in refusals)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        open_gguf(tmp_path / "nothing.gguf")
    with pytest.raises(ModelError, match="cannot read"):
        open_gguf(tmp_path)
