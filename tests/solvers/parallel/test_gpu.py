"""Solvers over processes on a GPU: one process by NCCL, two that share the GPU by gloo, against no process group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers import fit_askotch, fit_exact_ridge, fit_landmark_logistic, fit_landmark_ridge, fit_ridge
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from tests.solvers.parallel.ranks import run_ranks

pytestmark = pytest.mark.gpu


def fitted(group: Any = None) -> dict[str, np.ndarray]:
    """Coefficients of six solvers on the same rows of the GPU."""
    draw = torch.Generator().manual_seed(0)
    X = torch.randn(600, 5, generator=draw).cuda()
    classes, kernel = (X @ torch.randn(5, 3, generator=draw).cuda()).argmax(dim=1), Gaussian(bandwidth=2.0)
    numbers, states = (ArraySource(X, y, shard_rows=100) for y in (X[:, :2].sin().sum(dim=1), classes))
    exactly: dict[str, Any] = {"alpha": 1e-3, "tolerance": 1e-6, "group": group}
    z = FourierMap.draw(kernel, num_inputs=5, num_features=64, generator=draw).cuda()
    model = FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=3)).cuda()
    train(model, states, states, SGDSettings(learning_rate=2.0, batch_size=50, max_epochs=2), group=group)
    found = {
        "landmarks": fit_landmark_ridge(kernel, X[:80], numbers, **exactly).coefficients,
        "newton": fit_landmark_logistic(kernel, X[:80], states, num_classes=3, **exactly).coefficients,
        "askotch": fit_askotch(kernel, numbers, block_rows=100, **exactly).coefficients,
        "exact": fit_exact_ridge(kernel, numbers, alpha=1e-3, group=group).coefficients,
        "ridge": fit_ridge(z, numbers, alpha=1e-3, group=group).weights,
        "sgd": model.head.weights,
    }
    assert all(part.is_cuda for part in found.values())
    return {name: part.detach().cpu().numpy() for name, part in found.items()}


@pytest.mark.parametrize(("count", "backend"), [(1, "cpu:gloo,cuda:nccl"), (2, "cpu:gloo,cuda:gloo")])
def test_the_models_are_those_of_one_process(count: int, backend: str, tmp_path: Path) -> None:
    expected = fitted()
    for found in run_ranks(fitted, count, tmp_path, backend=backend, device="cuda"):
        for name, coefficients in expected.items():
            np.testing.assert_allclose(
                found[name], coefficients, rtol=0, atol=2e-5 * np.abs(coefficients).max(), err_msg=name
            )
