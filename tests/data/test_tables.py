"""Named columns: which are accepted and which are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest

from bochner.data import ArrowSource, CsvBlocks, ParquetSource
from tests.data.test_conformance import whole


def write_parquet(folder: Path, **columns) -> Path:
    pa.parquet.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


def write_feather(folder: Path, **columns) -> Path:
    pa.feather.write_feather(pa.table(columns), folder / "t.feather")
    return folder / "t.feather"


kinds = pytest.mark.parametrize(
    ("write", "read"), [(write_parquet, ParquetSource), (write_feather, ArrowSource)], ids=["parquet", "arrow"]
)


@kinds
def test_columns_in_the_order_asked_for(write, read, tmp_path: Path) -> None:
    path = write(tmp_path, a=[1.0, 2.0], b=[3.0, 4.0], note=["x", "y"], y=[0, 1])
    got = whole(read(path, target="y", columns=["b", "a"]))
    np.testing.assert_array_equal(got.X, [[3, 1], [4, 2]])


@kinds
def test_no_target(write, read, tmp_path: Path) -> None:
    assert whole(read(write(tmp_path, a=[1.0, 2.0]))).y.shape == (2, 0)


@kinds
@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [[1], [2]], [None, None]])
def test_columns_that_are_not_numbers(write, read, values, tmp_path: Path) -> None:
    path = write(tmp_path, a=[1.0, 2.0], bad=values)
    with pytest.raises(ValueError, match=r"t\.\w+: column 'bad' must hold numbers, got type .*columns"):
        read(path)
    if values != ["a", "b"]:
        with pytest.raises(ValueError, match=r"t\.\w+: column 'bad' must hold numbers or text, got type"):
            read(path, target="bad")
        with pytest.raises(ValueError, match=r"t\.\w+: column 'bad' must hold text or integers .* labels, got type"):
            read(path, target="bad", labels=["a"])


@kinds
def test_all_text_among_the_inputs_is_named(write, read, tmp_path: Path) -> None:
    path = write(tmp_path, age=[39], workclass=["private"], hours=[40], sex=["f"], income=["<=50K"])
    message = r"2 columns, \['workclass', 'sex'\].* must hold numbers, got type .*string.*columns"
    with pytest.raises(ValueError, match=message):
        read(path, target="income")
    assert read(path, target="income", columns=["age", "hours"]).labels == ("<=50K",)


@kinds
def test_names_that_come_twice(write, read, tmp_path: Path) -> None:
    table = pa.table([[1.0], [2.0], [0]], names=["a", "a", "y"])
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pa.OSFile(str(tmp_path / "t.feather"), "w") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(ValueError, match=r"t\.\w+ has 2 columns 'a'; names must differ"):
        read(tmp_path / ("t.parquet" if read is ParquetSource else "t.feather"), target="y")


@kinds
def test_many_names_are_not_all_listed(write, read, tmp_path: Path) -> None:
    path = write(tmp_path, **{f"x{j}": [1.0] for j in range(500)})
    with pytest.raises(ValueError, match=r"has no column 'y'; its columns are \['x0', .*'x19', \.\.\. 500 in all\]\."):
        read(path, target="y")


@kinds
def test_numbers_in_dictionaries(write, read, tmp_path: Path) -> None:
    values = pa.array([3, 7, 3]).dictionary_encode()
    got = whole(read(write(tmp_path, a=values, y=values), target="y"))
    assert (got.X[:, 0].tolist(), got.y.tolist()) == ([3, 7, 3], [3, 7, 3])


@kinds
def test_nulls(write, read, tmp_path: Path) -> None:
    source = read(write(tmp_path, a=[1.0] * 7 + [None], y=[0] * 8), target="y", shard_rows=3)
    with pytest.raises(ValueError, match=r"t\.\w+: column 'a' must have a value in every row, but row 7 has none"):
        source.read(2)


@kinds
def test_names_that_are_not_there(write, read, tmp_path: Path) -> None:
    path = write(tmp_path, a=[1.0], y=[0])
    with pytest.raises(ValueError, match=r"has no column 'z'; its columns are \['a', 'y'\]"):
        read(path, target="z")
    with pytest.raises(ValueError, match=r"columns must not name the target or the weight, but names \['y'\]"):
        read(path, target="y", columns=["a", "y"])
    with pytest.raises(ValueError, match="must have at least one column of inputs"):
        read(path, target="y", weight="a")


def test_files_that_lack_a_column(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"a": [1.0], "b": [1.0]}), tmp_path / "1.parquet")
    pa.parquet.write_table(pa.table({"a": [1.0]}), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet has no column 'b'"):
        ParquetSource(tmp_path)


def test_booleans_and_small_floats(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, a=np.array([0.5, 1], "float16"), b=[True, False], y=[False, True])
    got = whole(ParquetSource(path, target="y"))
    assert (got.X.dtype, got.X.tolist(), got.y.tolist()) == (np.float32, [[0.5, 1], [1, 0]], [0, 1])


def test_a_csv_value_that_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1,0\n" * 300_000 + "one,0\n")
    with pytest.raises(ValueError, match=r"t\.csv cannot be read: .*one"):
        list(CsvBlocks(path, target="y"))
