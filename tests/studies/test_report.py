"""The report: every finding decided by rows, nothing claimed without them, readable in a browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.studies.nystrom_rff_report import LABELS
from bochner.studies.registry import FINDINGS, STUDIES
from bochner.studies.report import Assessment, assess, make_page, results_part
from bochner.studies.study import SavedRows
from tests.report.browser import opened

BY_NAME = {study.name: study for study in STUDIES}


def test_names_are_unique_and_findings_lead_to_studies() -> None:
    assert len(BY_NAME) == len(STUDIES)
    assert len({study.title for study in STUDIES}) == len(STUDIES)
    assert {finding.study for finding in FINDINGS} <= set(BY_NAME)
    assert len(FINDINGS) >= 20


@pytest.fixture(scope="module")
def assessments(saved: Mapping[str, SavedRows]) -> list[Assessment]:
    return assess(FINDINGS, saved)


@pytest.mark.parametrize("place", range(len(FINDINGS)), ids=[finding.claim[:40] for finding in FINDINGS])
def test_a_finding_holds_where_rows_say_so_and_is_open_without_rows(
    place: int, assessments: Sequence[Assessment]
) -> None:
    assert assessments[place].finding is FINDINGS[place]
    decision = assessments[place].decision
    assert decision is not None
    assert decision.holds, decision.measured
    (missing,) = assess(FINDINGS[place : place + 1], {})
    assert missing.decision is None


def test_without_rows_nothing_is_claimed() -> None:
    text = results_part(FINDINGS, {}, size="paper")
    assert text.count("| not measured |") == len(FINDINGS)
    page = make_page(STUDIES, FINDINGS, {}, size="paper").html()
    assert page.count("Not measured at this size.") == len(STUDIES)
    assert f"not measured: {len(FINDINGS)}" in page


def test_a_failed_finding_is_shown_as_failed(saved: Mapping[str, SavedRows]) -> None:
    spectra = saved["kernel-spectra"]
    flat = replace(spectra, rows=[{**row, "head_ratio": 1.0} for row in spectra.rows])
    others = {name: saved[name] for name in ("map-error", "nystrom-theorems")}
    text = results_part(FINDINGS, {**others, "kernel-spectra": flat}, size="smoke")
    lines = [line for line in text.splitlines() if line.endswith("| no |")]
    assert len(lines) == 1
    assert "first / 11th eigenvalue > 3 on 0 of 3 sets: digits 1, a9a 1, cpu 1" in lines[0]
    assert "; do not hold: 1" in text


def test_what_is_missing_is_named(saved: Mapping[str, SavedRows]) -> None:
    some = replace(saved["kernel-spectra"], num_cells=10)
    assert results_part(FINDINGS, {"kernel-spectra": some}, size="smoke").count("| so far yes |") == 2
    some = replace(some, missing=("mnist.npz",))
    html = make_page(STUDIES, FINDINGS, {"kernel-spectra": some}, size="smoke").html()
    assert html.count("(by 3 of 10 cells)") == 2  # beside each decision
    assert "3 of 10 cells are measured." in html
    assert "The file mnist.npz was missing" in html


def test_data_and_machines_of_the_runs_are_shown(saved: Mapping[str, SavedRows]) -> None:
    machine = {"processor": "a processor", "cores": 2, "threads": 1, "gpu": ""}
    run = {"study": "kernel-spectra", "cells": 3, "commit": "0123456789abcdef", "machine": machine, "bochner": "0.2",
           "versions": {"torch": "2.11"}, "data": {"digits.npz": "the sum of the file"}}  # fmt: skip
    rows = replace(saved["kernel-spectra"], runs=(run,))
    html = make_page(STUDIES, FINDINGS, {"kernel-spectra": rows}, size="smoke").html()
    for text in ("digits.npz", "the sum of the file", "a processor, 2 cores", "0123456789", "torch 2.11"):
        assert text in html


def test_performance_is_drawn_against_features_memory_and_error(report: Path) -> None:
    captions = re.findall(r"against [^.<]*", report.read_text(encoding="utf-8"))
    performance = [caption for caption in captions if caption.removeprefix("against ") in LABELS.values()]
    assert {f"against {LABELS[x]}" for x in ("num_features", "memory", "mse")} <= set(performance)


@pytest.mark.parametrize("dark", [False, True])
def test_the_report_in_a_browser_on_a_phone(report: Path, dark: bool) -> None:
    with opened(report, dark=dark) as (page, complaints):
        assert complaints == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        boxes = page.evaluate(
            "[...document.querySelectorAll('figure > svg')]"
            ".map(s => [s.getBoundingClientRect().width, s.querySelectorAll('path').length])"
        )
        assert len(boxes) > 25
        assert all(200 < width <= 360 and paths > 10 for width, paths in boxes)
        commands = page.evaluate("[...document.querySelectorAll('pre')].map(e => e.textContent)")
        assert commands == [f"bochner study run {study.name}" for study in STUDIES]
        card = page.evaluate("document.querySelector('.cards tr td:last-child').getBoundingClientRect().right")
        assert card <= 360  # the decision is visible without scrolling
