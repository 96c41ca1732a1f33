"""One trained model of each kind for the tests that only use it, and brief searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.cli import main
from tests.brief import brief_search
from tests.cli.files import rings_csv, write_csv

__all__ = ["brief_search"]


@pytest.fixture(scope="session")
def ring_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with train.csv, test.csv and, in model/, a classifier of the rings by name."""
    directory = tmp_path_factory.mktemp("rings")
    data = rings_csv(directory / "train.csv", 200)
    rings_csv(directory / "test.csv", 90, seed=1)
    main(["train", str(data), "--target", "ring", "--output_dir", str(directory / "model")])
    return directory


@pytest.fixture(scope="session")
def wave_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with train.csv, test.csv and, in model/, a regressor of y = sin x."""
    directory = tmp_path_factory.mktemp("wave")
    for name, num_rows, seed in (("train.csv", 150, 0), ("test.csv", 60, 1)):
        x = np.random.default_rng(seed).uniform(-3, 3, num_rows)
        write_csv(directory / name, {"x": x, "y": np.sin(x)})
    main(["train", str(directory / "train.csv"), "--target", "y", "--output_dir", str(directory / "model")])
    return directory
