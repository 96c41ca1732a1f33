"""Intervals over seeds: their coverage, what they decide, and where nothing can be decided."""

from __future__ import annotations

import random
from statistics import fmean
from typing import Any

import pytest

from bochner.studies.findings import Decision, Finding, Rows, finding, over_sets, per_set
from bochner.studies.intervals import MIN_SEEDS, intervals, resample
from bochner.studies.map_error import orthogonal_is_lower
from bochner.studies.report import Assessment

FIELDS = ["data", "method", "seed"]


def rows_of(noise: float, *, seeds: int = 3, ours: float = 0.9, shared: float = 0.0) -> list[dict[str, Any]]:
    """Errors of two methods; `shared` noise is that of a seed, the same for both."""
    generator, rows = random.Random(0), []
    for seed in range(seeds):
        common = generator.gauss(0, shared)
        for method, error in (("ours", ours), ("theirs", 1.0)):
            value = error * (1 + common) + generator.gauss(0, noise)
            rows.append({"data": "german", "method": method, "seed": seed, "error": value})
    return rows


def error_ratio(rows: Rows) -> float:
    means = {name: fmean(row["error"] for row in rows if row["method"] == name) for name in ("ours", "theirs")}
    return means["ours"] / means["theirs"]


LOWER = finding("Ours is lower.", "Somebody 2020", "study", per_set(error_ratio), "ratio of errors", below=1)


def decided(rows: list[dict[str, Any]], claim: Finding = LOWER) -> Decision:
    decision = claim.decide(rows, resample(rows, FIELDS))
    assert decision is not None
    return decision


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
def test_an_interval_covers_the_mean_as_often_as_it_says(num_seeds: int) -> None:
    generator, covered = random.Random(num_seeds), 0
    for _ in range(300):
        rows = [{"data": "a", "seed": seed, "error": generator.gauss(1, 0.2)} for seed in range(num_seeds)]
        replicates = resample(rows, ["data", "seed"])
        assert replicates is not None
        means = [{"a": fmean(row["error"] for row in drawn)} for drawn in replicates.rows]
        ends = intervals({"a": fmean(row["error"] for row in rows)}, means, replicates.num_seeds)["a"]
        assert ends is not None
        covered += ends[0] <= 1 <= ends[1]
    assert 0.9 < covered / 300 < 0.99


def test_yes_and_no_follow_from_intervals_and_a_straddled_limit_is_undecided() -> None:
    assert decided(rows_of(0.001)).holds is True
    assert decided(rows_of(0.001, ours=1.1)).holds is False
    noisy = decided(rows_of(0.2))
    assert noisy.holds is None
    assert "1 undecided: german" in noisy.measured
    assert LOWER.criterion(rows_of(0.2)).holds is not None  # type: ignore[union-attr]  # the numbers alone would decide


def test_fewer_than_three_seeds_decide_nothing() -> None:
    assert MIN_SEEDS == 3
    decision = decided(rows_of(0.0, seeds=2))
    assert decision.holds is None
    assert "fewer than 3 seeds" in decision.measured


def test_methods_are_compared_on_the_same_seeds() -> None:
    """Errors vary by half between seeds, equally for both methods, so the ratio is still known."""
    assert decided(rows_of(0.001, shared=0.3)).holds is True


def test_sets_that_are_undecided_matter_only_where_they_could_change_the_decision() -> None:
    inside, outside, both = (0.5, 0.6), (1.1, 1.2), (0.9, 1.1)

    def holds(*spans: tuple[float, float] | None) -> bool | None:
        ends = {str(place): span for place, span in enumerate(spans)}
        decision = over_sets(dict.fromkeys(ends, 0.95), "ratio", ends, below=1)
        assert decision is not None
        return decision.holds

    assert holds(inside, inside, inside, both) is True
    assert holds(inside, inside, both, both) is None
    assert holds(inside, outside, outside, both) is False
    assert holds(inside, inside, outside, None) is None
    assert holds((0.5, 0.5), (0.5, 0.5), (1.0, 1.0)) is False  # an interval without width straddles nothing


def test_rows_of_several_seeds_hold_their_numbers() -> None:
    rows = [{"data": "a", "seeds": [0, 1, 2], "ce": 2.0, "per_seed": {"ce": [1.0, 2.0, 3.0]}}]
    replicates = resample(rows, ["data", "seeds"])
    assert replicates is not None
    drawn = {rows[0]["ce"] for rows in replicates.rows}
    assert replicates.num_seeds == 3
    assert min(drawn) == 1.0
    assert max(drawn) == 3.0


@pytest.mark.parametrize(("tokens", "holds"), [(757, None), (1_000_000, True)])
def test_error_rates_have_the_standard_error_of_their_tokens(tokens: int, holds: bool | None) -> None:
    """757 tokens cannot distinguish systems that differ by one point."""
    rows = [
        {"data": "speech", "kind": kind, "test_ter": ter, "tokens": tokens} for kind, ter in (("k", 0.19), ("n", 0.2))
    ]

    def difference(rows: Rows) -> float:
        rates = {row["kind"]: row["test_ter"] for row in rows}
        return rates["k"] - rates["n"]

    claim = finding("Kernels are better.", "Somebody 2020", "study", per_set(difference), "difference", below=0)
    decision = claim.decide(rows, resample(rows, ["data", "kind"]))
    assert decision is not None
    assert decision.holds is holds


def test_other_criteria_are_decided_by_resampled_seeds() -> None:
    claim = Finding("Orthogonal features are better.", "Somebody 2020", "map-error", orthogonal_is_lower)
    for noise, holds in ((0.001, True), (0.5, None)):
        generator = random.Random(1)
        rows = [
            {"map": name, "num_features": 8, "seed": seed, "error": error + generator.gauss(0, noise)}
            for name, error in (("orthogonal", 0.95), ("iid, paired", 1.0))
            for seed in range(5)
        ]
        decision = claim.decide(rows, resample(rows, ["map", "num_features", "seed"]))
        assert decision is not None
        assert decision.holds is holds


def test_words_of_decisions() -> None:
    for holds, word in ((True, "yes"), (False, "no"), (None, "undecided")):
        assert Assessment(LOWER, Decision(holds, "")).word == word
        assert Assessment(LOWER, Decision(holds, ""), open=True).word == f"so far {word}"
