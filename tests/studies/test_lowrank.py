"""The low-rank studies as a whole: their plan, their cells, their Markdown page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.studies import lowrank
from bochner.studies.lowrank_cells import Cell
from bochner.studies.lowrank_methods import SCHEMES, STARTS
from bochner.studies.lowrank_page import write_page
from bochner.studies.lowrank_tables import Plan, plan, summarize
from bochner.studies.published_tables import published_table
from bochner.studies.registry import study_named
from bochner.studies.results_file import FailedCellsError, Result
from bochner.studies.study import run_study

ALL_TABLES = [f"5.{number}" for number in range(1, 14) if number != 9]
NAMES = ("spectral", "seconds", "condition_number", "stable_rank", "multiple", "rmse", "train_rmse", "test_rmse")


def quick(cell: Cell, data_dir: Path | None = None) -> Result:
    """A formula instead of a measurement."""
    value = 1.0 + 0.1 * (cell.seed - 100) + 0.01 * len(cell.method)
    return dict.fromkeys(NAMES, value) | {"parameters": 10.0 * cell.rank + 1, "rank": cell.rank, "threads": 1}


def results_of(whole: Plan) -> dict[Cell, Result]:
    return {cell: quick(cell) for cell in whole.cells()}


def test_the_plan_has_every_table_and_figure() -> None:
    whole = plan("paper")
    assert [table.number for table in whole.tables] == ALL_TABLES
    assert [figure.number for figure in whole.figures] == [f"5.{number}" for number in range(1, 7)]
    assert {cell.seed for cell in whole.cells()} == set(range(100, 110))
    assert len(whole.cells()) == len(set(whole.cells())) == 9224


def test_the_studies_together_have_all_cells_of_the_plan() -> None:
    for size in ("small", "paper"):
        assert {cell for study in lowrank.STUDIES for cell in study.select(size)} == set(plan(size).cells())
    parts = [f"table {number}" for number in ALL_TABLES] + [f"figure 5.{number}" for number in range(1, 7)]
    sources = ", ".join(study.source for study in lowrank.STUDIES).lower()
    assert all(re.search(rf"{part}\b", sources) for part in parts)


def test_published_numbers_are_as_many_as_their_columns() -> None:
    for name, columns, num_lines in (("lowrank_sampling", SCHEMES, 35), ("lowrank_starts", STARTS, 19)):
        lines = published_table(name)
        assert len(lines) == num_lines
        assert all(tuple(line)[5:] == columns and all(float(line[column]) for column in columns) for line in lines)


def test_published_numbers_stand_beside_the_cells_they_are_of() -> None:
    tables = {table.number: table for table in plan("paper").tables}
    assert tables["5.1"].rows["1.061"][SCHEMES.index("uniform")].published == 1.171
    assert tables["5.5"].rows["2.324"][SCHEMES.index("uniform+clustering+diagonal")].published == 0.189
    assert tables["5.7"].rows["3.25"][STARTS.index("kmeans-nystrom")].published == 2.05
    entry = tables["5.3"].rows["3.247"][SCHEMES.index("uniform+diagonal")]
    assert entry.published == 2.114
    assert entry.cells[0] == Cell("factor", "german", 3.247, 100, "als, uniform+diagonal", 50, 49)
    literal = tables["5.3"].rows["3.247, Algorithm 2"][SCHEMES.index("uniform+diagonal")]
    assert literal.published == 2.114
    assert literal.cells[0] == replace(entry.cells[0], method="thesis als, uniform+diagonal")
    place = tables["5.10"].columns.index
    als = tables["5.10"].rows["cadata scaled, r = 200"][place("als")]
    assert tables["5.10"].rows["cadata scaled, r = 200"][place("thesis als")] == als._replace(
        cells=tuple(replace(cell, method="thesis als", rounds=3) for cell in als.cells)
    )
    assert tables["5.10"].rows["cadata scaled, r = 200"][place("thesis meka")].published == 0.072
    assert (als.published, als.published_spread) == (0.067, 0.04)
    assert als.cells[9] == Cell("factor", "cadata scaled", 4, 109, "als", 200, 430, rounds=4)
    seconds = tables["5.12"].rows["cadata scaled"][tables["5.12"].columns.index("als")]
    assert seconds.published == 3747
    assert seconds.cells == (replace(als.cells[0], kind="seconds"),)
    assert tables["5.11"].rows["german, 49 n log n"][1].cells[0].samples == 49
    assert tables["5.13"].rows["cadata scaled, bandwidth 2, ridge 0.0078"][0].published == 0.4664


def test_exact_regression_has_no_rank() -> None:
    """So that all tables share its cells."""
    cells = [cell for cell in plan("paper").cells() if cell.method == "exact"]
    assert {cell.kind for cell in cells} >= {"folds"}
    assert {cell.rank for cell in cells} == {0}


def test_entries_are_means_and_spreads_over_the_measured_seeds() -> None:
    whole = plan("small", parts=["table 5.10"])
    entry = whole.tables[0].rows["german, r = 50"][whole.tables[0].columns.index("als")]
    summary = summarize(entry, results_of(whole))
    assert summary == (pytest.approx(1.13), pytest.approx(0.1 * (2 / 3) ** 0.5), 3)
    assert (entry.published, entry.published_spread) == (2.09, 0.07)
    first = summarize(entry, {entry.cells[0]: quick(entry.cells[0])})
    assert first == (pytest.approx(1.03), 0, 1)
    assert summarize(entry, {}) is None


def test_measured_cells_are_shared_by_sizes_and_never_measured_again(
    lowrank_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Cell] = []
    monkeypatch.setattr(lowrank, "measure", lambda cell, data_dir: calls.append(cell) or quick(cell))
    study = study_named("lowrank-spectral-error")
    for _ in range(2):
        run_study(study, lowrank_dir, tmp_path, size="small", options={"sets": ["german"]})
        assert len(calls) == len(study.select("small", sets=["german"])) == 33
    run_study(study, lowrank_dir, tmp_path, size="paper", options={"sets": ["german"]}, seeds=[100, 101, 103])
    assert {cell.seed for cell in calls[33:]} == {103}


def test_a_failed_cell_is_logged_and_the_others_are_measured(
    lowrank_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here there are 150 points: rank 200 is too large. Cells of rank 50 are measured in tests/cli/test_study.py."""
    measure = lowrank.measure
    monkeypatch.setattr(
        lowrank, "measure", lambda cell, data_dir: measure(cell, data_dir) if cell.rank == 200 else quick(cell)
    )
    options = {"sets": ["german"], "parts": ["table 5.3", "table 5.4"]}
    study = study_named("lowrank-sampling")
    with pytest.raises(FailedCellsError, match=r"112 of 224 cells failed, the first: Cell\(.*lowrank.jsonl"):
        run_study(study, lowrank_dir, tmp_path, size="smoke", options=options)
    assert "rank must be at most the number of points, 150, got 200" in caplog.text
    results = study.results_file(tmp_path)
    assert all(results.get(cell) for cell in study.select("smoke", sets=["german"], parts=["table 5.3"]))


def test_the_page_has_both_numbers_the_ratios_and_the_figures(tmp_path: Path) -> None:
    sets, path = ("ijcnn1 small", "german", "satimage", "wine scaled"), tmp_path / "docs" / "page.md"
    write_page(results_of(plan("small", sets=sets)), path, size="small", sets=sets, command="make page")
    page = path.read_text()
    assert re.findall(r"## Table (5\.\d+):", page) == ["5.9", *ALL_TABLES]
    assert "```sh\nmake page\n```" in page
    assert "All cells are measured; seeds 100 to 102, threads 1." in page
    assert "| 1.13 ± 0.082 (2.09 ± 0.07) |" in page  # als on german
    assert "| satimage | 0.95 (0.013) | 1 (1) |" in page  # ratios of seconds
    for number in range(1, 7):
        name = f"assets/lowrank/figure_5_{number}.png"
        assert f"]({name})" in page
        assert (path.parent / name).read_bytes().startswith(b"\x89PNG")


def test_the_page_of_a_part_names_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    write_page(results_of(plan("smoke", parts=["table 5.7"])), path, size="smoke", command="make page")
    assert f"56 of {len(plan('smoke').cells())} cells are measured" in path.read_text()
    assert "| - (2.09 ± 0.07) |" in path.read_text()
    assert "Figure 5.1" not in path.read_text().partition("## ")[2]


def test_bad_parts_and_sets() -> None:
    with pytest.raises(ValueError, match=r"parts must be one of \['table 5.10'\], got '5.10'"):
        study_named("lowrank-spectral-error").select("smoke", parts=["5.10"])
    with pytest.raises(ValueError, match=r"sets must be one of \['ijcnn1 small'.*, got 'abalone'"):
        plan("smoke", sets=["abalone"])
