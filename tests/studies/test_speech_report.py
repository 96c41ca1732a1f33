"""Grids, the papers' numbers beside ours, and that replacements are called synthetic."""

from __future__ import annotations

import pytest

from bochner.report import Page
from bochner.studies.speech import STUDIES
from bochner.studies.speech_cells import (
    HELDOUT,
    SIZES,
    all_cells,
    depth_cells,
    feature_cells,
    kernel_cells,
    network_cells,
)
from bochner.studies.speech_report import published_best, published_correlation, published_kernel, published_network
from bochner.studies.study import Size, Study
from tests.studies.test_speech_findings import rows_of, saved


@pytest.mark.parametrize("size", SIZES)
def test_studies_share_the_models_they_have_in_common(size: Size) -> None:
    ablations = set(all_cells(size))
    assert len(ablations) == len(kernel_cells(size)) + len(network_cells(size))
    assert {cell for cell in depth_cells(size) if cell.depth == 4} <= ablations
    full = SIZES[size].num_features
    assert {cell for cell in feature_cells(size) if cell.num_features == full} <= ablations
    assert all(cell.data.startswith("synthetic ") for cell in ablations)


def test_every_model_on_the_stand_in_for_timit_has_the_papers_numbers() -> None:
    for row in rows_of(kernel_cells("small")):
        assert all(published_kernel(row, metric) for metric in (*HELDOUT, "ter"))
    widths = SIZES["small"].widths
    for row in rows_of(network_cells("small")):
        assert all(published_network(row, metric, widths) for metric in (*HELDOUT, "ter"))


def test_the_papers_numbers_are_looked_up() -> None:
    rows = rows_of(kernel_cells("paper"))
    cantonese = next(row for row in rows if row["data"] == "synthetic cantonese-like" and row["selection"])
    assert (cantonese["model"], published_kernel(cantonese, "ter")) == ("laplacian", 68.4)
    widest = next(row for row in rows_of(network_cells("paper")) if row["width"] == 1024 and not row["bottleneck"])
    assert published_network(widest, "ter", SIZES["paper"].widths) == 18.6
    assert published_best("synthetic broadcast-like", "network", "ter") == 16.4
    assert published_correlation("synthetic bengali-like", "erll:0") == 0.31
    assert published_correlation("synthetic bengali-like", "capped:0.1") is None


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_a_page_names_its_speech_as_synthetic_and_the_papers_as_others(study: Study) -> None:
    page = Page("A study")
    study.show(page, saved(study.name).rows)
    html = page.html()
    assert "synthetic timit-like" in html
    assert "on other speech" in html or "papers, other speech" in html or "Broadcast News from the papers" in html
    assert "The speech is synthetic" in study.protocol


def test_error_rates_are_shown_in_percent_beside_theirs() -> None:
    page = Page("A study")
    study = next(study for study in STUDIES if study.name == "speech-best")
    study.show(page, saved("speech-best").rows)
    assert "20.4 (20.4)" in page.html()
    assert "20.5 (18.6)" in page.html()  # dev of the network beside TIMIT's
