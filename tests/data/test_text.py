"""CSV and LIBSVM text: accepted content, and errors that name the file and line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from bochner.data import CsvBlocks, LibsvmSource, open_source
from bochner.data import text as libsvm_module
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
def test_errors_name_the_problem(text: str | bytes, message: str, tmp_path: Path) -> None:
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


def source(folder: Path, text: str, **options) -> LibsvmSource:
    (folder / "a.libsvm").write_text(text)
    return LibsvmSource(folder / "a.libsvm", **options)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("one 1:2", "could not convert string to float: b'one'"),
        ("1 2", "not 'label index:value"),
        ("1 2:", "could not convert"),
        ("1 a:2", "invalid literal"),
        ("1 2:1 1:1", "sorted and unique"),
        ("1 -1:1", "Invalid index -1"),
        ("1 0:1", "the index 0, but indices count from 1"),
        ("1 99999999999999:1", "too large"),
        ("1,2 1:1", "b'1,2'"),
    ],
)
def test_a_bad_line_is_named(line: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.libsvm, line 8: ") as caught:
        source(tmp_path, "# first\n\n" + "1 1:1\n" * 5 + line + "\n1 1:1\n", shard_rows=3)
    assert reason in str(caught.value)


def test_a_last_line_without_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.libsvm, line 2: the file ends inside this line"):
        source(tmp_path, "1 1:1\n1 1:1 2:3")


def test_query_ids_and_comments_are_ignored(tmp_path: Path) -> None:
    got = whole(source(tmp_path, "1 qid:7 2:3 # 3:4\r\n0 1:1\r\n"))
    assert (got.X.tolist(), got.y.tolist()) == ([[0, 3], [1, 0]], [1, 0])


def test_labels_are_whole_numbers_only_if_all_are(tmp_path: Path) -> None:
    text = "1 1:1\n" * 4 + "1.5 1:1\n"
    assert whole(source(tmp_path, text, shard_rows=2)).y.dtype == np.float64
    assert source(tmp_path, text, shard_rows=2).read(0).y.is_floating_point()


def test_width(tmp_path: Path) -> None:
    assert source(tmp_path, "1 3:1\n").num_inputs == 3
    assert source(tmp_path, "1 3:1\n", num_inputs=5).read(0).X.shape == (1, 5)
    with pytest.raises(ValueError, match=r"num_inputs must be at least the largest index in .*a\.libsvm, 3, got 2"):
        source(tmp_path, "1 3:1\n", num_inputs=2)


rows = st.lists(
    st.tuples(
        st.integers(-5, 5), st.dictionaries(st.integers(1, 9), st.floats(-(2.0**99), 2.0**99, width=32), max_size=5)
    ),
    min_size=1,
    max_size=30,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(rows=rows, shard_rows=st.integers(1, 40))
def test_as_scikit_learn_reads_it(rows, shard_rows: int, tmp_path: Path) -> None:
    text = "".join(f"{y} " + " ".join(f"{j}:{x!r}" for j, x in sorted(row.items())) + "\n" for y, row in rows)
    got = whole(source(tmp_path, text, num_inputs=9, shard_rows=shard_rows))
    X, y = load_svmlight_file(str(tmp_path / "a.libsvm"), n_features=9, zero_based=False, dtype=np.float32)
    np.testing.assert_array_equal(got.X, X.toarray())
    np.testing.assert_array_equal(got.y, y)


@pytest.mark.parametrize("known", [None, 50_000])
def test_wide_rows_come_a_few_at_a_time(known: int | None, tmp_path: Path) -> None:
    text = "".join(f"{i % 2} {i + 1}:2 {50_000 - i}:3\n# {i}\n" for i in range(400))
    got = source(tmp_path, text, num_inputs=known)
    assert max(got.shard_sizes) * 50_000 * 4 <= 32 * 2**20
    assert (sum(got.shard_sizes), got.num_inputs) == (400, 50_000)
    last = got.read(len(got.shard_sizes) - 1).X
    assert torch.nonzero(last[-1]).flatten().tolist() == [399, 49_600]
    assert max(source(tmp_path, text, shard_rows=300).shard_sizes) == 150  # 300 lines, of which half are rows


def test_long_lines_are_parsed_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libsvm_module, "TEXT_BYTES", 100)
    text = "1 1:1 2:1 3:1\n" * 50
    got = source(tmp_path, text)
    assert max(got.shard_sizes) == 8  # lines of 14 bytes
    assert whole(got).X.shape == (50, 3)
