"""Errors of a map against loops over pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from bochner.features import NystromMap
from bochner.kernels import Gaussian
from bochner.studies.nystrom_rff.errors import ERROR_EDGES, LARGE, OUTLIER, measure_errors


@pytest.fixture(scope="module")
def X() -> torch.Tensor:
    return torch.randn(40, 2, generator=Generator().manual_seed(0)).double()


def test_moments_powers_and_histograms_are_those_of_all_pairs(X: torch.Tensor) -> None:
    z = NystromMap.fit(Gaussian(), X, num_landmarks=4, generator=Generator().manual_seed(0))
    found = measure_errors(z, X)
    pairs = [(i, j) for i in range(40) for j in range(i)]
    values = [float(torch.exp(-(X[i] - X[j]).square().sum() / 2)) for i, j in pairs]
    errors = [k - float(z(X[i : i + 1])[0] @ z(X[j : j + 1])[0]) for k, (i, j) in zip(values, pairs, strict=True)]
    large = [error for k, error in zip(values, errors, strict=True) if k >= LARGE]
    assert 100 < len(large) < 600
    assert found["large_bias"] == pytest.approx(sum(large) / len(large), rel=1e-9)
    assert found["large_mse"] == pytest.approx(sum(e * e for e in large) / len(large), rel=1e-9)
    assert found["large_mse"] == pytest.approx(found["large_bias"] ** 2 + found["large_variance"], rel=1e-9)
    assert found["large_outliers"] == pytest.approx(sum(e > OUTLIER for e in large) / len(large))
    assert found["power_3.5"] == pytest.approx(sum(abs(e) ** 3.5 for e in errors) / len(errors), rel=1e-9)
    middle = [float(ERROR_EDGES[10]), float(ERROR_EDGES[11])]
    assert found["large_histogram"][10] == pytest.approx(sum(middle[0] <= e < middle[1] for e in large) / len(large))
    assert sum(found["small_histogram"]) == pytest.approx(1)
    assert found["norm"] == pytest.approx(float(z(X).square().sum(dim=1).mean()))


def test_where_no_value_is_large_nothing_is_said_of_them(X: torch.Tensor) -> None:
    z = NystromMap.fit(Gaussian(bandwidth=1e-3), X, num_landmarks=4, generator=Generator().manual_seed(0))
    found = measure_errors(z, X)
    assert (found["large_mse"], found["large_bias"], found["large_histogram"]) == (None, None, None)
    assert found["small_mse"] == found["mse"]
