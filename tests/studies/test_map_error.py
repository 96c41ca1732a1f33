"""The study behind `make demo`."""

from __future__ import annotations

from pathlib import Path

from bochner.features import LANDMARK_RULES
from bochner.studies import map_error


def test_errors_fall_and_the_table_and_plot_hold_every_map(tmp_path: Path) -> None:
    rows = map_error.run(sizes=(64, 512), seeds=range(2), progress=False)
    names = {row.map for row in rows}
    assert len(names) == len(rows) / 2 >= 20
    assert {f"nystrom {rule}" for rule in LANDMARK_RULES} <= names
    errors = {(row.map, row.num_features): row.error for row in rows}
    assert all(errors[name, 512] < 0.75 * errors[name, 64] for name in names)
    table = map_error.table(rows)
    assert all(name in table for name in names)
    map_error.plot(rows, tmp_path / "deep" / "plot.png")
    assert (tmp_path / "deep" / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_same_seeds_same_rows() -> None:
    first, second = (map_error.run(sizes=(64,), seeds=[3], progress=False) for _ in range(2))
    assert first == second
