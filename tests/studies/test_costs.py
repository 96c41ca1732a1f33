"""The cost of a run before it starts: from operations, then from the durations of stored cells."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.studies import nystrom_rff
from bochner.studies.costs import SPEEDS, Cost, estimate
from bochner.studies.registry import STUDIES
from bochner.studies.results_file import ResultsFile
from bochner.studies.study import Study, run_study
from tests.studies.test_study import Cell, a_study


def work(cell: Cell) -> float:
    return 1e10 * (1 + cell.seed)


def test_operations_then_durations_of_the_same_device(tmp_path: Path) -> None:
    results, cells = ResultsFile(tmp_path / "cells.jsonl", Cell), [Cell("a", seed) for seed in range(4)]
    first = estimate(cells, results, work)
    assert first.seconds == pytest.approx(1e11 / SPEEDS["cpu"])
    results.add(cells[0], {}, seconds=2.0, device="cuda:0")
    assert estimate(cells, results, work).seconds == pytest.approx(9e10 / SPEEDS["cpu"])  # another kind of device
    results.add(cells[1], {}, seconds=8.0, device="cpu")
    again = ResultsFile(tmp_path / "cells.jsonl", Cell)
    assert estimate(cells, again, work) == Cost(4, 2, 28.0, "durations of 1 stored cells")
    assert estimate(cells, again, work, device="cuda").seconds == pytest.approx(14.0)
    assert estimate(cells, again, None).seconds == pytest.approx(16.0)


def test_the_cost_is_unknown_without_operations_and_cells(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "cells.jsonl", Cell)
    assert str(estimate([Cell("a", 0)], results, None)).endswith("the time for the others is unknown")
    assert estimate([Cell("a", 0)], results, work, device="meta").seconds is None


def test_the_cost_comes_first_and_durations_are_stored(tmp_path: Path) -> None:
    events: list[object] = []
    study = replace(a_study(lambda cell: events.append(cell) or {"value": 1}), operations=work)  # type: ignore[func-returns-value]
    for _ in range(2):
        saved = run_study(study, tmp_path, tmp_path / "out", size="smoke", on_cost=events.append)
    assert [type(event).__name__ for event in events] == ["Cost", "Cell", "Cell", "Cost"]
    assert str(events[-1]) == "2 cells, all of them stored"
    assert set(study.results_file(tmp_path / "out").durations("cpu")) == {Cell("a", 0), Cell("b", 0)}
    assert saved.rows[0] == {"data": "a", "seed": 0, "value": 1}  # the duration is not part of the result


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_estimates_all_its_cells(study: Study) -> None:
    assert study.operations is not None
    for size in ("smoke", "small", "paper"):
        operations = [study.operations(cell) for cell in study.select(size)]  # type: ignore[arg-type]
        assert all(math.isfinite(number) and number > 0 for number in operations)
    small, paper = (sum(map(study.operations, study.select(size))) for size in ("small", "paper"))  # type: ignore[arg-type]
    assert small <= paper


def test_operations_grow_with_rows_features_and_epochs() -> None:
    cell = nystrom_rff.Cell("mnist", nystrom_rff.RFF, 1_000, 5_000, 100, 20, seed=0)
    base = nystrom_rff.operations(cell)
    for name, value in {"num_features": 2_000, "num_rows": 10_000, "epochs": 40}.items():
        assert 1.8 < nystrom_rff.operations(replace(cell, **{name: value})) / base < 2.1
