"""Superbatches take the steps of plain SGD."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.ops.descent import superbatch_steps
from bochner.ops.step import softmax_rows
from tests.ops.step_cases import DEVICE, Draw, error

RATE, BATCH = 4.0, 16


def residual(scores: Tensor, y: Tensor) -> Tensor:
    return softmax_rows(scores, y).residual / len(y)


def problem(num_rows: int) -> tuple[Tensor, Tensor]:
    """Features of norm 1 and learnable classes: the weights change a lot, and one step affects the next."""
    draw = Draw(0)
    Z = draw.normal(num_rows, 40, dtype=torch.float64)
    return Z / Z.norm(dim=1, keepdim=True), (Z @ draw.normal(40, 5, dtype=torch.float64)).argmax(dim=1)


@pytest.mark.parametrize("num_rows", [16, 64, 75])  # one minibatch; several; a short last one
def test_linear_head(num_rows: int) -> None:
    Z, y = problem(num_rows)
    plain, fast = (torch.zeros(5, 40, dtype=torch.float64, device=DEVICE) for _ in range(2))
    for _ in range(3):
        for start in range(0, num_rows, BATCH):
            rows = slice(start, start + BATCH)
            plain -= RATE * residual(Z[rows] @ plain.T, y[rows]).T @ Z[rows]
        superbatch_steps(
            fast, Z, lambda scores, rows, out: out.copy_(residual(scores, y[rows])), rate=RATE, batch_size=BATCH
        )
    assert error(fast, plain) < 1e-10


def test_bottleneck() -> None:
    """The second factor is updated at every minibatch, the first one by superbatches."""
    Z, y = problem(64)
    draw = Draw(1)
    first, second = draw.normal(3, 40, dtype=torch.float64), draw.normal(5, 3, dtype=torch.float64)
    plain, fast = [first.clone(), second.clone()], [first.clone(), second.clone()]
    for _ in range(3):
        for start in range(0, 64, BATCH):
            rows = slice(start, start + BATCH)
            hidden = Z[rows] @ plain[0].T
            G = residual(hidden @ plain[1].T, y[rows])
            plain = [plain[0] - RATE * (G @ plain[1]).T @ Z[rows], plain[1] - RATE * G.T @ hidden]

        def through_second(hidden: Tensor, rows: slice, out: Tensor) -> None:
            G = residual(hidden @ fast[1].T, y[rows])
            torch.mm(G, fast[1], out=out)
            fast[1] -= RATE * G.T @ hidden

        superbatch_steps(fast[0], Z, through_second, rate=RATE, batch_size=BATCH)
    assert error(fast[0], plain[0]) < 1e-10
    assert error(fast[1], plain[1]) < 1e-10


def test_products_read_the_short_copy() -> None:
    Z, y = problem(64)
    weights = torch.zeros(5, 40, device=DEVICE)
    copy = torch.zeros(8, 40, dtype=torch.bfloat16, device=DEVICE)
    exact = weights.double()
    for _ in range(3):
        superbatch_steps(exact, Z, lambda s, rows, out: out.copy_(residual(s, y[rows])), rate=RATE, batch_size=BATCH)
        superbatch_steps(
            weights,
            Z.bfloat16(),
            lambda s, rows, out: out.copy_(residual(s, y[rows])),
            rate=RATE,
            batch_size=BATCH,
            copy=copy,
        )
    assert error(weights, exact) < 1e-2
    torch.testing.assert_close(copy[:5], weights.bfloat16(), rtol=0, atol=0)
    assert not copy[5:].any()
