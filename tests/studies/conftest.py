"""A report of synthetic rows, written once, and data files with few points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bochner.studies.registry import FINDINGS, STUDIES
from bochner.studies.report import make_page
from bochner.studies.study import SavedRows
from tests.studies.made_rows import made_rows


@pytest.fixture(scope="session")
def saved() -> Mapping[str, SavedRows]:
    made = {study.name: made_rows(study) for study in STUDIES}
    return {name: SavedRows(name, "smoke", f"bochner study run {name}", len(rows), rows) for name, rows in made.items()}


@pytest.fixture(scope="session")
def report(saved: Mapping[str, SavedRows], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One data set per study: each kind of figure once."""
    one_set = {
        name: replace(rows, rows=[row for row in rows.rows if row.get("data") == rows.rows[0].get("data")])
        for name, rows in saved.items()
    }
    path = tmp_path_factory.mktemp("report") / "report.html"
    make_page(STUDIES, FINDINGS, one_set, size="smoke").write(path)
    return path


@pytest.fixture(scope="session")
def lowrank_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """german with 150 points, wine with 120 and targets, ijcnn1 with 1,100 of which 1,000 are drawn."""
    directory, random = tmp_path_factory.mktemp("sets"), np.random.default_rng(0)
    np.savez(directory / "german_numer.npz", X_scale=random.uniform(-1, 1, (150, 4)))
    X = random.normal(size=(120, 3))
    np.savez(directory / "wine_quality.npz", X=50 * X, y=6 + np.sin(X[:, 0]) + 0.1 * random.normal(size=120))
    np.savez(directory / "ijcnn1.npz", X_train=random.normal(size=(1100, 2)))
    return directory
