"""One call opens what the path ends in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.data.sources import open_source
from tests.data.sources import cases
from tests.data.sources.cases import rows
from tests.data.sources.test_conformance import assert_same, whole


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
        (cases.spooled, "spool", {}),
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


def test_what_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "a.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"path must be a directory or end in one of \['.npy', '.npz', .*a\.xlsx"):
        open_source(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match=r"must hold .npy, .npz, .* files, found \['.xlsx'\]"):
        open_source(tmp_path)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_source(tmp_path / "nowhere")
