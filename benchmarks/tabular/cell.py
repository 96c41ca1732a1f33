"""One cell: one contender on one split of one table, measured in a separate process."""

from __future__ import annotations

import importlib
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import peak_of
from benchmarks.tabular.contenders import Contender, Setting, build
from benchmarks.tabular.scores import score
from benchmarks.tabular.tables import Table, read
from benchmarks.tabular.tuned import find_contender


def run_cell(name: str, split: int, contender_name: str, *, data: Path, threads: int, device: str) -> dict[str, Any]:
    """The record of the cell: sizes, scores, seconds, memory, versions; `error` instead of scores if it failed."""
    contender = find_contender(contender_name)
    table = read(name, data)
    train, test = table.split(split)
    rows = _limited(train, contender, split, device)
    record: dict[str, Any] = {
        "set": name,
        "split": split,
        "contender": contender_name,
        "kind": table.kind,
        "metric": table.metric,
        "num_train": len(train),
        "num_fitted": len(rows),
        "num_test": len(test),
        "num_columns": table.X.shape[1],
        "threads": threads,
        "device": device,
        "machine": _machine(contender),
    }
    try:
        setting = Setting(table.kind, table.num_classes, split, threads, device)
        return record | _measure(contender, setting, table, rows, test)
    except Exception as error:
        return record | {
            "error": f"{type(error).__name__}: {error}"[:2000],
            "traceback": traceback.format_exc()[-4000:],
        }


def _limited(train: Any, contender: Contender, split: int, device: str) -> Any:
    if contender.max_rows is None or len(train) <= contender.max_rows or device != "cpu":
        return train
    return np.sort(np.random.default_rng(split).choice(train, contender.max_rows, replace=False))


def _measure(contender: Contender, setting: Setting, table: Table, rows: Any, test: Any) -> dict[str, Any]:
    for module in contender.modules:
        importlib.import_module(module)
    X, y, X_test, y_test = table.X.iloc[rows], table.y[rows], table.X.iloc[test], table.y[test]
    X, X_test = X.reset_index(drop=True), X_test.reset_index(drop=True)
    model = build(contender, setting)
    times: dict[str, float] = {}
    outputs: dict[str, Any] = {}

    def fit() -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        model.fit(X, y)
        times.update(fit_seconds=time.perf_counter() - wall, fit_cpu_seconds=time.process_time() - cpu)

    def predict() -> None:
        wall = time.perf_counter()
        outputs["predictions"] = np.asarray(model.predict(X_test))
        times["predict_seconds"] = time.perf_counter() - wall

    memory = {"fit_bytes": peak_of(fit), "predict_bytes": peak_of(predict)}
    probabilities, margins = _confidences(model, setting, X_test)
    return {"scores": score(table, y_test, outputs["predictions"], probabilities, margins), **times, **memory}


def _confidences(model: Any, setting: Setting, X: Any) -> tuple[Any, Any]:
    """Probabilities [n, C] and margins [n], where the model has them."""
    if setting.kind not in ("binary", "multiclass"):
        return None, None
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X), dtype=np.float64), None
    if setting.kind == "binary" and hasattr(model, "decision_function"):
        return None, np.asarray(model.decision_function(X))
    return None, None


def _machine(contender: Contender) -> dict[str, Any]:
    packages = dict.fromkeys([contender.package, "scikit-learn", "numpy", "torch"])
    return {
        "python": platform.python_version(),
        "versions": {package: _version(package) for package in packages},
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
        **({"commit": _commit()} if contender.is_ours else {}),
    }


def _cpu() -> str:
    """The CPU model; the same library is several times as fast with AVX-512 as without."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> str:
    """The commit of the installed bochner where it is a checkout, with "-dirty" when files differ from it."""
    folder = Path(str(importlib.import_module("bochner").__file__)).parent
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _version(package: str) -> str:
    if package == "bochner":
        return importlib.import_module("bochner").__version__
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def main() -> None:
    options = json.loads(sys.argv[1])
    output = Path(options.pop("output"))
    record = run_cell(options.pop("name"), options.pop("split"), options.pop("contender"), **_paths(options))
    output.write_text(json.dumps(record))


def _paths(options: dict[str, Any]) -> dict[str, Any]:
    return options | {"data": Path(options["data"])}


if __name__ == "__main__":
    main()
