"""Running a study: cells are measured once, failures are logged, and rows have a provenance."""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bochner.stages import locked
from bochner.studies.provenance import provenance
from bochner.studies.registry import STUDIES
from bochner.studies.results_file import FailedCellsError, ResultsFile
from bochner.studies.study import SavedRows, Study, run_study
from bochner.studies.workers import Context
from tests.processes import run_code


@dataclass(frozen=True)
class Cell:
    data: str
    seed: int


def a_study(measure: Callable[[Cell], dict[str, Any]], files: dict[str, str] | None = None) -> Study:
    sizes = {"smoke": [Cell("a", 0), Cell("b", 0)], "small": [Cell("a", 0), Cell("a", 1)], "paper": []}
    return Study(
        "double", "Twice", "nobody, Table 0", "none", "doubles", Cell, lambda size: sizes[size],
        lambda context: measure, lambda page, rows: None, files or {},
    )  # fmt: skip


def test_cells_are_measured_once_whatever_the_size(tmp_path: Path) -> None:
    measured: list[Cell] = []
    study = a_study(lambda cell: measured.append(cell) or {"value": len(measured)})  # type: ignore[func-returns-value]
    first = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert first.rows == [{"data": "a", "seed": 0, "value": 1}, {"data": "b", "seed": 0, "value": 2}]
    second = run_study(study, tmp_path, tmp_path / "out", size="small")
    assert second.rows == [{"data": "a", "seed": 0, "value": 1}, {"data": "a", "seed": 1, "value": 3}]
    assert measured == [Cell("a", 0), Cell("b", 0), Cell("a", 1)]
    assert SavedRows.read(tmp_path / "out", "double", "small") == second
    assert SavedRows.read(tmp_path / "out", "double", "paper") is None
    assert [run["cells"] for run in second.runs] == [2, 1]


def test_other_seeds(tmp_path: Path) -> None:
    study = a_study(lambda cell: {"value": cell.seed})
    rows = run_study(study, tmp_path, tmp_path / "out", size="small", seeds=[7, 8]).rows
    assert [(row["data"], row["seed"]) for row in rows] == [("a", 7), ("a", 8)]


def test_the_device_reaches_the_measuring_and_the_run(tmp_path: Path) -> None:
    contexts: list[Context] = []
    study = replace(a_study(lambda cell: {}), prepare=lambda context: contexts.append(context) or (lambda cell: {}))
    saved = run_study(study, tmp_path, tmp_path / "out", size="smoke", device="meta")
    assert contexts == [Context(tmp_path, "meta", tmp_path / "out/cache")]
    assert saved.runs[0]["device"] == "meta"
    with pytest.raises(ValueError, match="device must be 'auto' or a device torch can use here, got 'abacus'"):
        run_study(study, tmp_path, tmp_path / "out", size="small", device="abacus")


def test_a_failed_cell_is_logged_and_the_others_are_saved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def measure(cell: Cell) -> dict[str, Any]:
        if cell.data == "a":
            raise ValueError("too large")
        return {"value": 1}

    with pytest.raises(
        FailedCellsError, match=r"1 of 2 cells failed, Cell\(data='a', seed=0\): ValueError: too large\."
    ):
        run_study(a_study(measure), tmp_path, tmp_path / "out", size="smoke")
    assert "failed: ValueError: too large" in caplog.text
    saved = SavedRows.read(tmp_path / "out", "double", "smoke")
    assert saved is not None
    assert (saved.num_cells, [row["data"] for row in saved.rows]) == (2, ["b"])


def test_a_missing_file_is_named_and_its_cells_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.npz").write_bytes(b"rows")
    study = a_study(lambda cell: {"value": 1}, {"a": "a.npz", "b": "b.npz"})
    saved = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert (saved.missing, len(saved.rows), saved.num_cells) == (["b.npz"], 1, 2)
    assert "b.npz does not exist" in caplog.text
    assert saved.runs[0]["data"] == {"a.npz": sha256(b"rows").hexdigest()}


def test_sets_and_options_select_cells(tmp_path: Path) -> None:
    study = a_study(lambda cell: {"value": 1})
    saved = run_study(study, tmp_path, tmp_path / "out", size="smoke", options={"sets": ["b"], "effort": None})
    assert [row["data"] for row in saved.rows] == ["b"]
    assert saved.command == "bochner study run double --size smoke --sets '[\"b\"]'"
    with pytest.raises(ValueError, match=r"sets must be one of \['a', 'b'\], got 'c'"):
        study.select("smoke", sets=["c"])
    with pytest.raises(ValueError, match="effort must be omitted for study 'double'"):
        study.select("smoke", effort="small")


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_accepts_its_own_sets(study: Study) -> None:
    cells = study.select("small")
    if hasattr(cells[0], "data"):
        assert study.select("small", sets=[cells[0].data]) == [cell for cell in cells if cell.data == cells[0].data]


def test_a_directory_in_use_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """A second process that runs the same study would measure every cell again."""
    code = f"""
import pathlib
from tests.studies.test_study import a_study, run_study
try:
    run_study(a_study(lambda cell: {{"value": 2}}), pathlib.Path("."), pathlib.Path({str(tmp_path)!r}), size="smoke")
except ValueError as error:
    print(error)
"""
    with locked(tmp_path):
        process = run_code(code)
    assert f"{tmp_path} is in use by process {os.getpid()}" in process.stdout
    assert not (tmp_path / "cells").exists()


def test_an_incomplete_line_does_not_block_the_study(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    measured: list[Cell] = []
    study = a_study(lambda cell: measured.append(cell) or {"value": cell.data})  # type: ignore[func-returns-value]
    before = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    for name in ("doubles.jsonl", "doubles.runs.jsonl"):
        path = tmp_path / "out/cells" / name
        path.write_bytes(path.read_bytes()[:-20])
    measured.clear()
    after = run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert measured == [Cell("b", 0)]
    assert after.rows == before.rows
    assert "doubles.jsonl, line 2 is incomplete" in caplog.text
    assert study.rows(study.cells("smoke"), study.results_file(tmp_path / "out")) == before.rows


def test_a_write_error_is_raised_and_no_failed_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Cell] = []
    study = a_study(lambda cell: measured.append(cell) or {"value": 1})  # type: ignore[func-returns-value]

    def full(results: ResultsFile[Cell], cell: Cell, result: dict[str, Any], **about: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ResultsFile, "add", full)
    with pytest.raises(OSError, match="No space left"):
        run_study(study, tmp_path, tmp_path / "out", size="smoke")
    assert measured == [Cell("a", 0)]  # the next one would be lost, too


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS])
def test_a_full_disk_while_measuring_stops_the_study(number: int, tmp_path: Path) -> None:
    measured: list[Cell] = []

    def measure(cell: Cell) -> dict[str, Any]:
        measured.append(cell)
        raise OSError(number, os.strerror(number))

    with pytest.raises(OSError, match=os.strerror(number)):
        run_study(a_study(measure), tmp_path, tmp_path / "out", size="smoke")
    assert measured == [Cell("a", 0)]


def test_a_directory_of_data_has_a_checksum_of_its_names_and_sizes(tmp_path: Path) -> None:
    (tmp_path / "TIMIT").mkdir()
    (tmp_path / "TIMIT" / "sa1.wav").write_bytes(b"1234")
    first = provenance(tmp_path, ["TIMIT"])["data"]["TIMIT"]
    (tmp_path / "TIMIT" / "sa1.wav").write_bytes(b"12345")
    assert first != provenance(tmp_path, ["TIMIT"])["data"]["TIMIT"]


def test_provenance_has_versions_and_no_name_of_the_machine(tmp_path: Path) -> None:
    origin = provenance(tmp_path, [])
    assert origin["versions"]["torch"].startswith("2.")
    assert origin["machine"]["cores"] > 0
    assert platform.node() not in json.dumps(origin)
