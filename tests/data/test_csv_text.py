"""CSV files as people have them: what is read, and what the error says when it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from bochner.data import CsvBlocks, open_source
from tests.data.test_conformance import whole


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "t.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"t\.csv cannot be read: Empty CSV file"),
        ("a,y\n", r"t\.csv must have at least one row below its header line, got none"),
        ("a,y", r"t\.csv cannot be read: .*Empty CSV file"),
        ("a,y\n1,2\n3\n", r"t\.csv cannot be read: .*Expected 2 columns, got 1"),
        ("a,y\n1,2\n3,4,5\n", r"t\.csv cannot be read: .*Expected 2 columns, got 3"),
        (b"a,y\n\xff\xfe,1\n", r"t\.csv: column 'a' must hold numbers"),
        (b"\xff\xfe,y\n1,1\n", r"t\.csv cannot be read: .*codec can't decode"),
        (b"a,y\n1,\xff\n", r"t\.csv cannot be read: .*invalid UTF8"),
        ("a,b\n1,2\n", r"t\.csv has no column 'y'; its columns are \['a', 'b'\]"),
        ("y\n1\n", r"t\.csv must have at least one column of inputs, has \['y'\]"),
        ("a,a,y\n1,2,3\n", r"t\.csv has 2 columns 'a'; names must differ"),
        ("a,y,y\n1,2,3\n", r"t\.csv has 2 columns 'y'; names must differ"),
        ("a,b,y\n1,x,3\n", r"t\.csv: column 'b' must hold numbers, got type string.*columns"),
        ("a,b,c,y\n1,x,z,3\n", r"t\.csv: 2 columns, \['b', 'c'\].*got type string"),
        ("a,b,y\n1,,3\n", r"t\.csv: column 'b' must hold numbers, got type null"),
        ("a,y\n1,0\n,1\n", r"t\.csv: column 'a' must have a value in every row, but row 1 has none; fill it in"),
        ("a,y\n1,0\n2,\n", r"t\.csv: column 'y' must have a value in every row, but row 1 has none"),
        ("a,b,y\n1,2,0\n1,inf,0\n", r"t\.csv: X must be finite, but row 1, column 'b' is inf"),
        ("a,y\n1,0\n1,1e999\n", r"t\.csv: column 'y' must be finite, but row 1 is inf"),
    ],
)
def test_what_is_wrong_is_said(text: str | bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        open_source(write(tmp_path, text), target="y")


def test_rows_are_counted_through_the_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column 'a' must have a value in every row, but row 300000 has none"):
        open_source(write(tmp_path, "a,y\n" + "1,0\n" * 300_000 + ",0\n"), target="y")


@pytest.mark.parametrize(
    "text", ["a,y\r\n1,0\r\n2,1\r\n", "\ufeffa,y\n1,0\n2,1\n", "a,y\n1,0\n2,1", '"a","y"\n"1","0"\n" 2", 1\n']
)
def test_the_ways_to_write_it(text: str, tmp_path: Path) -> None:
    got = whole(open_source(write(tmp_path, text), target="y"))
    assert (got.X.tolist(), got.y.tolist()) == ([[1], [2]], [0, 1])


def test_columns_that_are_not_used_may_be_anything(tmp_path: Path) -> None:
    path = write(tmp_path, "id,id,a,note,y\nk,,1,,no\nl,,2,x,yes\n")
    source = open_source(path, target="y", columns=["a"])
    assert (source.labels, whole(source).X.tolist()) == (("no", "yes"), [[1], [2]])


def test_without_a_target_the_file_is_not_searched_for_one(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, "a,b\n1,2\n"))
    assert (source.column_names, source.labels, whole(source).y.shape) == (("a", "b"), None, (1, 0))


def test_blocks_can_be_read_again(tmp_path: Path) -> None:
    blocks = CsvBlocks(write(tmp_path, "a,y\n1,no\n2,yes\n"), target="y")
    for _ in range(2):
        assert [block.y.tolist() for block in blocks] == [[0, 1]]


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"t\.csv does not exist"):
        CsvBlocks(tmp_path / "t.csv")
