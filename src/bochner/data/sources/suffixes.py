"""Which source reads a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bochner.data.blocks import Source
from bochner.data.sources.arrow import ArrowSource
from bochner.data.sources.csv_text import csv_blocks
from bochner.data.sources.libsvm import LibsvmSource
from bochner.data.sources.npy import FilePath, NpySource, NpzSource, ShardedSource
from bochner.data.sources.parquet import ParquetSource
from bochner.data.sources.spooled import spool
from bochner.data.sources.stored import members

TABLES = {".parquet": ParquetSource, ".arrow": ArrowSource, ".feather": ArrowSource}
LIBSVM = (".libsvm", ".svm", ".svmlight", ".txt")
KNOWN = [".npy", ".npz", *TABLES, ".csv", *LIBSVM]


def open_source(
    path: FilePath,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    num_inputs: int | None = None,
    shard_rows: int = 8192,
) -> Source:
    """The source that reads `path`, by its suffix; a directory goes by the files in it.

    | path | target, weight |
    |---|---|
    | `.npy` | paths of .npy files; for `NAME.X.npy` by default `NAME.y.npy` and `NAME.weight.npy` if they exist |
    | `.npz` | names in the archive, by default `y` and `weight` if it has them; columns=[NAME] names X |
    | `.parquet`, `.arrow`, `.feather`, `.csv` | names of columns; a CSV file is spooled to a temporary directory |
    | `.libsvm`, `.svm`, `.svmlight`, `.txt` | the label of each line; `num_inputs` where the width is known |

    >>> import numpy as np, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(folder + "/a.npz", X=np.eye(3), y=np.arange(3))
    ...     open_source(folder + "/a.npz").read(0).y
    tensor([0, 1, 2])
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    suffix = _suffix_inside(path) if path.is_dir() else path.suffix.lower()
    if suffix in TABLES:
        return TABLES[suffix](path, target=target, columns=columns, weight=weight, shard_rows=shard_rows)
    if suffix == ".csv":
        return spool(csv_blocks(path, target=target, columns=columns, weight=weight), shard_rows=shard_rows)
    if path.is_dir():
        return ShardedSource(path, shard_rows=shard_rows)
    if suffix == ".npy":
        return NpySource(
            path,
            *(given or _beside(path, word) for given, word in ((target, "y"), (weight, "weight"))),
            shard_rows=shard_rows,
        )
    if suffix == ".npz":
        return _archive(path, target, columns, weight, shard_rows)
    if suffix in LIBSVM:
        return LibsvmSource(path, num_inputs=num_inputs, shard_rows=shard_rows)
    raise ValueError(f"path must be a directory or end in one of {KNOWN}, got {path}.")


def _suffix_inside(directory: Path) -> str:
    """The first of the suffixes that directories are made of."""
    found = {path.suffix.lower() for path in directory.iterdir()}
    known = [suffix for suffix in (".npy", ".npz", *TABLES) if suffix in found]
    if not known:
        raise ValueError(f"{directory} must hold .npy, .npz, {', '.join(TABLES)} files, found {sorted(found)}.")
    return known[0]


def _beside(path: Path, word: str) -> Path | None:
    other = path.with_name(path.name.removesuffix(".X.npy") + f".{word}.npy")
    return other if path.name.endswith(".X.npy") and other.exists() else None


def _archive(
    path: Path, target: str | None, columns: Sequence[str] | None, weight: str | None, shard_rows: int
) -> NpzSource:
    names = members(path)
    y, w = target or ("y" if "y" in names else None), weight or ("weight" if "weight" in names else None)
    if columns is not None and len(columns) != 1:
        raise ValueError(f"columns must name the one array of inputs in {path}, got {list(columns)}.")
    return NpzSource(path, X=columns[0] if columns else "X", y=y, weight=w, shard_rows=shard_rows)
