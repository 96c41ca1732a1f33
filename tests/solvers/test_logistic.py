"""Kernel logistic regression on landmarks against L-BFGS on the same objective."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian
from bochner.models.losses import LOSSES
from bochner.solvers import fit_landmark_logistic
from bochner.solvers.landmarks import prepare
from bochner.solvers.newton import _Newton
from tests.solvers.problems import classes, dense_logistic, points, weights
from tests.solvers.rows import Rows

pytestmark = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
KERNEL = Gaussian(bandwidth=1.5)


def offset(y: Tensor, num_classes: int) -> Tensor:
    share = torch.bincount(y, minlength=num_classes).double() / len(y)
    return torch.logit(share[1:]) if num_classes == 2 else share.log()


def nystrom(landmarks: Tensor, X: Tensor) -> Tensor:
    """Features whose weights' norm is the norm in the kernel's space."""
    root = torch.linalg.cholesky(KERNEL(landmarks) + 1e-14 * torch.eye(len(landmarks)))
    return torch.linalg.solve_triangular(root, KERNEL(landmarks, X), upper=False).T


@pytest.mark.parametrize("num_classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 1e-2, 1e-5])
def test_equals_the_dense_solution(num_classes: int, alpha: float) -> None:
    X = points()
    y = classes(X, num_classes)
    source = Rows(X, y, shard_rows=50)
    model = fit_landmark_logistic(KERNEL, X[:25], source, num_classes=num_classes, alpha=alpha, tolerance=1e-13)
    right = dense_logistic(nystrom(X[:25], X), y, num_classes, offset(y, num_classes), alpha)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-3 if alpha < 1e-4 else 1e-5)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_exact_when_every_row_is_a_landmark(num_classes: int) -> None:
    X = points(60)
    y = classes(X, num_classes)
    model = fit_landmark_logistic(KERNEL, X, Rows(X, y), num_classes=num_classes, alpha=1e-3, tolerance=1e-12)
    values, vectors = torch.linalg.eigh(KERNEL(X))
    right = dense_logistic(vectors * values.clamp_min(0).sqrt(), y, num_classes, offset(y, num_classes), 1e-3)
    torch.testing.assert_close(model.decision(X), right, rtol=0, atol=1e-4)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_weights_as_repeated_rows(num_classes: int) -> None:
    X, w = points(), weights(120)
    y = classes(X, num_classes)
    arguments = {"num_classes": num_classes, "alpha": 1e-3, "tolerance": 1e-12}
    model = fit_landmark_logistic(KERNEL, X[:25], Rows(X, y, w), **arguments)
    repeated = Rows(X.repeat_interleave(w, dim=0), y.repeat_interleave(w))
    again = fit_landmark_logistic(KERNEL, X[:25], repeated, **arguments)
    torch.testing.assert_close(model.decision(X), again.decision(X), rtol=0, atol=1e-6)


def test_separable_classes_and_a_tiny_ridge() -> None:
    X = points(200, dtype=torch.float32)
    y = (X[:, 0] > 0).long()
    history: dict[int, float] = {}
    model = fit_landmark_logistic(KERNEL, X[:50], Rows(X, y), num_classes=2, alpha=1e-9, report=history.__setitem__)
    assert [*history] == [*range(1, len(history) + 1)]
    assert history[len(history)] <= 1e-3
    assert torch.equal(model.decision(X)[:, 0] > 0, y == 1)


def test_a_step_too_long_is_halved() -> None:
    X = points()
    loss = LOSSES["logistic"]
    source = Rows(X, classes(X, 2))
    K, space, alpha = prepare(KERNEL, X[:25], source, loss, alpha=1e-2, num_classes=2, memory_budget=0)
    newton = _Newton(K, space, loss)
    point = newton.evaluate(newton.start())
    moved = newton.descend(point, 1000 * newton.direction(point, alpha, 10).X, alpha)
    assert moved is not None
    assert moved.objective(alpha) < point.objective(alpha)


def test_a_class_never_seen_stays_rare() -> None:
    X = points()
    y = classes(X, 3)
    model = fit_landmark_logistic(KERNEL, X[:25], Rows(X, y), num_classes=4, alpha=1e-3)
    p = model.decision(X).softmax(dim=1)
    assert torch.isfinite(p).all()
    assert float(p[:, 3].max()) < 0.1


def test_the_budget_leaves_the_result() -> None:
    X = points()
    source = Rows(X, classes(X, 3), shard_rows=50)
    kept, made = (
        fit_landmark_logistic(KERNEL, X[:25], source, num_classes=3, memory_budget=budget) for budget in (2**20, 0)
    )
    assert torch.equal(kept.coefficients, made.coefficients)
