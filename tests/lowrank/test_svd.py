"""`truncate` against eigenvalues of whole matrices."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner.kernels import Gaussian
from bochner.kernels import kernel as kernel_module
from bochner.lowrank import (
    svd,
    truncate,
)
from bochner.lowrank.errors import largest
from tests.lowrank.cases import GAUSSIAN, generator, points
from tests.oracles import lowrank as oracle
from tests.oracles.memory import peak_elements


def matrix(X: torch.Tensor) -> np.ndarray:
    return GAUSSIAN(X).numpy()


def test_truncate_is_the_best() -> None:
    X = points(80)
    U = truncate(GAUSSIAN, X, rank=9, generator=generator()).root
    np.testing.assert_allclose(U @ U.T, oracle.best_of_rank(matrix(X), 9), atol=1e-12)


def test_truncate_finds_a_point_far_from_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its eigenvalue 1 is among the largest, and no other column of K sees it."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X = points(600)
    X[599] += 1000
    factor = truncate(Gaussian(bandwidth=20.0), X, rank=6, generator=generator())
    assert factor.diag()[599] == pytest.approx(1)


@pytest.mark.parametrize("bandwidth", [0.3, 1.5, 20.0])
def test_iteration_reaches_the_best(monkeypatch: pytest.MonkeyPatch, bandwidth: float) -> None:
    """Slow, fast and very fast decay of the eigenvalues: within the tolerance of the optimum."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X, kernel = points(400), Gaussian(bandwidth=bandwidth)
    values = torch.linalg.eigvalsh(kernel(X)).flip(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = truncate(kernel, X, rank=20, tolerance=0.01, generator=generator()).root
    optimum = float(values[20])
    assert optimum <= largest(kernel(X) - U @ U.T) * (1 + 1e-9) + 1e-12
    assert largest(kernel(X) - U @ U.T) <= 1.01 * optimum + 1e-12 * float(values[0])


def test_iteration_that_stops_early_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    with pytest.warns(ConvergenceWarning, match="max_sweeps=1 .*tolerance 1e-06"):
        truncate(Gaussian(bandwidth=0.5), points(400), rank=20, tolerance=1e-6, max_sweeps=1, generator=generator())


@pytest.mark.parametrize("bandwidth", [1e-4, 1e9])
def test_iteration_on_identity_and_ones(monkeypatch: pytest.MonkeyPatch, bandwidth: float) -> None:
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    X, kernel = points(200), Gaussian(bandwidth=bandwidth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        U = truncate(kernel, X, rank=5, generator=generator()).root
    assert largest(kernel(X) - U @ U.T) <= (1 if bandwidth < 1 else 1e-9) + 1e-9


def test_iteration_never_holds_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """n = 1,000: K would have a million numbers."""
    monkeypatch.setattr(svd, "EXACT_POINTS", 100)
    monkeypatch.setattr(kernel_module, "TILE_ELEMENTS", 2**15)
    X = points(1000)
    call = partial(truncate, GAUSSIAN, X, rank=10, generator=generator())
    assert peak_elements(call, dtype=X.dtype) < 0.35e6
