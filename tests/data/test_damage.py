"""Truncated, changed or wrong files raise a ValueError that names them, and never give other rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bochner.data import ArrowSource, LibsvmSource, NpySource, NpzSource, ParquetSource, ShardedSource
from tests.data.cases import CASES, feather, labelled, libsvm, npy, npy_by_columns, npz, parquet, rows, save
from tests.data.test_conformance import assert_same, whole

FORMATS = {
    npy: ("all.X.npy", lambda path: NpySource(path, path.with_name("all.y.npy"), shard_rows=5)),
    npy_by_columns: ("all.X.npy", lambda path: NpySource(path, path.with_name("all.y.npy"), shard_rows=5)),
    npz: ("all.npz", lambda path: NpzSource(path, shard_rows=5)),
    parquet: ("all.parquet", lambda path: ParquetSource(path, target="y", shard_rows=5)),
    feather: ("all.feather", lambda path: ArrowSource(path, target="y", shard_rows=5)),
    libsvm: ("all.libsvm", lambda path: LibsvmSource(path, shard_rows=5)),
}


def npy_text(folder: Path, data, shard_rows: int):
    """The targets of these files are damaged."""
    return npy(folder, labelled(), shard_rows)


FORMATS[npy_text] = ("all.y.npy", lambda path: NpySource(path.with_name("all.X.npy"), path, shard_rows=5))
formats = pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)


def written(make, folder: Path):
    make(folder, rows(), 5)
    name, reopen = FORMATS[make]
    return folder / name, reopen


@formats
def test_truncated_at_every_offset(make, tmp_path: Path) -> None:
    path, reopen = written(make, tmp_path)
    content = path.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 200)):
        if make is libsvm and content[:length].endswith(b"\n") and length > 30:
            continue  # truncated after a whole line, which cannot be detected
        path.write_bytes(content[:length])
        with pytest.raises(ValueError) as caught:
            whole(reopen(path))
        assert path.name in str(caught.value)


def test_a_truncated_array_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    path, reopen = written(npy, tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"all\.X\.npy cannot be read .* it is truncated: 403 bytes, .* promises 404"):
        reopen(path)


def end_of_columns(path: Path) -> int:
    """Where the last column of a Parquet file ends; some versions write indexes before the footer."""
    about = pq.read_metadata(path)
    columns = [about.row_group(i).column(j) for i in range(about.num_row_groups) for j in range(about.num_columns)]
    starts = [c.dictionary_page_offset if c.has_dictionary_page else c.data_page_offset for c in columns]
    return max(start + c.total_compressed_size for start, c in zip(starts, columns, strict=True))


@formats
def test_truncated_while_in_use(make, tmp_path: Path) -> None:
    path, reopen = written(make, tmp_path)
    source, content = reopen(path), path.read_bytes()
    end_of_rows = end_of_columns(path) if make is parquet else len(content)
    for length in range(0, len(content) - 40, max(1, len(content) // 40)):
        path.write_bytes(content[:length])
        if length >= end_of_rows:  # all rows are there, and the footer is known
            assert_same(whole(source), rows())
            continue
        with pytest.raises(ValueError) as caught:
            whole(source)
        assert path.name in str(caught.value)


@formats
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.integers(0, 10**6), value=st.integers(0, 255))
def test_a_changed_byte_is_no_other_error(make, place: int, value: int, tmp_path: Path) -> None:
    """Most formats have no checksum: rows may differ, but the only error is a ValueError that names the file."""
    path, reopen = written(make, tmp_path)
    content = bytearray(path.read_bytes())
    content[place % len(content)] = value
    path.write_bytes(content)
    try:
        got = whole(reopen(path))
    except ValueError as error:
        assert path.name in str(error)
    else:
        assert len(got.X) <= len(rows().X) * 256


@formats
def test_an_empty_file_and_a_missing_one(make, tmp_path: Path) -> None:
    path, reopen = written(make, tmp_path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=path.name):
        reopen(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=path.name):
        reopen(path)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.array([[{}]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"X\.npy cannot be read as a \.npy array: it holds Python objects"):
        NpySource(tmp_path / "X.npy")


@pytest.mark.parametrize("values", [np.array([["a"]]), np.array([[1j]]), np.array([["2020-01-01"]], "datetime64[D]")])
def test_numbers_only(values: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", values)
    with pytest.raises(ValueError, match=r"X\.npy must hold real numbers, got dtype"):
        NpySource(tmp_path / "X.npy")


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    for name, shape in {"X": (5, 2), "flat": (5,), "cube": (5, 2, 2), "short": (4,), "none": (5, 0)}.items():
        np.save(tmp_path / f"{name}.npy", np.zeros(shape))
    for name, shape in {"flat": r"\(5,\)", "cube": r"\(5, 2, 2\)", "none": r"\(5, 0\)"}.items():
        with pytest.raises(ValueError, match=rf"{name}\.npy must have shape \[rows, inputs\], got {shape}"):
            NpySource(tmp_path / f"{name}.npy")
    with pytest.raises(ValueError, match=r"short\.npy must have as many rows as .*X\.npy, 5, got 4"):
        NpySource(tmp_path / "X.npy", tmp_path / "short.npy")
    with pytest.raises(ValueError, match=r"cube\.npy must have shape \[rows\] or \[rows, targets\]"):
        NpySource(tmp_path / "X.npy", tmp_path / "cube.npy")
    with pytest.raises(ValueError, match=r"X\.npy must have shape \[rows\], got"):
        NpySource(tmp_path / "X.npy", weight_path=tmp_path / "X.npy")


def test_headers_that_are_not_supported(tmp_path: Path) -> None:
    """A version that does not exist, and a negative number of rows."""
    np.save(tmp_path / "X.npy", np.zeros((5, 2)))
    content = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "later.npy").write_bytes(content[:6] + bytes([9, 0]) + content[8:])
    (tmp_path / "negative.npy").write_bytes(content.replace(b"(5, 2), ", b"(-5, 2),"))
    with pytest.raises(ValueError, match=r"later\.npy cannot be read as a \.npy array: .*\(9, 0\)"):
        NpySource(tmp_path / "later.npy")
    with pytest.raises(ValueError, match=r"negative\.npy cannot be read as a \.npy array: its shape is \(-5, 2\)"):
        NpySource(tmp_path / "negative.npy")


def test_unsigned_targets_that_may_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.zeros((1, 1)))
    np.save(tmp_path / "y.npy", np.array([2**63], "uint64"))
    with pytest.raises(ValueError, match=r"y\.npy must fit into int64"):
        NpySource(tmp_path / "X.npy", tmp_path / "y.npy")


def test_parts_of_different_widths(tmp_path: Path) -> None:
    save(tmp_path, "a", rows(d=3))
    save(tmp_path, "b", rows(d=4))
    with pytest.raises(ValueError, match=r"b\.X\.npy must have 3 inputs as .*a\.X\.npy has, got 4"):
        ShardedSource(tmp_path)


def test_parts_with_targets_of_different_shapes(tmp_path: Path) -> None:
    for name, targets in {"a": (23,), "b": (23, 2)}.items():
        save(tmp_path, name, rows())
        np.save(tmp_path / f"{name}.y.npy", np.zeros(targets))
    with pytest.raises(ValueError, match=r"b\.y\.npy must have rows of shape \(\) as .*a\.y\.npy has, got \(2,\)"):
        ShardedSource(tmp_path)
    with pytest.raises(ValueError, match=r"nowhere must be a directory of \.npz or \.X\.npy files"):
        ShardedSource(tmp_path / "nowhere")


def test_parts_with_and_without(tmp_path: Path) -> None:
    save(tmp_path, "a", rows())
    save(tmp_path, "b", rows(weighted=True))
    with pytest.raises(ValueError, match=r"a\.X\.npy has no weights, while .*b\.X\.npy has"):
        ShardedSource(tmp_path)
    (tmp_path / "b.weight.npy").unlink()
    (tmp_path / "b.y.npy").unlink()
    with pytest.raises(ValueError, match=r"b\.X\.npy has no targets, while .*a\.X\.npy has"):
        ShardedSource(tmp_path)
    (tmp_path / "b.X.npy").rename(tmp_path / "c.y.npy")
    with pytest.raises(ValueError, match=r"c\.y\.npy has no c\.X\.npy beside it"):
        ShardedSource(tmp_path)


def test_parts_of_different_types_become_the_widest(tmp_path: Path) -> None:
    save(tmp_path, "a", rows(5, dtype="float32"))
    save(tmp_path, "b", rows(6, dtype="float64"))
    got = whole(ShardedSource(tmp_path))
    assert got.X.dtype == np.float64
    np.testing.assert_array_equal(got.X[5:], rows(6, dtype="float64").X)


def test_integer_inputs_are_float32(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.arange(6, dtype="uint8").reshape(3, 2))
    assert_same(whole(NpySource(tmp_path / "X.npy")), rows(3)._replace(
        X=np.arange(6, dtype="float32").reshape(3, 2), y=np.zeros((3, 0), "int64")))  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_shard_rows_is_a_positive_integer(case, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shard_rows must be an integer of at least 1, got 0"):
        case.make(tmp_path, rows(), 0)
