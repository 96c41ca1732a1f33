"""Comparisons of curves, and that every criterion can fail."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from bochner.studies import nystrom_rff_findings
from bochner.studies.nystrom_rff import NYSTROM, RFF, Cell, cells
from bochner.studies.nystrom_rff_report import Point, compare, curve, level_at, matched, slope
from bochner.studies.registry import study_named
from bochner.studies.report import assess
from bochner.studies.study import SavedRows
from tests.studies.made_rows import made_rows


def point(x: float, y: float) -> Point:
    return Point(x, y, y, y)


def test_a_curve_has_medians_and_ranges_over_seeds() -> None:
    rows = [{"num_features": 8, "x": 1.0, "y": y} for y in (3.0, 1.0, 2.0)]
    rows += [{"num_features": 4, "x": 5.0, "y": 7.0}, {"num_features": 2, "x": 5.0, "y": None}]
    assert curve(rows, "x", "y") == [Point(5.0, 7.0, 7.0, 7.0), Point(1.0, 2.0, 1.0, 3.0)]


def test_curves_are_read_between_points_and_not_beyond() -> None:
    line = [point(1, 1), point(100, 1e-2)]
    assert level_at(line, 10) == pytest.approx(0.1)
    assert level_at(line, 101) is None
    assert compare([point(10, 0.2), point(1000, 5)], line) == [pytest.approx(0.693147, rel=1e-5)]
    assert slope(line) == pytest.approx(-1)


def test_rows_are_matched_within_a_factor_of_two() -> None:
    rows = [{"mse": 1.0}, {"mse": 3.0}]
    assert matched(rows, [{"mse": 2.5}, {"mse": 40.0}], "mse") == ({"mse": 3.0}, {"mse": 2.5})
    assert matched(rows, [{"mse": 40.0}], "mse") is None


CHANGES: dict[str, dict[str, Any]] = {
    "least_bias": {"large_bias": -0.01},
    "outlier_difference": {"large_outliers": 0.0},
    "bias_difference": {"large_bias": 0.0},
    "variance_ratio": {"large_variance": 1e-9},
    "largest_norm": {"norm_max": 1.1},
    "least_rise": {"norm": 0.5},
}


@pytest.mark.parametrize("name", CHANGES)
def test_numbers_follow_the_rows(name: str) -> None:
    rows = [row for row in made_rows(study_named("nystrom-rff-norms")) if row["data"] == "a9a"]
    changed = [row | (CHANGES[name] if row["map"] == NYSTROM else {}) for row in rows]
    number = getattr(nystrom_rff_findings, name)
    before, after = number(rows), number(changed)
    assert before is not None
    assert after > before if name == "largest_norm" else after < before


def test_a_map_twice_as_bad_is_seen() -> None:
    rows = [row for row in made_rows(study_named("nystrom-rff-performance")) if row["data"] == "cpu"]
    number = nystrom_rff_findings.ratio(RFF, NYSTROM, x="memory", y="performance")
    worse = [row | ({"performance": 2 * row["performance"]} if row["map"] == RFF else {}) for row in rows]
    assert number(worse) == pytest.approx(2 * number(rows))  # type: ignore[operator]


def test_draws_without_a_model_count_for_errors_only() -> None:
    """Cells with `epochs` 0 have errors and no model."""
    rows = []
    for kind, count, seed in product((RFF, NYSTROM), (64, 128), range(3)):
        cell = Cell("a9a", kind, count, num_rows=1000, pairs_of=100, epochs=0 if seed else 20, seed=seed)
        level = (1.0 if kind == RFF else 0.1) * (1 + 0.01 * seed) / count
        rows.append({**vars(cell), "mse": level} | ({} if seed else {"performance": level}))
    claims = [
        next(claim for claim in nystrom_rff_findings.FINDINGS if claim.study == study)
        for study in ("nystrom-rff-kernel-error", "nystrom-rff-performance")
    ]
    saved = {claim.study: SavedRows(claim.study, "small", "", len(rows), rows) for claim in claims}
    assert [assessed.word for assessed in assess(claims, saved)] == ["yes", "undecided"]


def test_cells_of_the_paper_are_those_of_the_thesis() -> None:
    chosen = [cell for cell in cells("paper") if cell.data == "a9a" and cell.map == NYSTROM]
    assert {cell.num_features for cell in chosen} == {1_250, 2_500, 5_000, 10_000, 20_000}
    assert [sum(cell.num_features == count for cell in chosen) for count in (2_500, 5_000)] == [10, 3]
    assert [cell.seed for cell in chosen if cell.num_features == 5_000 and cell.epochs] == [0]
    assert chosen[0] == Cell("a9a", NYSTROM, 1_250, None, 5_000, 100, 0)
