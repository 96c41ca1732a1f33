"""Blocks of features trained apart."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Generator, nn

import bochner
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models import LandmarkModel, LogitAverage
from bochner.models.heads import FeatureModel, draw_blocks
from bochner.solvers import fit_ridge
from tests.solvers.problems import generator, points
from tests.solvers.rows import Rows


def draw(num_features: int, generator: Generator) -> FourierMap:
    return FourierMap.draw(
        Gaussian(), num_inputs=3, num_features=num_features, generator=generator, dtype=torch.float64
    )


def test_the_mean_of_the_logits_is_better_than_the_mean_block() -> None:
    X, Y = points(400), points(400, seed=9)
    source = Rows(X, X[:, :1].sin() * X[:, 1:2])
    blocks = draw_blocks(draw, num_features=160, num_blocks=4, generator=generator())
    parts = [FeatureModel(block, fit_ridge(block, source, alpha=1e-5)) for block in blocks]
    average = LogitAverage(parts)
    torch.testing.assert_close(average(Y), torch.stack([part(Y) for part in parts]).mean(dim=0))
    errors = [float((f(Y).detach() - Y[:, :1].sin() * Y[:, 1:2]).square().mean()) for f in (average, *parts)]
    assert errors[0] < sum(errors[1:]) / 4


def test_blocks_are_independent_and_repeatable() -> None:
    arguments = {"num_features": 8, "num_blocks": 2}
    first, second = draw_blocks(draw, generator=generator(), **arguments)
    again, _ = draw_blocks(draw, generator=generator(), **arguments)
    X = points()
    assert torch.equal(first(X), again(X))
    assert not torch.equal(first(X), second(X))


def test_saved_and_loaded(tmp_path) -> None:
    X = points()
    models = [LandmarkModel(Gaussian(), X[:4], points(4, 2, seed=seed), X[0, :2]) for seed in (1, 2)]
    bochner.save(LogitAverage(models), tmp_path / "average.safetensors")
    loaded = bochner.load(tmp_path / "average.safetensors")
    assert torch.equal(loaded(X), LogitAverage(models)(X))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="models must hold at least one model"):
        LogitAverage([])
    with pytest.raises(ValueError, match=r"models must agree in outputs, got \(5, 2\) and \(5, 3\)"):
        LogitAverage([nn.Linear(4, 2), nn.Linear(4, 3)])(torch.zeros(5, 4))
    with pytest.raises(ValueError, match="num_features must be a multiple of num_blocks, 3, got 8"):
        draw_blocks(partial(draw), num_features=8, num_blocks=3, generator=generator())
