"""Every map on digits: errors against a naive product, falling with D."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Generator

from bochner.features import LANDMARK_RULES, FourierMap
from bochner.kernels import Gaussian
from bochner.studies import map_error
from bochner.studies.map_error import Cell, cells, prepare
from bochner.studies.workers import Context


def test_the_error_is_that_of_the_whole_matrix() -> None:
    X = torch.randn(20, 3, generator=Generator().manual_seed(0)).double()
    z = FourierMap.draw(Gaussian(), num_inputs=3, num_features=8, generator=Generator().manual_seed(0)).double()
    K = torch.tensor([[torch.exp(-(x - y).square().sum() / 2) for y in X] for x in X]).double()
    Z = z(X)
    wrong = sum((Z[i] @ Z[j] - K[i, j]) ** 2 for i in range(20) for j in range(20)) ** 0.5
    assert float(map_error.relative_error(z, X, K)) == pytest.approx(float(wrong / (K**2).sum() ** 0.5))


def test_every_map_errs_less_with_more_features() -> None:
    measure = prepare(Context(Path("nowhere")))  # digits come with scikit-learn
    names = {cell.map for cell in cells("smoke")}
    assert len(names) == 20
    assert {f"nystrom {rule}" for rule in LANDMARK_RULES} <= names
    for name in names:
        few, many = (measure(Cell(name, count, 0)) for count in (32, 256))
        assert many["error"] < few["error"]


def test_sizes_and_seeds() -> None:
    """The papers' sizes are powers of two from 64 to 1,024, with 10 seeds; the small study is a part of it."""
    paper, small, smoke = (
        {(cell.num_features, cell.seed) for cell in cells(size)} for size in ("paper", "small", "smoke")
    )
    assert paper == {(64 * 2**i, seed) for i in range(5) for seed in range(10)}
    assert small == {(64 * 2**i, seed) for i in range(5) for seed in range(5)}
    assert smoke == {(64, 0), (256, 0)}
    assert len(cells("paper")) == 20 * len(paper)
