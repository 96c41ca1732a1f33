"""The objectives of one batch compared with loops over its pairs."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor

from bochner.adaptation.basis import kernel_error, misalignment


def batch() -> tuple[Tensor, Tensor, Tensor]:
    generator = Generator().manual_seed(0)
    Z = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    K = torch.randn(7, 7, generator=generator, dtype=torch.float64)
    return Z, K + K.T, torch.tensor([2, 0, 2, 1, 0, 2, 5])


def test_kernel_error_is_the_mean_over_pairs_of_different_rows() -> None:
    Z, K, _ = batch()
    errors = [(float(K[i, j]) - float(Z[i] @ Z[j])) ** 2 / 2 for i in range(7) for j in range(7) if i != j]
    assert float(kernel_error(Z, K)) == pytest.approx(sum(errors) / len(errors))


def test_misalignment_counts_every_pair() -> None:
    Z, _, y = batch()
    target = [[float(y[i] == y[j]) for j in range(7)] for i in range(7)]
    inner = sum(float(Z[i] @ Z[j]) * target[i][j] for i in range(7) for j in range(7))
    norm = sum(float(Z[i] @ Z[j]) ** 2 for i in range(7) for j in range(7)) ** 0.5
    target_norm = sum(value**2 for row in target for value in row) ** 0.5
    assert float(misalignment(Z, y)) == pytest.approx(1 - inner / (norm * target_norm))
    assert float(misalignment(3 * Z, y)) == pytest.approx(float(misalignment(Z, y)))


def test_gradients_match_finite_differences() -> None:
    Z, K, y = batch()
    Z.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda Z: kernel_error(Z, K), [Z])
    assert torch.autograd.gradcheck(lambda Z: misalignment(Z, y), [Z])
