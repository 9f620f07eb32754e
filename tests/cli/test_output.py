"""Output: a gapless prefix in input order, nothing lost at the end, and paths that are refused."""

from __future__ import annotations

import io
import json
import os
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgc.cli.failure import CommandError
from sgc.cli.output import OrderedWriter, check_output, encode_line, open_output, output_data


def writer_on(buffer):
    return OrderedWriter(buffer, close_handle=False)


@given(order=st.permutations(range(8)))
def test_output_is_always_a_gapless_prefix(order):
    buffer = io.StringIO()
    writer = writer_on(buffer)
    done = set()
    for index in order:
        writer.put(index, str(index))
        done.add(index)
        prefix = next(i for i in range(9) if i not in done)
        assert buffer.getvalue().split() == [str(i) for i in range(prefix)]
    assert buffer.getvalue().split() == [str(i) for i in range(8)]


def test_close_appends_the_rows_behind_a_gap_in_order_and_drops_later_ones():
    buffer = io.StringIO()
    writer = writer_on(buffer)
    for index in (4, 0, 2):
        writer.put(index, str(index))
    writer.close()
    writer.put(1, "1")
    writer.close()
    assert buffer.getvalue().split() == ["0", "2", "4"]


def test_rows_are_flushed_as_they_finish(tmp_path):
    path = tmp_path / "out.jsonl"
    writer = open_output(path)
    writer.put(0, "zero")
    assert path.read_text() == "zero\n"
    writer.put(1, "one")
    assert path.read_text() == "zero\none\n"
    writer.close()


def test_checking_a_path_changes_nothing(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("kept")
    check_output(old, {})
    check_output(new, {})
    check_output(None, {"input": old})
    assert old.read_text() == "kept"
    assert not new.exists()


def test_unwritable_paths_are_refused(tmp_path):
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, words in [
        (tmp_path, "folder"),
        (tmp_path / "no" / "out", "no folder"),
        (tmp_path / "dangling", "link to a file that is not there"),
        (tmp_path / "loop", "link to a file that is not there"),
    ]:
        with pytest.raises(CommandError, match=words):
            check_output(path, {"input": tmp_path / "rows.jsonl"})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_write_protected_file_is_refused(tmp_path):
    path = tmp_path / "out"
    path.write_text("")
    path.chmod(0o400)
    with pytest.raises(CommandError, match="cannot write"):
        check_output(path, {})


def test_output_equal_to_an_input_is_refused_under_every_name(tmp_path, monkeypatch):
    source = tmp_path / "rows.jsonl"
    source.write_text("{}")
    (tmp_path / "soft").symlink_to(source)
    os.link(source, tmp_path / "hard")
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    for name in ("rows.jsonl", "./rows.jsonl", "soft", "hard"):
        with pytest.raises(CommandError, match="is the input"):
            check_output(Path(name), {"input": source})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (float("nan"), "value is nan"),
        ({"a": [1, float("-inf")]}, r"value\['a'\]\[1\] is -inf"),
        ({1: 2}, "key 1"),
        (b"x", "bytes"),
        ([10**5000], r"value\[0\] is an integer of about 5000 digits"),
        ([Decimal(1)], r"value\[0\] is a Decimal"),
    ],
)
def test_what_json_cannot_hold_is_named(value, words):
    with pytest.raises(ValueError, match=words):
        output_data(value)


def test_tuples_become_lists():
    assert output_data({"a": (1, (2.5, None, True, "x"))}) == {"a": [1, [2.5, None, True, "x"]]}


@given(st.text())
def test_every_text_makes_a_line_of_utf8(text):
    line = encode_line({"text": text, "half": "\ud800"})
    assert "\n" not in line
    line.encode()
    assert json.loads(line) == {"text": text, "half": "\ud800"}
