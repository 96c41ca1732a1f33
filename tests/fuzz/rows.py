"""Files of rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bochner.data import open_source
from tests.fuzz.reader import Reader, written

ROWS = 12
LIBSVM = "".join(f"{i % 2} 1:{i}.5 3:-2e-1\n" for i in range(ROWS))
CSV = "age,hours,income\n" + "".join(f"{20 + i},{40 - i},{'>50K' if i % 3 else '<=50K'}\n" for i in range(ROWS))


def read_rows(path: Path, **options: Any) -> int:
    """Every row of a source, each as wide as the source says."""
    source = open_source(path, **options)
    count = 0
    for shard, size in enumerate(source.shard_sizes):
        block = source.read(shard)
        assert block.X.shape == (size, source.num_inputs), "a block must have the rows and columns that were announced"
        assert len(block.y) == size
        count += size
    return count


def rows() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    drawn = np.random.default_rng(0)
    return drawn.normal(size=(ROWS, 3)).astype("float32"), drawn.integers(3, size=ROWS)


def npy(folder: Path) -> Path:
    X, y = rows()
    np.save(folder / "good.y.npy", y)
    np.save(folder / "good.X.npy", X)
    return folder / "good.X.npy"


def npz(folder: Path) -> Path:
    X, y = rows()
    np.savez(folder / "good.npz", X=X, y=y)
    return folder / "good.npz"


def table(suffix: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import pyarrow
        from pyarrow import feather, parquet

        X, y = rows()
        columns = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y})
        path = folder / f"good{suffix}"
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(columns, path)
        return path

    return make


def packed(text: str) -> bytes:
    return gzip.compress(text.encode(), mtime=0)


ROW_READERS: dict[str, Reader] = {
    "npy": Reader(npy, read_rows, (b"(1000000000, 3)", b"'<f8'", b"'|O'", b"True")),
    "npz": Reader(npz, partial(read_rows, target="y")),
    "parquet": Reader(table(".parquet"), partial(read_rows, target="y")),
    "feather": Reader(table(".feather"), partial(read_rows, target="y")),
    "csv": Reader(written("good.csv", CSV), partial(read_rows, target="income")),
    "csv.gz": Reader(written("good.csv.gz", packed(CSV)), partial(read_rows, target="income")),
    "libsvm": Reader(written("good.libsvm", LIBSVM), read_rows, (b" 999999999:1", b"qid:1", b"#")),
    "libsvm.gz": Reader(written("good.libsvm.gz", packed(LIBSVM)), read_rows),
}
