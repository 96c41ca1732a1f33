"""Files like those of the study's sets, with few points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """german with 150 points, wine with 120 and targets, ijcnn1 with 1,100 of which 1,000 are drawn."""
    folder, random = tmp_path_factory.mktemp("sets"), np.random.default_rng(0)
    np.savez(folder / "german_numer.npz", X_scale=random.uniform(-1, 1, (150, 4)))
    X = random.normal(size=(120, 3))
    np.savez(folder / "wine_quality.npz", X=50 * X, y=6 + np.sin(X[:, 0]) + 0.1 * random.normal(size=120))
    np.savez(folder / "ijcnn1.npz", X_train=random.normal(size=(1100, 2)))
    return folder
