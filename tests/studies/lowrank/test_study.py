"""The low-rank study as a whole: its plan, its ledger, its page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.studies.ledger import Ledger, Result
from bochner.studies.lowrank import published
from bochner.studies.lowrank import run as study_run
from bochner.studies.lowrank.__main__ import study as command
from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.methods import SCHEMES, STARTS
from bochner.studies.lowrank.page import write_page
from bochner.studies.lowrank.run import SIZES, Size, Study, plan, run

ALL_TABLES = [f"5.{number}" for number in range(1, 14) if number != 9]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """Cells measured by a formula instead; the list is of those that were."""
    seen: list[Cell] = []

    def measure(cell: Cell, data_dir: Path) -> Result:
        seen.append(cell)
        value = 1.0 + 0.1 * (cell.seed - 100) + 0.01 * len(cell.method)
        names = [
            "spectral",
            "seconds",
            "condition_number",
            "stable_rank",
            "multiple",
            "rmse",
            "train_rmse",
            "test_rmse",
        ]
        return dict.fromkeys(names, value) | {"parameters": 10.0 * cell.rank + 1, "rank": cell.rank, "threads": 1}

    monkeypatch.setattr(study_run, "measure", measure)
    return seen


def test_the_plan_has_every_table_and_figure() -> None:
    found = plan(SIZES["thesis"])
    assert [table.number for table in found.tables] == ALL_TABLES
    assert [figure.number for figure in found.figures] == [f"5.{number}" for number in range(1, 7)]
    assert {cell.seed for cell in found.cells()} == set(range(100, 110))
    assert len(found.cells()) == len(set(found.cells()))


def test_published_numbers_are_as_many_as_their_columns() -> None:
    for sweeps, names in ((published.SAMPLING, SCHEMES), (published.STARTS, STARTS)):
        assert all(len(values) == len(names) for sweep in sweeps for values in sweep.errors.values())
        assert all(len(sweep.errors) == 7 for sweep in sweeps)
    assert published.SAMPLING[0].errors[1.061][SCHEMES.index("uniform")] == 1.171
    assert published.SAMPLING[4].errors[2.324][SCHEMES.index("uniform+clustering+diagonal")] == 0.189
    assert published.STARTS[1].errors[3.25][STARTS.index("kmeans-nystrom")] == 2.05


def test_published_numbers_stand_beside_the_cells_they_are_of() -> None:
    tables = {table.number: table for table in plan(SIZES["thesis"]).tables}
    entry = tables["5.3"].rows["3.247"][SCHEMES.index("uniform+diagonal")]
    assert entry.published == 2.114
    assert entry.cells[0] == Cell("factor", "german", 3.247, 100, "als, uniform+diagonal", 50, 49)
    als = tables["5.10"].rows["cadata scaled, r = 200"][4]
    assert (als.published, als.published_spread) == (0.067, 0.04)
    assert als.cells[9] == Cell("factor", "cadata scaled", 4, 109, "als", 200, 430, rounds=4)
    assert tables["5.12"].rows["cadata scaled"][4].published == 3747
    assert tables["5.12"].rows["cadata scaled"][4].cells == (replace(als.cells[0], kind="seconds"),)
    assert tables["5.11"].rows["german, 49 n log n"][1].cells[0].samples == 49
    assert tables["5.13"].rows["cadata scaled, bandwidth 2, ridge 0.0078"][0].published == 0.4664


def test_what_is_measured_is_kept_and_never_measured_again(data_dir: Path, tmp_path: Path, quick: list[Cell]) -> None:
    path, asked = tmp_path / "deep" / "cells.jsonl", plan(SIZES["small"], parts=["table 5.10"])
    rows = run(asked, data_dir, Ledger(path, Cell), progress=False)
    assert len(quick) == len(asked.cells()) == len(path.read_text().splitlines())
    assert run(asked, data_dir, Ledger(path, Cell), progress=False) == rows
    assert len(quick) == len(asked.cells())
    more = replace(SIZES["small"], seeds=(100, 101, 102))
    run(plan(more, parts=["table 5.10"]), data_dir, Ledger(path, Cell), progress=False)
    assert {cell.seed for cell in quick[len(asked.cells()) :]} == {102}


def test_rows_are_means_and_spreads_over_seeds(data_dir: Path, tmp_path: Path, quick: list[Cell]) -> None:
    rows = run(plan(SIZES["small"], parts=["table 5.10"]), data_dir, Ledger(tmp_path / "cells", Cell), progress=False)
    row = next(row for row in rows if (row.row, row.column) == ("german, r = 50", "als"))
    assert (row.mean, row.spread, row.num_seeds) == (pytest.approx(1.08), pytest.approx(0.05), 2)
    assert (row.published, row.published_spread) == (2.09, 0.07)


def test_a_failed_cell_is_told_and_the_others_go_on(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here there are 150 points: rank 200 cannot be."""
    size, ledger = Size(("german",), (100,), (100,)), Ledger(tmp_path / "cells.jsonl", Cell)
    asked = plan(size, parts=["table 5.4", "table 5.10"])
    with pytest.raises(
        RuntimeError, match=r"56 of 65 cells failed, the first, Cell\(.*The others are kept in .*cells.jsonl"
    ):
        run(asked, data_dir, ledger, progress=False)
    assert "rank must be at most the number of points, 150, got 200" in capsys.readouterr().err
    assert {row.table for row in asked.rows(ledger)} == {"5.10"}


def test_a_torn_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"
    Ledger(path, Cell).add(Cell("factor", "german", 1.0, 100, "als", 5), {"spectral": 0.5})
    path.write_text(path.read_text() + '{"cell": {"kind"')
    with pytest.raises(ValueError, match=r"cells.jsonl, line 2 must be a finished cell; remove that line"):
        Ledger(path, Cell)


def test_the_page_has_both_numbers_the_ratios_and_the_figures(
    data_dir: Path, tmp_path: Path, quick: list[Cell]
) -> None:
    size = replace(SIZES["small"], sets=("ijcnn1 small", "german", "satimage", "wine scaled"))
    everything, ledger, path = plan(size), Ledger(tmp_path / "cells.jsonl", Cell), tmp_path / "docs" / "page.md"
    run(everything, data_dir, ledger, progress=False)
    write_page(everything, ledger, path, command="make page")
    page = path.read_text()
    assert re.findall(r"## Table (5\.\d+):", page) == ["5.9", *ALL_TABLES]
    assert "```sh\nmake page\n```" in page
    assert "All cells are measured; seeds 100 to 101, threads 1." in page
    assert "| 1.08 ± 0.05 (2.09 ± 0.07) |" in page  # als on german
    assert "| satimage | 0.95 (0.013) | 1 (1) |" in page  # ratios of seconds
    for number in range(1, 7):
        name = f"assets/lowrank/figure_5_{number}.png"
        assert f"]({name})" in page
        assert (path.parent / name).read_bytes().startswith(b"\x89PNG")


def test_the_page_of_a_part_says_what_is_missing(data_dir: Path, tmp_path: Path, quick: list[Cell]) -> None:
    ledger, path = Ledger(tmp_path / "cells.jsonl", Cell), tmp_path / "page.md"
    run(plan(SIZES["smoke"], parts=["table 5.7"]), data_dir, ledger, progress=False)
    write_page(plan(SIZES["smoke"]), ledger, path, command="make page")
    assert f"28 of {len(plan(SIZES['smoke']).cells())} cells are measured" in path.read_text()
    assert "| - (2.09 ± 0.07) |" in path.read_text()
    assert "Figure 5.1" not in path.read_text().partition("## ")[2]


def test_the_command_runs_some_parts_on_real_cells(data_dir: Path, tmp_path: Path) -> None:
    ledger, page = tmp_path / "cells.jsonl", tmp_path / "page.md"
    command(data_dir, size="smoke", parts="table 5.10, figure 5.1", sets="german", ledger=ledger, page=page)
    rows = Study((plan(SIZES["smoke"]).tables[3],), ()).rows(Ledger(ledger, Cell))
    assert len([json.loads(line) for line in ledger.read_text().splitlines()]) == 9 + 11
    assert rows == []
    assert "| german, r = 50 |" in page.read_text()
    assert (tmp_path / "assets" / "lowrank" / "figure_5_1.png").exists()


def test_bad_parts_and_sets() -> None:
    with pytest.raises(ValueError, match=r"parts must be one of \['table 5.3'.*, got '5.10'"):
        plan(SIZES["smoke"], parts=["5.10"])
    with pytest.raises(ValueError, match=r"sets must be one of \['ijcnn1 small'.*, got 'abalone'"):
        plan(Size(("abalone",), (0,), (0,)))
