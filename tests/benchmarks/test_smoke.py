"""The benchmark runs, measures every figure, and does not write the page in its quick form."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import gaussian, maps
from benchmarks.measure import peak_memory
from benchmarks.memory import peak_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks_suite.md"

LANDMARKS = ["uniform", "kmeans", "leverage", "pivoted-cholesky"]
STRUCTURED = ["hadamard1", "hadamard2", "hadamard3", "fastfood", "circulant"]
CASES = {
    ("Gaussian map", "seconds"): ["default", "form='cosine'", "projection='hadamard3'"],
    ("Gaussian map", "bytes"): ["transform", "stream"],
    ("Gaussian map", "error"): ["iid", "orthogonal", "sobol", *STRUCTURED],
    ("Structured projections", "seconds"): [f"{name}: {part}" for part in ["projection", "map"] for name in STRUCTURED],
    ("Structured projections", "bytes"): [f"{name}: parameters" for name in STRUCTURED],
    ("Sparse Gaussian", "seconds"): ["map, paired", "map, cosine", "projection"],
    ("Sparse Gaussian", "bytes"): ["parameters"],
    ("Nystrom", "seconds"): LANDMARKS,
    ("Nystrom", "error"): LANDMARKS,
}


def page() -> bytes | None:
    return PAGE.read_bytes() if PAGE.exists() else None


def peak_of_this_process(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> int:
    return max(1, peak_of(prepare(*arguments)))  # what an earlier test has freed may serve again


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    output = tmp_path_factory.mktemp("benchmarks") / "maps.json"
    before = page()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["maps", "--quick", "--output", str(output)])
        patch.setattr(gaussian, "peak_memory", peak_of_this_process)
        maps.main()
    assert page() == before, "the quick run must not write docs/benchmarks_suite.md"
    return json.loads(output.read_text())


def test_every_figure_is_there(record: dict[str, Any]) -> None:
    for (table, unit), cases in CASES.items():
        rows = [row["case"] for row in record["rows"] if row["table"].startswith(table) and row["unit"] == unit]
        tables = 2 if table == "Structured projections" else 1  # two numbers of inputs
        assert sorted(rows) == sorted(cases * tables)


def test_figures_are_finite_and_positive(record: dict[str, Any]) -> None:
    for row in record["rows"]:
        figures = [*row["ours"], *row["theirs"], *row["ratio"].values()]
        assert all(math.isfinite(figure) and figure > 0 for figure in figures), row
    assert all(rate > 0 for rate in record["ceilings"].values())


def test_machine_is_described(record: dict[str, Any]) -> None:
    assert all(record["machine"][key] for key in ["cpu", "cores", "memory_gib", "python", "torch", "numpy", "sklearn"])


def filled(mebibytes: int) -> Callable[[], object]:
    return lambda: np.ones((mebibytes, 2**20), np.uint8)


def test_peak_memory_is_that_of_the_run_in_a_new_process() -> None:
    assert 60 < peak_memory(filled, 64) / 2**20 < 80
