"""Peak memory is bounded by what is read at once: each data set is larger than its bound."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

MIB = 2**20

CHILD = """
import json, pathlib, re, sys
import pyarrow.csv, torch
from bochner.data import batches, in_order
from bochner.data import classes_of, open_source, split
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import LinearHead
from bochner.models.heads import FeatureModel
from bochner.solvers.sgd import train
from bochner.solvers.optimizers import SGDSettings

folder = pathlib.Path(sys.argv[1])
torch.set_num_threads(1)

def fit(path):
    source = open_source(path, shard_rows=1024)
    rows, validation = split(source, 0.1, seed=0)
    kernel, generator = Gaussian(bandwidth=5.0), torch.Generator().manual_seed(0)
    z = FourierMap.draw(kernel, num_inputs=source.num_inputs, num_features=16, generator=generator)
    model = FeatureModel(z, LinearHead.zeros(num_features=16, num_outputs=len(classes_of(source))))
    history = train(model, rows, validation, SGDSettings(max_epochs=1, learning_rate=1.0), verbose=False)
    return history[-1]["err"]

def read(source, rows):
    for stream in (in_order(source, rows), batches(source, batch_size=rows, seed=0, epoch=0, buffer=1)):
        assert sum(len(batch.X) for batch in stream) == sum(source.shard_sizes)
    return source

def peak():  # not ru_maxrss, which begins with the size of the process that started this one
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024

JOBS = {
    "npy": (lambda: fit(folder / "small.X.npy"), lambda: fit(folder / "large.X.npy")),
    "libsvm": (lambda: None, lambda: classes_of(read(open_source(folder / "wide.libsvm"), 64)).tolist()),
    "csv": (
        lambda: read(open_source(folder / "small.csv", target="y"), 4096),
        lambda: list(read(open_source(folder / "long.csv", target="y"), 4096).labels),
    ),
}
warm_up, job = JOBS[sys.argv[2]]
warm_up()
start = peak()
found = job()
print(json.dumps([found, peak() - start]))
"""


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


def read_in_child(folder: Path, kind: str) -> tuple[object, int]:
    """The result of a child process and its peak memory; separate, since allocators keep memory freed by earlier
    jobs."""
    child = subprocess.run([sys.executable, "-c", CHILD, folder, kind], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    found, peak = json.loads(child.stdout)
    return found, peak


def test_arrays_larger_than_the_memory_they_are_trained_in(tmp_path: Path) -> None:
    write_arrays(tmp_path, "small", 1)
    write_arrays(tmp_path, "large", 150)
    error, peak = read_in_child(tmp_path, "npy")
    assert error == 0
    assert peak < 80 * MIB


def test_libsvm_text_larger_than_the_memory_it_is_read_in(tmp_path: Path) -> None:
    lines = [f"{i % 2} {i + 1}:1 {50_000 - i}:2\n" for i in range(1500)]  # 286 MiB dense
    (tmp_path / "wide.libsvm").write_text("".join(lines))
    classes, peak = read_in_child(tmp_path, "libsvm")
    assert classes == [0, 1]
    assert peak < 220 * MIB


def test_csv_text_larger_than_the_memory_it_is_read_in(tmp_path: Path) -> None:
    write_csv(tmp_path / "small.csv", 1)
    write_csv(tmp_path / "long.csv", 2000)  # 305 MiB of float64
    labels, peak = read_in_child(tmp_path, "csv")
    assert labels == ["no", "yes"]
    assert peak < 220 * MIB
