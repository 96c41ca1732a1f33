"""Every source, made from the same rows."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import torch
from scipy.sparse import coo_array, csr_matrix

from bochner.data import (
    ArraySource,
    ArrowSource,
    CsvBlocks,
    LibsvmSource,
    MappedSource,
    NpySource,
    NpzSource,
    ParquetSource,
    ShardedSource,
    SparseSource,
    cache_to_disk,
)
from bochner.data.blocks import Block, Source


class Rows(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None


def rows(n: int = 23, d: int = 3, *, dtype: str = "float32", target: str = "int64", weighted: bool = False) -> Rows:
    random = np.random.default_rng(n)
    X = random.standard_normal((n, d)).astype(dtype)
    X[0, -1] = 1.5  # the last input of a LIBSVM file is only seen where it is not zero
    y = random.integers(-2, 4, n) if target == "int64" else random.standard_normal(n)
    return Rows(X, y.astype(target), random.random(n).astype(dtype) if weighted else None)


def labelled(n: int = 23, **options) -> Rows:
    """Rows whose targets are text, of different lengths."""
    data = rows(n, **options)
    return data._replace(y=np.array(["née", "<=50K", "b, c", "a", "10", "z"])[data.y])


def table(data: Rows) -> pa.Table:
    columns = {f"x{j}": data.X[:, j] for j in range(data.X.shape[1])} | {"y": data.y}
    return pa.table(columns | ({} if data.weight is None else {"w": data.weight}))


def names(data: Rows) -> dict:
    return {"target": "y", "weight": None if data.weight is None else "w"}


def save(folder: Path, name: str, data: Rows) -> None:
    for word, part in zip(Rows._fields, data, strict=True):
        if part is not None:
            np.save(folder / f"{name}.{word}.npy", part)


def pieces(data: Rows, step: int) -> list[Rows]:
    starts = range(0, len(data.X), step)
    return [Rows(*(None if part is None else part[i : i + step] for part in data)) for i in starts]


def arrays(folder: Path, data: Rows, shard_rows: int) -> Source:
    return ArraySource(*data, shard_rows=shard_rows)


def tensors(folder: Path, data: Rows, shard_rows: int) -> Source:
    parts = (part if part is None or part.dtype.kind == "U" else torch.tensor(part) for part in data)
    return ArraySource(*parts, shard_rows=shard_rows)


def sparse(folder: Path, data: Rows, shard_rows: int) -> Source:
    return SparseSource(csr_matrix(data.X), data.y, data.weight, shard_rows=shard_rows)


def sparse_by_coordinates(folder: Path, data: Rows, shard_rows: int) -> Source:
    return SparseSource(coo_array(data.X), data.y, data.weight, shard_rows=shard_rows)


def mapped_arrays(folder: Path, data: Rows, shard_rows: int) -> Source:
    save(folder, "all", data)
    X = np.load(folder / "all.X.npy", mmap_mode="r")
    return ArraySource(X, data.y, data.weight, shard_rows=shard_rows)


def npy(folder: Path, data: Rows, shard_rows: int) -> Source:
    save(folder, "all", data)
    weight = None if data.weight is None else folder / "all.weight.npy"
    return NpySource(folder / "all.X.npy", folder / "all.y.npy", weight, shard_rows=shard_rows)


def npy_by_columns(folder: Path, data: Rows, shard_rows: int) -> Source:
    return npy(folder, data._replace(X=np.asfortranarray(data.X)), shard_rows)


def npy_big_endian(folder: Path, data: Rows, shard_rows: int) -> Source:
    return npy(folder, Rows(*(None if part is None else part.astype(part.dtype.newbyteorder(">")) for part in data)),
               shard_rows)  # fmt: skip


def npz(folder: Path, data: Rows, shard_rows: int) -> Source:
    weight = {} if data.weight is None else {"weight": data.weight}
    np.savez_compressed(folder / "all.npz", X=data.X, y=data.y, **weight)
    return NpzSource(folder / "all.npz", weight=next(iter(weight), None), shard_rows=shard_rows)


def sharded(folder: Path, data: Rows, shard_rows: int) -> Source:
    for i, piece in enumerate(pieces(data, 9)):
        if i == 1:
            weight = {} if piece.weight is None else {"weight": piece.weight}
            np.savez(folder / f"{i}.npz", X=piece.X, y=piece.y, **weight)
        else:
            save(folder, str(i), piece)
    return ShardedSource(folder, shard_rows=shard_rows)


def parquet(folder: Path, data: Rows, shard_rows: int) -> Source:
    pa.parquet.write_table(table(data), folder / "all.parquet", row_group_size=10)
    return ParquetSource(folder / "all.parquet", **names(data), shard_rows=shard_rows)


def parquet_directory(folder: Path, data: Rows, shard_rows: int) -> Source:
    for i, piece in enumerate(pieces(data, 9)):
        here = table(piece)
        order = here.column_names[::-1] if i else here.column_names  # columns go by name, not by place
        pa.parquet.write_table(here.select(order), folder / f"{i}.parquet")
    return ParquetSource(folder, **names(data), shard_rows=shard_rows)


def feather(folder: Path, data: Rows, shard_rows: int) -> Source:
    pa.feather.write_feather(table(data), folder / "all.feather", chunksize=10, compression="lz4")
    return ArrowSource(folder / "all.feather", **names(data), shard_rows=shard_rows)


def libsvm(folder: Path, data: Rows, shard_rows: int) -> Source:
    lines = [
        f"{label} " + " ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1) if value) + "  # a row\n\n"
        for row, label in zip(data.X.tolist(), data.y.tolist(), strict=True)
    ]
    (folder / "all.libsvm").write_text("# rows of a test\n" + "".join(lines))
    return LibsvmSource(folder / "all.libsvm", shard_rows=shard_rows)


def csv(folder: Path, data: Rows, shard_rows: int) -> Source:
    pa.csv.write_csv(table(data), folder / "all.csv")
    return cache_to_disk(CsvBlocks(folder / "all.csv", **names(data)), shard_rows=shard_rows)


def libsvm_gz(folder: Path, data: Rows, shard_rows: int) -> Source:
    libsvm(folder, data, shard_rows)
    (folder / "all.libsvm.gz").write_bytes(gzip.compress((folder / "all.libsvm").read_bytes()))
    return LibsvmSource(folder / "all.libsvm.gz", shard_rows=shard_rows)


def csv_gz(folder: Path, data: Rows, shard_rows: int) -> Source:
    pa.csv.write_csv(table(data), folder / "all.csv")
    (folder / "all.csv.gz").write_bytes(gzip.compress((folder / "all.csv").read_bytes()))
    return cache_to_disk(CsvBlocks(folder / "all.csv.gz", **names(data)), shard_rows=shard_rows)


def cached(folder: Path, data: Rows, shard_rows: int) -> Source:
    labels = sorted(set(data.y.tolist())) if data.y.dtype.kind == "U" else None
    return cache_to_disk(pieces(data, 4), folder / "cached", shard_rows=shard_rows, labels=labels)


def cached_source(folder: Path, data: Rows, shard_rows: int) -> Source:
    return cache_to_disk(arrays(folder, data, shard_rows), shard_rows=shard_rows)


def changed(folder: Path, data: Rows, shard_rows: int) -> Source:
    return MappedSource(arrays(folder, data._replace(X=data.X * 2), shard_rows), halve)


def halve(block: Block) -> Block:
    return block._replace(X=block.X / 2)


class Case(NamedTuple):
    make: Callable[[Path, Rows, int], Source]
    weights: bool = True
    text: bool = True
    float32_only: bool = False  # the format or the reader has no other
    float64_only: bool = False

    def __str__(self) -> str:
        return self.make.__name__


CASES = [
    Case(arrays),
    Case(tensors),
    Case(mapped_arrays),
    Case(npy),
    Case(npy_by_columns),
    Case(npy_big_endian),
    Case(npz),
    Case(sharded),
    Case(parquet),
    Case(parquet_directory),
    Case(feather),
    Case(sparse),
    Case(sparse_by_coordinates),
    Case(libsvm, weights=False, text=False, float32_only=True),
    Case(libsvm_gz, weights=False, text=False, float32_only=True),
    Case(csv, float64_only=True),
    Case(csv_gz, float64_only=True),
    Case(cached),
    Case(cached_source),
    Case(changed),
]
