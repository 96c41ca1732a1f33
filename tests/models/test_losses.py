"""Losses: one class each for the loop and for the solvers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from bochner.models.losses import LOSSES, choose_loss

WIDTHS = {"softmax": 3, "logistic": 1, "squared": 3}
every_loss = pytest.mark.parametrize("name", LOSSES)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return 2 * torch.randn(*shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def problem(name: str, rows: int = 40) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, y as a block holds it, and y as solvers encode it."""
    labels = torch.randint(0, 2 if name == "logistic" else 3, (rows,), generator=Generator().manual_seed(1))
    y = normal(rows, 3, seed=2) if name == "squared" else labels
    encoded = y if name == "squared" else F.one_hot(labels, 2 if name == "logistic" else 3).double()
    return normal(rows, WIDTHS[name]), y, encoded


def one_row(name: str, f: list[float], y: float | list[float]) -> float:
    match name:
        case "softmax":
            return math.log(sum(math.exp(c) for c in f)) - f[int(y)]
        case "logistic":
            return math.log1p(math.exp(f[0])) - y * f[0]
        case _:
            return 0.5 * sum((a - b) ** 2 for a, b in zip(f, y, strict=True))


@every_loss
def test_value_and_mean_are_their_definitions(name: str) -> None:
    loss, (scores, y, encoded) = LOSSES[name], problem(name)
    right = torch.tensor([one_row(name, f, t) for f, t in zip(scores.tolist(), y.tolist(), strict=True)]).double()
    torch.testing.assert_close(loss.value(scores, y), right)
    torch.testing.assert_close(loss.value(scores, loss.targets(encoded)), right)
    torch.testing.assert_close(loss(scores, y), right.mean())
    weight = normal(40, seed=3).abs()
    torch.testing.assert_close(loss(scores, y, weight), (right * weight).sum() / 40)


def test_squared_takes_one_column_as_a_vector() -> None:
    scores, y = normal(5, 1), normal(5, seed=1)
    torch.testing.assert_close(LOSSES["squared"](scores, y), (scores[:, 0] - y).square().mean() / 2)


@every_loss
def test_derivatives(name: str) -> None:
    loss, (scores, _, encoded) = LOSSES[name], problem(name, rows=6)
    targets, preconditioner_rank = loss.targets(encoded), normal(6, WIDTHS[name], seed=4)
    scores.requires_grad_()
    residual = loss.residual(scores, targets)
    (slope,) = torch.autograd.grad(loss.value(scores, targets).sum(), scores)
    torch.testing.assert_close(residual, slope)
    (curved,) = torch.autograd.grad((residual * preconditioner_rank).sum(), scores)
    torch.testing.assert_close(loss.curve(scores, preconditioner_rank), curved)
    eye = torch.eye(targets.shape[1], dtype=torch.float64)
    diagonal = torch.stack([loss.curve(scores, unit.expand_as(scores))[:, j] for j, unit in enumerate(eye)], dim=1)
    torch.testing.assert_close(loss.curvature(scores), diagonal.mean(dim=1))
    hessians = [torch.autograd.functional.hessian(lambda f: loss.value(f[None], targets[:1])[0], f) for f in scores]
    assert max(float(torch.linalg.matrix_norm(H, ord=2)) for H in hessians) <= loss.smoothness + 1e-12


@every_loss
def test_no_constant_is_better_than_the_offset(name: str) -> None:
    loss, (_, y, encoded) = LOSSES[name], problem(name)
    offset = loss.offset(encoded.mean(dim=0)).requires_grad_()
    (slope,) = torch.autograd.grad(loss(offset.expand(40, -1), y), offset)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


def test_a_class_never_seen_has_a_finite_offset() -> None:
    offset = LOSSES["softmax"].offset(torch.tensor([0.75, 0.25, 0.0]))
    assert torch.isfinite(offset).all()
    assert offset.argmin() == 2


def test_choose_loss() -> None:
    assert choose_loss("squared", None) is LOSSES["squared"]
    assert choose_loss("squared", 3) is LOSSES["squared"]
    with pytest.raises(ValueError, match=r"loss must be one of \['softmax', 'logistic', 'squared'\], got 'squares'"):
        choose_loss("squares", None)
