"""A report of made-up rows, written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.studies.registry import FINDINGS, STUDIES
from bochner.studies.reporting import make_page
from bochner.studies.saved import Saved
from tests.studies.made_rows import made_rows


@pytest.fixture(scope="session")
def saved() -> Mapping[str, Saved]:
    made = {study.name: made_rows(study) for study in STUDIES}
    return {name: Saved(name, "smoke", f"bochner study run {name}", len(rows), rows) for name, rows in made.items()}


@pytest.fixture(scope="session")
def report(saved: Mapping[str, Saved], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one set a study: each kind of figure once."""
    one_set = {
        name: replace(found, rows=[row for row in found.rows if row.get("data") == found.rows[0].get("data")])
        for name, found in saved.items()
    }
    path = tmp_path_factory.mktemp("report") / "report.html"
    make_page(STUDIES, FINDINGS, one_set, size="smoke").write(path)
    return path
