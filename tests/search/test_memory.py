"""`memory_budget`: the memory that a fit allocates besides its data, as the operating system counts it."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from bochner import KernelClassifier, KernelRegressor
from bochner.data import ArraySource
from bochner.ops import TILE_ELEMENTS
from bochner.search.memory import Sizes, plan_memory
from bochner.search.plan import parse_bytes
from tests.estimators.cases import QUICK, SOLVER_PARAMS, options, rings
from tests.processes import run_code

MIB = 2**20

CHILD = """
import ctypes, gc, json, pathlib, re, sys, warnings
import numpy as np, torch
from bochner import KernelClassifier, KernelRegressor
from bochner.data import NpySource

warnings.simplefilter("ignore")
torch.set_num_threads(1)
directory = pathlib.Path(sys.argv[1])

def rows(count, width):
    G = np.random.default_rng(0)
    X = G.normal(size=(count, width)).astype("float32")
    return X, X.sum(axis=1) / width**0.5

def fit(case, count, budget, **small):
    cls = KernelRegressor if case["solver"] in ("ridge", "landmarks") else KernelClassifier
    X, y = rows(count, case["width"])
    y = y if cls is KernelRegressor else np.digitize(y, [-0.5, 0.5])
    params = {"max_epochs": 1, "learning_rate": 0.5, "memory_budget": budget, **case["params"]}
    settings = {"preset": None, "solver": case["solver"], "random_state": 0, **case["settings"], **small}
    estimator = cls(solver_params=params, **settings)
    data = (X, y)
    if case.get("file"):
        np.save(directory / "X.npy", X)
        np.save(directory / "y.npy", y)
        data = (NpySource(directory / "X.npy", directory / "y.npy", shard_rows=1024),)
    del X, y
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory kept from earlier fits must not hide what this one allocates
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    start = status("VmRSS")
    estimator.fit(*data)
    return status("VmHWM") - start

def status(name):
    return int(re.search(name + r":\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024

grown = []
for case in json.loads(sys.argv[2]):
    fit(case, 200, None, n_components=16)
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
        "settings": {name: value for name, value in settings.items() if name not in SOLVER_PARAMS},
        "params": {name: value for name, value in settings.items() if name in SOLVER_PARAMS},
    }


CASES = [
    case("sgd", "150MB", rows=16_000, width=20, n_components=8192),  # 500 MiB of features
    case("sgd", "150MB", rows=20_000, width=64, n_components=4096, file=True),
    case("sgd", "250MB", rows=3_000, width=784, n_components=8192, optimizer="momentum"),
    case("ridge", "150MB", rows=60_000, width=10, n_components=512, alpha=1e-4),
    case("landmarks", "200MB", rows=60_000, width=10, n_components=1000, alpha=1e-2),  # 229 MiB of kernel matrix
    case("sgd", "200MB", rows=30_000, width=20, n_components=512, adapt={"method": "agop", "rounds": 1}),  # 234 MiB
]


def can_reset_peak() -> bool:
    return Path("/proc/self/clear_refs").exists() and sys.platform == "linux"


@pytest.mark.skipif(not can_reset_peak(), reason="the peak of a process is read from Linux's /proc")
def test_a_fit_stays_within_its_budget(tmp_path: Path) -> None:
    child = run_code(CHILD, tmp_path, json.dumps(CASES))
    assert child.returncode == 0, child.stderr
    for setup, grown in zip(CASES, json.loads(child.stdout), strict=True):
        assert grown < parse_bytes(setup["budget"]), (setup, grown / MIB)
        assert grown > 5 * MIB, (setup, grown / MIB)  # the measurement is sensitive


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"])
def test_the_error_says_how_much_is_needed(solver: str) -> None:
    X, y = rings(150)

    def fit(budget: str) -> KernelClassifier:
        settings = options(QUICK, solver=solver, max_epochs=2, memory_budget=budget)
        return KernelClassifier(**settings).fit(X, y)

    with pytest.raises(ValueError, match=r"memory_budget must be at least \d+MB .*, got 1.0MB; increase it") as caught:
        fit("1MB")
    needed = re.search(r"at least (\d+)MB", str(caught.value))
    assert needed is not None
    assert fit(f"{needed[1]}MB").solver_ == solver
    with pytest.raises(ValueError, match="memory_budget must be at least"):
        fit(f"{3 * int(needed[1]) // 4}MB")


def test_shards_of_a_source_count_as_they_were_opened() -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 100)).astype("float32")
    y = (X[:, 0] > 0).astype(int)
    estimator = KernelClassifier(
        preset=None,
        solver="sgd",
        n_components=64,
        solver_params={"max_epochs": 1, "learning_rate": 1.0, "memory_budget": "100MB"},
    )
    with pytest.raises(ValueError, match=r"shards of 20000 rows, got 100.0MB; .* smaller shards"):
        estimator.fit(ArraySource(X, y, shard_rows=20_000))
    assert estimator.fit(ArraySource(X, y, shard_rows=500)).score(X, y) > 0.5
    assert estimator.fit(X, y).score(X, y) > 0.5


def test_the_budget_does_not_change_exact_results() -> None:
    X, y = rings(400)
    shared = {
        "preset": None,
        "solver": "landmarks",
        "n_components": 100,
        "bandwidth": 1.0,
        "alpha": 1e-3,
        "random_state": 0,
    }
    tight, free = (
        KernelRegressor(**shared, solver_params={"memory_budget": b}).fit(X, y).predict(X) for b in ("70MB", None)
    )
    np.testing.assert_allclose(tight, free, atol=1e-5)


def test_words_for_bytes() -> None:
    for text, value in [("500MB", 500 * MIB), ("2 GB", 2048 * MIB), ("1.5k", 1536), ("64", 64), (" 3 tb ", 3 * 2**40)]:
        assert parse_bytes(text) == value
    assert parse_bytes(12) == 12
    for bad in ("", "MB", "-3MB", "3 eggs", "1e9"):
        with pytest.raises(ValueError, match="memory_budget must be bytes or text"):
            parse_bytes(bad)
    for bad in (0, -1, True):
        with pytest.raises(ValueError, match="memory_budget must be a positive number of bytes"):
            parse_bytes(bad)


def test_fewer_landmarks_and_preconditioner_rows_within_a_budget() -> None:
    sizes = Sizes(num_rows=10**6, shard_rows=4096, num_inputs=100, num_outputs=10, num_features=512, item=4)
    roomy, tight = (
        plan_memory(budget, sizes, solver="sgd", preconditioner_rows=2048, metric=(2048, 2**16))
        for budget in (2**33, 300 * MIB)
    )
    assert roomy.metric_landmarks == roomy.preconditioner_rows == 2048
    assert 64 <= tight.metric_landmarks < 2048
    assert tight.metric_cache >= 0
    assert tight.cache < roomy.cache


def test_solvers_by_the_memory_that_they_need() -> None:
    """The second moments of "ridge" are D x D, the residuals of "saga" n x t; "sgd" stores neither."""
    wide = Sizes(num_rows=10**5, shard_rows=4096, num_inputs=20, num_outputs=3, num_features=8192, item=4)
    long = Sizes(num_rows=10**8, shard_rows=4096, num_inputs=20, num_outputs=10, num_features=512, item=4)
    assert wide.solver("ridge") > wide.solver("sgd") + 8 * 8192**2
    assert long.solver("saga") >= long.solver("sgd") + 4 * 10**9
    assert wide.solver("newton") == wide.solver("landmarks")


def test_the_bytes_are_those_of_the_arrays() -> None:
    """Each model of a phase, against a list of its arrays: their shapes, and the bytes of a number."""
    n, d, t, D = 5000, 7, 3, 96
    sizes = Sizes(num_rows=n, shard_rows=512, num_inputs=d, num_outputs=t, num_features=D, item=4)

    def count(*arrays: tuple[int, ...]) -> int:
        return sum(math.prod(array) for array in arrays)

    block = 512  # rows of K that "askotch" factors: n / 50, and at least 512
    assert sizes.blocks == count(
        *3 * [(n, d, 4), (n, t, 4), (n, 4)],  # inputs, targets and weights
        *8 * [(n, t, 8)],
        *5 * [(block, block, 8)],
        *3 * [(TILE_ELEMENTS, 4)],
    )
    assert sizes.landmarks == count(*5 * [(D, D, 8)], *3 * [(D, d, 8)], *8 * [(D, t, 8)], *5 * [(n, D, 8)])
    assert sizes.normal_equations == count(*5 * [(D, D, 8)], *3 * [(2048, D, 4)])
    assert sizes.residuals == count((n, t, 4), *3 * [(2048, D, 4)])
    assert sizes.preconditioner(600) == count((600 + 256, D, 4), (600 + 256, d, 4), *4 * [(600, 600, 8)], (600, 600, 4))
    assert sizes.rule == count(*3 * [(1000, d, 4)], *2 * [(1000, d, 8)], *2 * [(1000, 1000, 8)])
