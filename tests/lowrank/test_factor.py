"""Maps for new points of factors without landmarks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bochner.lowrank import (
    extend,
    truncate,
)
from tests.lowrank.cases import GAUSSIAN, generator, points


def matrix(X: torch.Tensor) -> np.ndarray:
    return GAUSSIAN(X).numpy()


def test_extension_of_eigenvectors() -> None:
    """With all points as anchors: L^{-1/2} Q^T k(X, x)."""
    X, new = points(50), points(9, seed=1)
    values, vectors = np.linalg.eigh(matrix(X))
    root = torch.as_tensor(vectors[:, -8:] * np.sqrt(values[-8:]))
    z = extend(GAUSSIAN, X, root, generator=generator())
    expected = GAUSSIAN(new, X).numpy() @ vectors[:, -8:] / np.sqrt(values[-8:])
    np.testing.assert_allclose(z(new), expected, atol=1e-9)
    torch.testing.assert_close(z(X), root, rtol=1e-8, atol=1e-8)


def test_extension_from_few_anchors() -> None:
    X, new = points(400), points(50, seed=1)
    factor = truncate(GAUSSIAN, X, rank=20, num_anchors=100, generator=generator())
    assert len(factor.features.landmarks) == 100
    error = factor.transform(new) @ factor.root.T - GAUSSIAN(new, X)
    assert float(error.square().mean().sqrt()) < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_new_points_are_mapped_well_near_isolated_points(seed: int) -> None:
    """Most draws of anchors miss a direction of a single point, and the least-squares solution is then unbounded."""
    axes = 9 * torch.eye(3, dtype=torch.float64)  # 6 bandwidths from the crowd: k is 1e-8, small but not 0
    X, new = torch.cat([points(600), axes, -axes]), points(50, seed=9)
    values, vectors = torch.linalg.eigh(GAUSSIAN(X))
    root = vectors[:, -35:] * values[-35:].sqrt()
    found = extend(GAUSSIAN, X, root, num_anchors=100, generator=generator(seed))(new)
    best = torch.linalg.lstsq(root, GAUSSIAN(X, new)).solution.T
    assert (found - best).norm() < 0.2 * best.norm()
