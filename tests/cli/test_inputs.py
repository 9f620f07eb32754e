"""Input rows: every form, every way in which rows and files break, and the places named."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgc.cli.failure import CommandError
from sgc.cli.inputs import Inputs


def keep(name: str, cell: str) -> str:
    return cell


def read(path, convert=keep):
    return list(Inputs(str(path), convert).rows())


def test_jsonl_rows_have_index_and_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n  \n{"a": 2}')
    rows = read(path)
    assert [(r.index, r.place, r.arguments) for r in rows] == [
        (0, f"{path}:1", {"a": 1}),
        (1, f"{path}:4", {"a": 2}),
    ]
    assert Inputs(str(path), keep).count() == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "a list"),
        ("null", "null"),
        ('"a"', "a text"),
        ("3", "a number"),
        ("true", "true or false"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": ' + "[" * 700 + "]" * 700 + "}", "nested too deeply"),
        ('{"a": ' + '{"b":' * 201 + "1" + "}" * 201 + "}", "nested too deeply"),
        ('{"a": 1e400}', "1e400 is larger"),
        ('{"a": 1, "b": 2, "a": 3}', "'a' stands twice"),
        ('{"a": [{"b": 1, "b": 1}]}', "'b' stands twice"),
    ],
)
def test_a_broken_line_is_one_broken_row(tmp_path, line, words):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n' + line + '\n{"a": 2}\n')
    rows = read(path)
    assert [r.arguments for r in rows] == [{"a": 1}, None, {"a": 2}]
    assert rows[1].place == f"{path}:2"
    assert words in rows[1].problem


def test_byte_order_mark_and_crlf(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes('\ufeff{"a": "é"}\r\n{"a": "日本"}\r\n'.encode())
    assert [r.arguments for r in read(path)] == [{"a": "é"}, {"a": "日本"}]


def test_undecodable_file_is_refused_before_the_run(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    with pytest.raises(CommandError, match="not UTF-8"):
        Inputs(str(path), keep).count()


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_missing_file_and_folder(tmp_path, name):
    with pytest.raises(CommandError, match=r"no such file|folder"):
        Inputs(str(tmp_path / name), keep).count()


def test_json_list_names_the_line_of_each_member(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[\n {"a": [1,\n 2]},\n\n {"a": 3}, 5\n]\n')
    rows = read(path)
    assert [(r.place, r.arguments) for r in rows] == [
        (f"{path}:2", {"a": [1, 2]}),
        (f"{path}:5", {"a": 3}),
        (f"{path}:5", None),
    ]


@given(rows=st.lists(st.dictionaries(st.text(max_size=3), st.integers(), max_size=3), max_size=5))
@settings(max_examples=40, deadline=None)
def test_json_list_reads_what_json_writes(rows, tmp_path_factory):
    path = tmp_path_factory.mktemp("json") / "rows.json"
    for indent in (None, 2):
        path.write_text(json.dumps(rows, indent=indent, ensure_ascii=True))
        usable = [r if _has_no_surrogates(r) else None for r in rows]
        assert [r.arguments for r in read(path)] == usable


def _has_no_surrogates(row):
    return not any("\ud800" <= c <= "\udfff" for key in row for c in key)


BROKEN_JSON = [
    "",
    "[",
    "[1,]",
    "[1 2]",
    "[1] x",
    "{",
    '{"a": 1} {}',
    "[NaN]",
    "[1e999]",
    "[" * 9999,
]


@pytest.mark.parametrize("text", BROKEN_JSON)
def test_broken_json_file_is_refused(tmp_path, text):
    path = tmp_path / "rows.json"
    path.write_text(text)
    with pytest.raises(CommandError, match="is not JSON: line 1"):
        Inputs(str(path), keep).count()


def test_json_object_alone_is_one_row(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('\n{"a": 1}\n')
    assert [(r.place, r.arguments) for r in read(path)] == [(f"{path}:2", {"a": 1})]


def test_a_text_in_a_json_file_is_no_row(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(["x", '{"a": 1}', {"a": 2}]))
    assert [r.arguments for r in read(path)] == [None, None, {"a": 2}]
    assert "a text" in read(path)[1].problem


def test_csv_cells_are_converted_and_quoted_lines_counted(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('n,text\n1,"two\nlines, one cell"\n\nx,short\n3\n4,a,b\n')

    def convert(name, cell):
        return int(cell) if name == "n" else cell

    rows = read(path, convert)
    assert [(r.place, r.arguments) for r in rows] == [
        (f"{path}:2", {"n": 1, "text": "two\nlines, one cell"}),
        (f"{path}:5", None),
        (f"{path}:6", {"n": 3}),
        (f"{path}:7", None),
    ]
    assert "1 cells more" in rows[3].problem


CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)


@given(table=st.lists(st.tuples(CELL, CELL).filter(any), max_size=5))
@settings(max_examples=40, deadline=None)
def test_csv_reads_what_csv_writes(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    buffer = io.StringIO()
    csv.writer(buffer).writerows([("a", "b"), *table])
    path.write_bytes(buffer.getvalue().encode())
    rows = read(path)
    assert [tuple(r.arguments.values()) for r in rows] == table
    lines = buffer.getvalue()
    for row in rows:
        line = int(row.place.rpartition(":")[2])
        assert 2 <= line <= lines.count("\n") + lines.count("\r") + 1


@pytest.mark.parametrize("text", ["a,a\n1,2\n", 'a\n"never closed\n'])
def test_broken_csv_is_refused(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    with pytest.raises(CommandError, match="is not CSV"):
        Inputs(str(path), keep).count()


def test_standard_input_is_jsonl(monkeypatch):
    data = io.TextIOWrapper(io.BytesIO('{"a": "ü"}\nx\n'.encode()), encoding="latin-1")
    monkeypatch.setattr("sys.stdin", data)
    inputs = Inputs("-", keep)
    assert inputs.count() is None
    rows = list(inputs.rows())
    assert [(r.place, r.arguments) for r in rows] == [("stdin:1", {"a": "ü"}), ("stdin:2", None)]


def test_rows_are_read_lazily(monkeypatch):
    class Endless(io.TextIOBase):
        def reconfigure(self, **_):
            pass

        def readline(self, size=-1):
            return '{"a": 1}\n'

        def __next__(self):
            return self.readline()

    monkeypatch.setattr("sys.stdin", Endless())
    rows = Inputs("-", keep).rows()
    assert [next(rows).index for _ in range(5)] == list(range(5))
