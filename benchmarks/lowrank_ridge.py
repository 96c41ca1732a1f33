"""Kernel ridge regression on a low-rank factor compared with scikit-learn's exact one and with Bhardwaj's Table 5.13.

python -m benchmarks.lowrank_ridge --data FOLDER          # half an hour on two cores, 6 GiB; finished cells are kept
python -m benchmarks.lowrank_ridge --data FOLDER --tables exact
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold

from benchmarks.learning import ROOT, measured, run_cell
from benchmarks.measure import machine
from bochner import LowRankRidge

Array = np.ndarray[Any, Any]
FOLDS = 10
SEEDS = 3
RANKS = [500, 1000, 1500]
TABLES = ["exact", "thesis"]


@dataclass(frozen=True)
class Case:
    """A set with the bandwidth, ridge and RMSE of Table 5.13: 10-fold cross-validation of the exact kernel.

    Sets called Scale have columns and targets of mean 0 and variance 1.
    """

    name: str
    file: str
    bandwidth: float
    ridge: float
    rmse: float
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self, folder: Path) -> tuple[Array, Array]:
        data = np.load(folder / f"{self.file}.npz")
        X, y = data["X"].astype(np.float64), data["y"].astype(np.float64)
        return (_scaled(X), _scaled(y)) if self.name.endswith("Scale") else (X, y)


CASES = {
    case.name: case
    for case in (
        Case("wine", "wine_quality", 32, 0.0039, 0.7109),
        # at this bandwidth K is near the identity, which no low-rank matrix approximates
        Case("wineScale", "wine_quality", 1, 0.5, 0.7535, {"rank": 500, "exact": True}),
        Case("cpusmall", "cpusmall", 2e6, 1.5e-5, 5.3923),
        Case("cpusmallScale", "cpusmall", 8, 2**-10, 0.1686),
        Case("cadataScale", "cadata", 2, 0.0078, 0.4664),
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="directory of .npz files")
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "benchmarks" / "lowrank_ridge.json")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), help="rows of Table 5.13")
    options = parser.parse_args()
    if not options.data.is_dir():
        raise SystemExit(f"skipped: {options.data} does not exist; give the directory of the data sets by --data.")
    cells: dict[str, Any] = json.loads(options.output.read_text()) if options.output.exists() else {}
    cells["machine"] = {**machine(), **cells.get("machine", {})}
    if "exact" in options.tables:
        run_exact(options.data, cells, options.output)
        print("\n".join(exact_table(cells)))
    if "thesis" in options.tables:
        run_thesis(options.cases, options.data, cells, options.output)
        print("\n".join(thesis_table(cells)))


def run_exact(data: Path, cells: dict[str, Any], output: Path) -> None:
    """The first of ten folds of cadataScale, 18,576 rows to fit, 2,064 to test: ours, and once the exact solution."""
    for rank in RANKS:
        for seed in range(SEEDS):
            run_cell(f"exact/LowRankRidge(rank={rank})/{seed}", cells, output, low_rank_cell, data, rank, seed)
    run_cell("exact/KernelRidge/0", cells, output, kernel_ridge_cell, data)


def low_rank_cell(data: Path, rank: int, seed: int) -> dict[str, float]:
    """The thesis's bandwidth; the penalty is chosen by the estimator, and its time counts."""
    return first_fold(data, LowRankRidge(bandwidth=CASES["cadataScale"].bandwidth, rank=rank, random_state=seed))


def kernel_ridge_cell(data: Path) -> dict[str, float]:
    """The thesis's bandwidth and ridge, tuned for the exact kernel."""
    case = CASES["cadataScale"]
    return first_fold(data, KernelRidge(kernel="rbf", gamma=1 / (2 * case.bandwidth**2), alpha=case.ridge))


def first_fold(data: Path, model: Any) -> dict[str, float]:
    X, y = CASES["cadataScale"].load(data)
    fitted, tested = next(_folds(X))
    found = measured(model, X[fitted], y[fitted], X[tested], y[tested])
    rmse = float(np.sqrt((1 - found["score"]) * y[tested].var()))
    return {"rmse": rmse, "seconds": found["seconds"], "bytes": found["bytes"]}


def run_thesis(names: list[str], data: Path, cells: dict[str, Any], output: Path) -> None:
    for name in names:
        for ridge in ("thesis", "auto"):
            run_cell(f"thesis/{name}/{ridge}", cells, output, thesis_cell, name, data, ridge)


def thesis_cell(name: str, data: Path, ridge: str) -> dict[str, float]:
    """Ten-fold RMSE, the root of the mean over folds of the mean squared error, with the thesis's penalty or our
    own."""
    case = CASES[name]
    X, y = case.load(data)
    settings = {"alpha": case.ridge if ridge == "thesis" else "auto", **case.settings}
    errors = []
    for fitted, tested in _folds(X):
        model = LowRankRidge(bandwidth=case.bandwidth, random_state=0, **settings).fit(X[fitted], y[fitted])
        errors.append(float(np.mean((model.predict(X[tested]) - y[tested]) ** 2)))
    return {"rmse": statistics.mean(errors) ** 0.5}


def exact_table(cells: dict[str, Any]) -> Iterator[str]:
    yield "| cadataScale, 18,576 rows | test RMSE | to exact | seconds | faster | memory |"
    yield "|---|---:|---:|---:|---:|---:|"
    exact = cells["exact/KernelRidge/0"]
    yield _exact_row("KernelRidge", [exact], exact)
    for rank in RANKS:
        name = f"LowRankRidge(rank={rank})"
        yield _exact_row(name, [cells[f"exact/{name}/{seed}"] for seed in range(SEEDS)], exact)


def _exact_row(name: str, found: list[dict[str, float]], exact: dict[str, float]) -> str:
    rmse, size = (statistics.mean(cell[key] for cell in found) for key in ("rmse", "bytes"))
    seconds = statistics.median(cell["seconds"] for cell in found)
    return (
        f"| {name} | {rmse:.4f} | {rmse / exact['rmse'] - 1:+.1%} | {seconds:.1f} | {exact['seconds'] / seconds:.1f} | "
        f"{size / 2**20:,.0f} MiB |"
    )


def thesis_table(cells: dict[str, Any]) -> Iterator[str]:
    yield "| set | bandwidth | thesis | ours, its ridge | ours, ridge by leave-one-out | within 2 % |"
    yield "|---|---:|---:|---:|---:|---|"
    for case in CASES.values():
        found = [cells.get(f"thesis/{case.name}/{ridge}") for ridge in ("thesis", "auto")]
        if found[0] is None or found[1] is None:
            continue
        shown = " | ".join(f"{cell['rmse']:.4f} ({cell['rmse'] / case.rmse - 1:+.1%})" for cell in found if cell)
        met = "yes" if min(cell["rmse"] for cell in found if cell) <= 1.02 * case.rmse else "no"
        yield f"| {case.name} | {case.bandwidth:g} | {case.rmse} | {shown} | {met} |"


def _folds(X: Array) -> Iterator[tuple[Array, Array]]:
    folds: Iterator[tuple[Array, Array]] = KFold(FOLDS, shuffle=True, random_state=0).split(X)
    return folds


def _scaled(A: Array) -> Array:
    scaled: Array = (A - A.mean(axis=0)) / A.std(axis=0)
    return scaled


if __name__ == "__main__":
    main()
