"""Adapt on one task, freeze, fit the head on another: classes 0 to 4, then 5 to 9."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from bochner.adaptation import BasisSettings, adapt
from bochner.data import ArraySource
from bochner.features import FeatureMap, FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate

NUM_INPUTS, NUM_FEATURES = 20, 32


def task(half: int, *, seed: int = 0) -> tuple[ArraySource, ArraySource]:
    """Ten classes around centres in three of twenty inputs, the others noise; five of them are a task."""
    generator = Generator().manual_seed(seed)
    centres = torch.zeros(10, NUM_INPUTS)
    centres[:, :3] = 3 * torch.randn(10, 3, generator=generator)
    y = torch.randint(0, 5, (1500,), generator=generator)
    X = centres[y + 5 * half] + torch.randn(1500, NUM_INPUTS, generator=generator)
    return ArraySource(X[500:], y[500:]), ArraySource(X[:500], y[:500])


def error(z: FeatureMap, half: int) -> float:
    model = FeatureModel(z, LinearHead.zeros(num_features=z.num_features, num_outputs=5))
    source, heldout = task(half)
    train(model, source, heldout, SGDSettings(batch_size=64, preconditioner_rank="auto", max_epochs=6), verbose=False)
    return evaluate(model, heldout, loss="softmax").summary()["err"]


@pytest.fixture(scope="module")
def random_map() -> FourierMap:
    kernel = Gaussian().with_bandwidth("median", task(0)[0].read(0).X)
    return FourierMap.draw(
        kernel, num_inputs=NUM_INPUTS, num_features=NUM_FEATURES, generator=Generator().manual_seed(1)
    )


@pytest.mark.parametrize("objective", ["alignment", "loss"])
def test_a_basis_transfers_to_another_task(random_map: FourierMap, objective: str) -> None:
    settings = BasisSettings(batches=150, validation_batches=10, max_epochs=2, learning_rate=0.02)
    adapted = adapt(random_map, task(0)[0], objective=objective, settings=settings, verbose=False)
    before = adapted.frequencies()
    here, there = error(adapted, 0), error(adapted, 1)
    assert torch.equal(before, adapted.frequencies())  # the basis stays frozen while the head is fitted
    assert here < 0.7 * error(random_map, 0)
    assert there < 0.7 * error(random_map, 1)
