"""The average gradient outer product against gradients written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from bochner.adaptation.metric import gradient_outer_product
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian, Matern, PowerExponential
from bochner.models import LandmarkModel
from bochner.models.heads import FeatureModel, LinearHead


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def points(count: int = 40, inputs: int = 3) -> Tensor:
    return torch.randn(count, inputs, generator=generator(), dtype=torch.float64)


def source(X: Tensor) -> ArraySource:
    return ArraySource(X, torch.zeros(len(X)))


def fourier_model(num_outputs: int, projection: str = "auto") -> FeatureModel:
    z = FourierMap.draw(
        Gaussian(),
        num_inputs=3,
        num_features=16,
        form="cosine",
        projection=projection,
        generator=generator(1),
        dtype=torch.float64,
    )
    head = LinearHead.zeros(num_features=16, num_outputs=num_outputs, dtype=torch.float64)
    head.weights.data.normal_(generator=generator(2))
    return FeatureModel(z, head)


def naive(model: FeatureModel, X: Tensor) -> np.ndarray:
    """g_c(x) = -sqrt(2 / D) sum_j theta_cj sin(w_j . x + b_j) w_j, row by row."""
    z = model.feature_map
    W, b, theta = z.frequencies().numpy(), z.phases.detach().numpy(), model.head.weights.detach().numpy()
    total = np.zeros((3, 3))
    for x in X.numpy():
        G = -z.amplitude * (theta * np.sin(x @ W + b)) @ W.T
        total += G.T @ G
    return total / len(X)


@pytest.mark.parametrize("projection", ["iid", "hadamard3"])
def test_is_the_mean_over_rows_of_sums_over_scores(projection: str) -> None:
    model, X = fourier_model(4, projection), points(600)
    M = gradient_outer_product(model, source(X), generator=generator())
    np.testing.assert_allclose(M.numpy(), naive(model, X), rtol=1e-10, atol=1e-12)


def test_a_sample_of_the_rows_is_drawn_by_the_generator() -> None:
    model, X = fourier_model(2), points(50)
    first, again, other = (
        gradient_outer_product(model, source(X), num_rows=5, generator=generator(seed)) for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_random_signs_are_right_on_average() -> None:
    """Thirty scores, four probes: the mean of 300 estimates is within four standard errors of the sum over scores."""
    model, X = fourier_model(30), points(20)
    estimates = torch.stack(
        [gradient_outer_product(model, source(X), num_probes=4, generator=generator(seed)) for seed in range(300)]
    )
    error = (estimates.mean(dim=0) - torch.from_numpy(naive(model, X))).abs()
    assert (error < 4 * estimates.std(dim=0) / 300**0.5).all()
    assert estimates.std(dim=0).min() > 0


@pytest.mark.parametrize(
    "kernel", [Gaussian(), Matern(smoothness=0.5), PowerExponential(exponent=0.7), PowerExponential(norm=1.5)]
)
def test_landmarks_among_the_rows_have_finite_gradients(kernel: nn.Module) -> None:
    X = points(10)
    model = LandmarkModel(kernel, X, torch.ones(10, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))
    assert gradient_outer_product(model, source(X), generator=generator()).isfinite().all()
