"""`open_source` selects the reader by the suffix of the path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.data import open_source
from tests.data import cases
from tests.data.cases import rows
from tests.data.test_conformance import assert_same, whole


@pytest.mark.parametrize(
    ("make", "name", "options"),
    [
        (cases.npy, "all.X.npy", {}),
        (cases.npz, "all.npz", {}),
        (cases.sharded, "", {}),
        (cases.parquet, "all.parquet", {"target": "y"}),
        (cases.parquet_directory, "", {"target": "y"}),
        (cases.feather, "all.feather", {"target": "y"}),
        (cases.libsvm, "all.libsvm", {}),
        (cases.csv, "all.csv", {"target": "y"}),
        (cases.cached, "cached", {}),
    ],
)
def test_by_suffix(make, name: str, options: dict, tmp_path: Path) -> None:
    make(tmp_path, rows(), 5)
    source = open_source(tmp_path / name, shard_rows=4, **options)
    assert max(source.shard_sizes) <= 4
    got = whole(source)
    assert_same(got._replace(X=got.X.astype("float32")), rows())


def test_npy_files_of_other_names(tmp_path: Path) -> None:
    np.save(tmp_path / "inputs.npy", np.eye(3))
    np.save(tmp_path / "labels.npy", np.arange(3))
    assert open_source(tmp_path / "inputs.npy").read(0).y.shape == (3, 0)
    assert open_source(tmp_path / "inputs.npy", target=str(tmp_path / "labels.npy")).read(0).y.tolist() == [0, 1, 2]


def test_an_archive_of_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X_test=np.eye(3), y_test=np.arange(3))
    assert open_source(tmp_path / "a.npz", columns=["X_test"], target="y_test").read(0).y.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"a\.npz has no array 'X'; it has \['X_test', 'y_test'\]"):
        open_source(tmp_path / "a.npz")


@pytest.mark.parametrize(("make", "name"), [(cases.npy, "all.X.npy"), (cases.npz, "all.npz"), (cases.sharded, ""),
                                           (cases.libsvm, "all.libsvm")])  # fmt: skip
def test_the_target_may_be_called_y(make, name: str, tmp_path: Path) -> None:
    make(tmp_path, rows(), 5)
    assert_same(whole(open_source(tmp_path / name, target="y")), rows())


@pytest.mark.parametrize(("make", "name"), [(cases.sharded, ""), (cases.libsvm, "all.libsvm")])
def test_what_cannot_be_chosen_is_refused(make, name: str, tmp_path: Path) -> None:
    make(tmp_path, rows(), 5)
    with pytest.raises(ValueError, match=r"target must be None or 'y' for .*, which has no other, got 'income'"):
        open_source(tmp_path / name, target="income")
    with pytest.raises(ValueError, match=r"columns must be None for .*, whose inputs have no names, got \['a'\]"):
        open_source(tmp_path / name, columns=["a"])


def test_an_archive_has_one_array_of_inputs(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", a=np.eye(2), b=np.eye(2))
    with pytest.raises(ValueError, match=r"columns must name the one array of inputs in .*all\.npz, got \['a', 'b'\]"):
        open_source(tmp_path / "all.npz", columns=["a", "b"])
    assert open_source(tmp_path / "all.npz", columns=["b"]).num_inputs == 2


def test_numbers_of_libsvm_files_have_no_labels(tmp_path: Path) -> None:
    cases.libsvm(tmp_path, rows(), 5)
    with pytest.raises(ValueError, match=r"labels must be None for .*all\.libsvm"):
        open_source(tmp_path / "all.libsvm", labels=["1", "2"])


@pytest.mark.parametrize(("make", "name"), [(cases.parquet, "all.parquet"), (cases.feather, "all.feather"),
                                           (cases.csv, "all.csv")])  # fmt: skip
def test_the_columns_of_a_model_from_another_file(make, name: str, tmp_path: Path) -> None:
    """For prediction: the same inputs in the same order, whatever else the file holds; no target is needed."""
    make(tmp_path, rows(), 5)
    wanted = open_source(tmp_path / name, target="y", columns=["x2", "x0"])
    assert wanted.column_names == ("x2", "x0")
    later = open_source(tmp_path / name, columns=wanted.column_names)
    got = whole(later)
    np.testing.assert_array_equal(got.X, whole(wanted).X)
    assert (got.y.shape, got.y.dtype) == ((23, 0), np.int64)
    with pytest.raises(ValueError, match=rf"{name} has no column 'x9'; its columns are \['x0', 'x1', 'x2', 'y'\]"):
        open_source(tmp_path / name, columns=["x0", "x9"])


def test_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"path must be a directory or end in one of \['.npy', '.npz', .*a\.xlsx"):
        open_source(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match=r"must hold .npy, .npz, .* files, found \['.xlsx'\]"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_source(tmp_path / "nowhere")
