"""Files of benchmarks: faults with their place, samples, and what the hub's rows become."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgc.eval.data import make_rows, read_csv, read_json_file, read_jsonl, read_lines, sample
from sgc.eval.hub import write_split
from sgc.eval.suite import Row
from sgc.eval.suites.hellaswag import SUITE as HELLASWAG
from sgc.eval.suites.mmlu import SUITE as MMLU
from sgc_ir.errors import EvalDataError


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_cells_may_hold_lines_and_quotes(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", 'x,y\n"two\nlines","a ""b"""\n\n3,4\n5\n')
    records = read_csv(path, ["y"])
    assert [record.data for record in records[:2]] == [
        {"x": "two\nlines", "y": 'a "b"'},
        {"x": "3", "y": "4"},
    ]
    assert [record.place.rpartition(":")[2] for record in records] == ["2", "5", "6"]
    assert records[2].problem.endswith("a.csv:6: there are 1 columns and not 2")


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"x": "one\u2028text\x85"}\r\n\n{"x": 2}\n')
    records = read_jsonl(path, ["x"])
    assert [record.data for record in records] == [{"x": "one\u2028text\x85"}, {"x": 2}]
    assert [record.place.rpartition(":")[2] for record in records] == ["1", "3"]


def test_a_column_that_is_nowhere_stops(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "x,y\n1,2\n")
    with pytest.raises(EvalDataError, match=r"a\.csv:1: there is no column 'z' but x, y"):
        read_csv(path, ["z"])
    with pytest.raises(EvalDataError, match=r"a\.csv:1: there are 2 columns and not 3, and so in"):
        read_csv(path, ["a", "b", "c"], header=False)


def test_a_field_may_lack_in_rows_but_not_in_all(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"x": 1}\n\n{"y": 2}\n{"x": NaN}\n')
    records = read_jsonl(path, ["x"])
    assert [record.problem.partition("a.jsonl:")[2] for record in records] == [
        "",
        "3: there is no field 'x'",
        "4: not JSON: NaN is not JSON",
    ]
    with pytest.raises(EvalDataError, match="no row has the field 'z'"):
        read_jsonl(path, ["z"])


@pytest.mark.parametrize("read", [read_jsonl, read_lines, read_json_file])
def test_what_is_no_text_is_refused(read: object, tmp_path: Path) -> None:
    with pytest.raises(EvalDataError, match="not UTF-8 text"):
        read(write(tmp_path, "a.jsonl", b"\xff\xfe\x00"))  # type: ignore[operator]
    with pytest.raises(EvalDataError, match="there is no such file"):
        read(tmp_path / "b.jsonl")  # type: ignore[operator]


def test_a_row_that_cannot_be_made_is_broken(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"x": 1}\n{"x": "one"}\n')
    rows = make_rows(read_jsonl(path, ["x"]), lambda i, r: Row(str(i), {"x": r.data["x"] + 1}))
    assert rows[0] == Row("0", {"x": 2})
    assert "a.jsonl:2: TypeError" in rows[1].problem


GROUPED = st.lists(st.sampled_from("abc"), max_size=40).map(lambda g: list(enumerate(g)))


@given(GROUPED, st.integers(0, 45), st.integers(0, 3))
def test_samples_are_spread_ordered_and_nested(
    items: list[tuple[int, str]], limit: int, seed: int
) -> None:
    def take(number: int) -> list[tuple[int, str]]:
        return sample(items, number, seed, lambda item: item[1])

    taken = take(limit)
    assert taken == sorted(taken)
    assert len(taken) == min(limit, len(items))
    assert set(taken) <= set(take(limit + 1))
    have = {g: sum(1 for _, name in items if name == g) for g in "abc"}
    got = {g: sum(1 for _, name in taken if name == g) for g in "abc"}
    open_groups = [got[g] for g in "abc" if got[g] < have[g]]
    assert max(got.values()) <= min(open_groups, default=len(items)) + 1


def test_samples_differ_by_seed() -> None:
    items = list(range(100))
    taken = {tuple(sample(items, 10, seed, lambda item: "")) for seed in range(5)}
    assert len(taken) == 5


def test_rows_of_the_hub_become_published_files(tmp_path: Path) -> None:
    assert MMLU.hub is not None
    assert HELLASWAG.hub is not None
    row = {"question": "Why, then?", "choices": ["1", "2", "3", "4"], "answer": 2, "subject": "x"}
    write_split(tmp_path, "test/{subject}_test.csv", [row], MMLU.hub)
    text = (tmp_path / "test" / "x_test.csv").read_text()
    assert text.strip() == '"Why, then?",1,2,3,4,C'
    ending = {"activity_label": "Tea", "ctx": "He", "endings": ["a", "b", "c", "d"], "label": "1"}
    write_split(tmp_path, "hellaswag_val.jsonl", [ending], HELLASWAG.hub)
    (record,) = read_jsonl(tmp_path / "hellaswag_val.jsonl", ["label"])
    assert record.data["label"] == 1
