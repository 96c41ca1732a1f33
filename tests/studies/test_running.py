"""Running a study: finished cells stay finished, failures are told, rows know where they come from."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bochner.studies.failures import FailedCellsError
from bochner.studies.provenance import provenance
from bochner.studies.running import run_study
from bochner.studies.saved import read_saved
from bochner.studies.study import Study, Where


@dataclass(frozen=True)
class Cell:
    data: str
    seed: int


def a_study(measure: Callable[[Cell], dict[str, Any]], files: dict[str, str] | None = None) -> Study:
    sizes = {"smoke": [Cell("a", 0), Cell("b", 0)], "small": [Cell("a", 0), Cell("a", 1)], "paper": []}
    return Study(
        "double", "Twice", "nobody, Table 0", "none", "doubles", Cell, lambda size: sizes[size],
        lambda where: measure, lambda page, rows: None, files or {},
    )  # fmt: skip


def test_cells_are_measured_once_whatever_the_size(tmp_path: Path) -> None:
    asked: list[Cell] = []
    study = a_study(lambda cell: asked.append(cell) or {"value": len(asked)})  # type: ignore[func-returns-value]
    first = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert first.rows == [{"data": "a", "seed": 0, "value": 1}, {"data": "b", "seed": 0, "value": 2}]
    second = run_study(study, tmp_path, tmp_path / "out", size="small")
    assert second.rows == [{"data": "a", "seed": 0, "value": 1}, {"data": "a", "seed": 1, "value": 3}]
    assert asked == [Cell("a", 0), Cell("b", 0), Cell("a", 1)]
    assert read_saved(tmp_path / "out", "double", "small") == second
    assert read_saved(tmp_path / "out", "double", "paper") is None
    assert [run["cells"] for run in second.runs] == [2, 1]


def test_other_seeds(tmp_path: Path) -> None:
    study = a_study(lambda cell: {"value": cell.seed})
    rows = run_study(study, tmp_path, tmp_path / "out", size="small", seeds=[7, 8]).rows
    assert [(row["data"], row["seed"]) for row in rows] == [("a", 7), ("a", 8)]


def test_the_device_reaches_the_measuring_and_the_run(tmp_path: Path) -> None:
    asked: list[Where] = []
    study = replace(a_study(lambda cell: {}), measuring=lambda where: asked.append(where) or (lambda cell: {}))
    saved = run_study(study, tmp_path, tmp_path / "out", size="smoke", device="meta")
    assert asked == [Where(tmp_path, "meta", tmp_path / "out/made")]
    assert saved.runs[0]["device"] == "meta"
    with pytest.raises(ValueError, match="device must be 'auto' or a device torch can use here, got 'abacus'"):
        run_study(study, tmp_path, tmp_path / "out", size="small", device="abacus")


def test_a_failed_cell_is_told_and_the_others_are_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(cell: Cell) -> dict[str, Any]:
        if cell.data == "a":
            raise ValueError("too large")
        return {"value": 1}

    with pytest.raises(
        FailedCellsError, match=r"1 of 2 cells failed, Cell\(data='a', seed=0\): ValueError: too large\."
    ):
        run_study(a_study(measure), tmp_path, tmp_path / "out", size="smoke")
    assert "failed: ValueError: too large" in capsys.readouterr().err
    saved = read_saved(tmp_path / "out", "double", "smoke")
    assert saved is not None
    assert (saved.num_cells, [row["data"] for row in saved.rows]) == (2, ["b"])


def test_a_missing_file_is_named_and_its_cells_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.npz").write_bytes(b"rows")
    study = a_study(lambda cell: {"value": 1}, {"a": "a.npz", "b": "b.npz"})
    saved = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert (saved.missing, len(saved.rows), saved.num_cells) == (["b.npz"], 1, 2)
    assert "b.npz is not there" in capsys.readouterr().err
    assert saved.runs[0]["data"] == {"a.npz": sha256(b"rows").hexdigest()}


def test_provenance_has_versions_and_no_name_of_the_machine(tmp_path: Path) -> None:
    found = provenance(tmp_path, [])
    assert found["versions"]["torch"].startswith("2.")
    assert found["machine"]["cores"] > 0
    assert platform.node() not in json.dumps(found)
