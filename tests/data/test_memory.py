"""Peak memory is bounded by what is read at once: each data set is larger than its bound."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv  # before anything is measured
import pyarrow.parquet
import torch

from bochner.data import batches, classes_of, in_order, open_source, split
from bochner.data.blocks import Shards
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.remote import _copies
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from tests.processes import run_apart

MIB = 2**20


def fit(path: Path) -> float:
    source = open_source(path, shard_rows=1024)
    rows, validation = split(source, 0.1, seed=0)
    kernel, generator = Gaussian(bandwidth=5.0), torch.Generator().manual_seed(0)
    z = FourierMap.draw(kernel, num_inputs=source.num_inputs, num_features=16, generator=generator)
    model = FeatureModel(z, LinearHead.zeros(num_features=16, num_outputs=len(classes_of(source))))
    history = train(model, rows, validation, SGDSettings(max_epochs=1, learning_rate=1.0), verbose=False)
    return history[-1]["err"]


def read(source: Shards, rows: int) -> None:
    for stream in (in_order(source, rows), batches(source, batch_size=rows, seed=0, epoch=0, buffer=1)):
        assert sum(len(batch.X) for batch in stream) == sum(source.shard_sizes)


def read_libsvm(path: Path) -> list[int]:
    source = open_source(path)
    read(source, 64)
    return classes_of(source).tolist()


def read_csv(path: Path) -> list[str]:
    source = open_source(path, target="y")
    read(source, 4096)
    return list(source.labels)


def read_parquet(url: str) -> list[str]:
    source = open_source(url, target="y")
    read(source, 4096)
    assert not _copies  # in a temporary directory
    return list(source.labels)


def peak() -> int:
    # not ru_maxrss, which begins with the size of the process that started this one
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def measure(job: Callable[[Any], object], path: Path | str, small: Path | str | None) -> tuple[object, int]:
    """The result of a job and what it adds to the peak of its process, after the same on a small file."""
    if small is not None:
        job(small)
    start = peak()
    return job(path), peak() - start


def write_arrays(folder: Path, name: str, megabytes: int) -> None:
    """Rows of 256 numbers in two classes far apart, a megabyte (1024 rows) at a time."""
    piece = np.zeros((1024, 256), "float32")
    piece[::2, 0] = 5
    header = {"descr": "<f4", "fortran_order": False, "shape": (1024 * megabytes, 256)}
    with (folder / f"{name}.X.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(megabytes):
            file.write(piece.tobytes())
    np.save(folder / f"{name}.y.npy", np.resize(np.array(["yes", "no"]), 1024 * megabytes))


def write_csv(path: Path, thousands: int) -> None:
    with path.open("w") as file:
        file.write(",".join(f"x{j}" for j in range(20)) + ",y\n")
        for i in range(thousands):
            file.write((f"{i % 2}," * 20 + ("no", "yes")[i % 2] + "\n") * 1000)


def test_arrays_larger_than_the_memory_they_are_trained_in(tmp_path: Path) -> None:
    write_arrays(tmp_path, "small", 1)
    write_arrays(tmp_path, "large", 150)
    error, peak = run_apart(measure, fit, tmp_path / "large.X.npy", tmp_path / "small.X.npy")
    assert error == 0
    assert peak < 80 * MIB


def test_libsvm_text_larger_than_the_memory_it_is_read_in(tmp_path: Path) -> None:
    lines = [f"{i % 2} {i + 1}:1 {50_000 - i}:2\n" for i in range(1500)]  # 286 MiB dense
    (tmp_path / "wide.libsvm").write_text("".join(lines))
    classes, peak = run_apart(measure, read_libsvm, tmp_path / "wide.libsvm", None)
    assert classes == [0, 1]
    assert peak < 220 * MIB


def test_csv_text_larger_than_the_memory_it_is_read_in(tmp_path: Path) -> None:
    write_csv(tmp_path / "small.csv", 1)
    write_csv(tmp_path / "long.csv", 2000)  # 305 MiB of float64
    labels, peak = run_apart(measure, read_csv, tmp_path / "long.csv", tmp_path / "small.csv")
    assert labels == ["no", "yes"]
    assert peak < 220 * MIB


def test_parquet_at_a_url_larger_than_the_memory_it_is_read_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = {f"x{j}": rng.normal(size=8192) for j in range(20)}
    group = pyarrow.table(numbers | {"y": np.resize(["yes", "no"], 8192)})
    for name, groups in (("small", 1), ("long", 120)):  # 150 MiB
        with pyarrow.parquet.ParquetWriter(tmp_path / f"{name}.parquet", group.schema) as writer:
            for _ in range(groups):
                writer.write_table(group)
    labels, peak = run_apart(
        measure, read_parquet, f"file://{tmp_path / 'long.parquet'}", f"file://{tmp_path / 'small.parquet'}"
    )
    assert labels == ["no", "yes"]
    assert peak < 60 * MIB
