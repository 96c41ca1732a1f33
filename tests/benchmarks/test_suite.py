"""The suite runs with only scikit-learn, measures every part, and does not write the page in its quick form."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.step_contenders import Plain, Trained
from benchmarks.step_problem import BN50, TIMIT, Shape, make_problem
from benchmarks.suite import __main__ as suite
from benchmarks.suite import peers, ridge
from benchmarks.suite.race import CEILING, PLAIN
from benchmarks.suite.sizes import quick

CPU = torch.device("cpu")
TABLES = ["steps, TIMIT", "steps, BN-50", "Selection", "Prediction", "Nystrom", "Hadamard", "Factors", "Kernel matrix"]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    monkeypatch.setattr(peers, "has", lambda peer: peer == "scikit-learn")
    monkeypatch.setattr(suite, "PAGE", tmp_path / "page.md")
    suite.main(["--quick", "--output", str(tmp_path / "suite.json")])
    assert "GPyTorch is not installed: left out" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["suite.json", "suite.png"]
    return json.loads((tmp_path / "suite.json").read_text())


def test_every_part_is_measured_beside_plain_torch_and_the_ceilings(record: dict[str, Any]) -> None:
    rows = record["rows"]
    for table in [*TABLES, "Kernel ridge regression"]:
        assert any(table in row["table"] and row["peer"].startswith(PLAIN) for row in rows), table
    for row in rows:
        figures = [*row["ours"], *row["theirs"], *row["ratio"].values()]
        assert all(math.isfinite(figure) and figure > 0 for figure in figures), row
    assert {row["table"].split(":")[0].split(", ")[-1] for row in rows if row["peer"] == CEILING} >= {"TIMIT", "BN-50"}
    assert record["ceilings"].keys() >= {"float32", "numpy", "copy"}
    assert "Not installed: GPyTorch, KeOps, xRFM, himalaya." in record["protocol"]


@pytest.mark.parametrize(
    "shape",
    [TIMIT.with_features(4096), replace(BN50.with_features(512), num_classes=50, rank=8)],
    ids=["TIMIT", "BN-50"],
)
def test_the_contenders_take_the_same_steps(shape: Shape) -> None:
    problem = make_problem(shape, num_rows=2 * shape.batch_size, device=CPU)
    contenders = [Plain(problem, torch.float32), Trained(problem)]
    for contender in contenders:
        contender.take(problem.X, problem.y)
    for plain, trained, start in zip(*(contender.head for contender in contenders), problem.head, strict=True):
        assert not torch.equal(plain, start)
        assert (trained - plain).norm() < 1e-4 * (plain - start).norm()


def test_the_solvers_solve_the_same_problem() -> None:
    problem = ridge.make_regression(quick(CPU))
    wanted = ridge.scikit_learn(problem)
    np.testing.assert_allclose(ridge.plain(problem), wanted, atol=1e-3)
    assert np.abs(ridge.exact(problem) - wanted).mean() < 0.1  # with an intercept, which the others do not have
