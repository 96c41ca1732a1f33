"""Means, correlations and decisions from synthetic rows, and that every decision can be no."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from bochner.studies import speech_findings
from bochner.studies.findings import Finding
from bochner.studies.report import assess
from bochner.studies.speech import STUDIES
from bochner.studies.speech_cells import CE, ERLL, PERPLEXITIES, all_cells, depth_cells, feature_cells, kernel_cells
from bochner.studies.speech_findings import FINDINGS
from bochner.studies.speech_report import averaged, correlations
from bochner.studies.study import Row, SavedRows, with_seeds
from tests.studies.made_rows import SEEDS, speech, speech_best

MADE: dict[str, Callable[[Any], Row]] = {"speech": speech, "speech_best": speech_best}


def rows_of(cells: Any) -> list[Row]:
    return [{**asdict(cell), **speech(cell)} for cell in cells]


def saved(name: str) -> SavedRows:
    study = next(study for study in STUDIES if study.name == name)
    cells = with_seeds(study.cells("smoke"), SEEDS)
    return SavedRows(name, "smoke", "", len(cells), [{**asdict(cell), **MADE[study.results](cell)} for cell in cells])


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.claim[:40])
def test_a_finding_holds_on_rows_like_the_papers_and_fails_on_their_opposite(finding: Finding) -> None:
    rows = saved(finding.study)
    assert assess([finding], {finding.study: rows})[0].decision.holds  # type: ignore[union-attr]
    flipped = [{**row, "ter": 1 - row["ter"], "test_ter": 1 - row.get("test_ter", 0)} for row in rows.rows]
    if finding.study == "speech-best":  # a network that is better by more than half a point
        flipped = [{**row, "test_ter": 0.2 if row["kind"] == "network" else 0.21} for row in rows.rows]
    if finding.study == "speech-perplexity":
        flipped = [{**row, PERPLEXITIES[1]: 9 - row[PERPLEXITIES[1]]} for row in rows.rows]
    assert not finding.criterion(flipped).holds  # type: ignore[union-attr]


def test_a_trick_is_measured_over_pairs_that_differ_only_in_it() -> None:
    rows = rows_of(kernel_cells("small"))
    assert speech_findings.change_by("bottleneck")(rows) == pytest.approx(-2)
    assert speech_findings.change_by("criterion", off=CE, on=ERLL)(rows) == pytest.approx(-1)
    alone = [row for row in rows if not row["bottleneck"] or row["model"] == "gaussian"]
    for row in alone:
        row["ter"] += 0.05 * (row["model"] == "laplacian")  # has no partner, so it does not count
    assert speech_findings.change_by("bottleneck")(alone) == pytest.approx(-2)
    assert speech_findings.change_by("bottleneck")([row for row in rows if row["bottleneck"]]) is None


def test_decisions_use_percentage_points_to_the_nearest_rival() -> None:
    kernels = rows_of(kernel_cells("small"))
    assert speech_findings.laplacian_gain(kernels) == pytest.approx(2.0 - 0.5)  # the sparse Gaussian's is the next
    assert speech_findings.sparse_ahead(kernels) == pytest.approx(0.1 - 2.0)
    assert speech_findings.deeper_gain(rows_of(depth_cells("small"))) == pytest.approx(-1.0)  # five layers
    grown = 0.1 * (1024**0.25 - 256**0.25)
    assert speech_findings.features_change(rows_of(feature_cells("small"))) == pytest.approx(-grown)
    assert speech_findings.kernel_behind(saved("speech-best").rows) == pytest.approx(-0.1)


def test_findings_without_a_counterpart_are_not_decided() -> None:
    rows = rows_of(kernel_cells("smoke"))
    no_gaussian = [row for row in rows if row["model"] != "gaussian"]
    assert speech_findings.laplacian_gain(no_gaussian) is None
    assert speech_findings.sparse_ahead(no_gaussian) is None
    assert speech_findings.features_change(rows_of(feature_cells("smoke")[:1])) is None
    assert speech_findings.deeper_gain([row for row in rows_of(depth_cells("small")) if row["depth"] <= 4]) is None
    assert speech_findings.erll_ahead(rows[:2]) is None
    assert speech_findings.kernel_behind(saved("speech-best").rows[:1]) is None


def test_seeds_are_averaged_before_anything_is_compared() -> None:
    first = rows_of(kernel_cells("smoke")[:1])[0]
    other = {**first, "seed": 1, "ter": first["ter"] + 0.1, "metrics": dict.fromkeys(first["metrics"], 3.0)}
    (mean,) = averaged([first, other])
    assert mean["ter"] == pytest.approx(first["ter"] + 0.05)
    assert mean["metrics"]["erll:1"] == pytest.approx((first["metrics"]["erll:1"] + 3) / 2)


def test_correlations_are_pearsons() -> None:
    noise = np.random.default_rng(0)
    rows = rows_of(all_cells("smoke"))
    for row in rows:
        row["metrics"] = {name: float(noise.normal()) for name in row["metrics"]}
    errors = [row["ter"] for row in rows]
    for name, value in correlations(rows).items():
        assert value == pytest.approx(np.corrcoef([row["metrics"][name] for row in rows], errors)[0, 1])
