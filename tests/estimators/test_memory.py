"""`memory_budget` is a promise: what a fit takes beside its data, as the system counts it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.search.plan import parse_bytes
from tests.estimators.cases import QUICK, rings

MIB = 2**20

CHILD = """
import ctypes, gc, json, pathlib, re, sys, warnings
import numpy as np, torch
from bochner import KernelClassifier, KernelRegressor
from bochner.data import NpySource

warnings.simplefilter("ignore")
torch.set_num_threads(1)
folder = pathlib.Path(sys.argv[1])

def rows(count, width):
    G = np.random.default_rng(0)
    X = G.normal(size=(count, width)).astype("float32")
    return X, X.sum(axis=1) / width**0.5

def fit(case, count, budget, **small):
    cls = KernelRegressor if case["solver"] in ("ridge", "landmarks") else KernelClassifier
    X, y = rows(count, case["width"])
    y = y if cls is KernelRegressor else np.digitize(y, [-0.5, 0.5])
    settings = {"max_epochs": 1, "learning_rate": 0.5, "random_state": 0, **case["settings"], **small}
    machine = cls(solver=case["solver"], memory_budget=budget, **settings)
    data = (X, y)
    if case.get("file"):
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        data = (NpySource(folder / "X.npy", folder / "y.npy", shard_rows=1024),)
    del X, y
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory of fits before must not hide what this one takes
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    start = status("VmRSS")
    machine.fit(*data)
    return status("VmHWM") - start

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024

grown = []
for case in json.loads(sys.argv[2]):
    fit(case, 200, None, num_features=16)
    grown.append(fit(case, case["rows"], case["budget"]))
print(json.dumps(grown))
"""


def case(solver: str, budget: str, *, rows: int, width: int, file: bool = False, **settings: object) -> dict:
    return {
        "solver": solver,
        "budget": budget,
        "rows": rows,
        "width": width,
        "file": file,
        "settings": settings,
    }


CASES = [
    case("sgd", "150MB", rows=16_000, width=20, num_features=8192),  # 500 MiB of features
    case("sgd", "400MB", rows=20_000, width=20, num_features=16_384),  # 1.2 GiB
    case("sgd", "150MB", rows=20_000, width=64, num_features=4096, file=True),
    case("sgd", "250MB", rows=3_000, width=784, num_features=8192, optimizer="momentum"),
    case("ridge", "150MB", rows=60_000, width=10, num_features=512, ridge=1e-4),
    case("landmarks", "200MB", rows=60_000, width=10, num_features=1000, ridge=1e-2),  # 229 MiB of kernel matrix
    case("sgd", "200MB", rows=30_000, width=20, num_features=512, adapt="agop", adapt_rounds=1),  # 234 MiB
]


def clears_its_peak() -> bool:
    return Path("/proc/self/clear_refs").exists() and sys.platform == "linux"


@pytest.mark.skipif(not clears_its_peak(), reason="the peak of a process is read from Linux's /proc")
def test_a_fit_stays_within_its_budget(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path), json.dumps(CASES)]
    child = subprocess.run(command, capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    for made, grown in zip(CASES, json.loads(child.stdout), strict=True):
        assert grown < parse_bytes(made["budget"]), (made, grown / MIB)
        assert grown > 5 * MIB, (made, grown / MIB)  # the measure sees something


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga"])
def test_too_little_says_how_much_is_needed(solver: str) -> None:
    X, y = rings(150)
    machine = KernelClassifier(solver=solver, **{**QUICK, "max_epochs": 2}, solver_params={"memory_budget": "1MB"})
    with pytest.raises(ValueError, match=r"memory_budget must be at least \d+MB .*, got 1.0MB; give more") as caught:
        machine.fit(X, y)
    needed = re.search(r"at least (\d+)MB", str(caught.value))
    assert needed is not None
    enough = machine.set_params(memory_budget=f"{needed[1]}MB").fit(X, y)
    assert enough.solver_ == solver
    less = 3 * int(needed[1]) // 4
    with pytest.raises(ValueError, match="memory_budget must be at least"):
        machine.set_params(memory_budget=f"{less}MB").fit(X, y)


def test_shards_of_a_source_count_as_they_were_opened() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 100)).astype("float32")
    y = (X[:, 0] > 0).astype(int)
    machine = KernelClassifier(
        solver="sgd", n_components=64, solver_params={"max_epochs": 1, "learning_rate": 1.0, "memory_budget": "100MB"}
    )
    with pytest.raises(ValueError, match=r"shards of 20000 rows, got 100.0MB; .* a source of smaller shards"):
        machine.fit(ArraySource(X, y, shard_rows=20_000))
    assert machine.fit(ArraySource(X, y, shard_rows=500)).score(X, y) > 0.5
    assert machine.fit(X, y).score(X, y) > 0.5


def test_the_budget_does_not_change_exact_results() -> None:
    X, y = rings(400)
    shared = {"solver": "landmarks", "num_features": 100, "bandwidth": 1.0, "ridge": 1e-3, "random_state": 0}
    tight, free = (
        KernelRegressor(**shared, solver_params={"memory_budget": b}).fit(X, y).predict(X) for b in ("70MB", None)
    )
    np.testing.assert_allclose(tight, free, atol=1e-5)


def test_words_for_bytes() -> None:
    for text, value in [("500MB", 500 * MIB), ("2 GB", 2048 * MIB), ("1.5k", 1536), ("64", 64), (" 3 tb ", 3 * 2**40)]:
        assert parse_bytes(text) == value
    assert parse_bytes(None) is None
    assert parse_bytes(12) == 12
    for bad in ("", "MB", "-3MB", "3 eggs", "1e9"):
        with pytest.raises(ValueError, match="memory_budget must be bytes or text"):
            parse_bytes(bad)
    for bad in (0, -1, True):
        with pytest.raises(ValueError, match="memory_budget must be a positive number of bytes"):
            parse_bytes(bad)
