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


def test_misalignment_is_of_centred_matrices() -> None:
    Z, _, y = batch()
    H = torch.eye(7, dtype=torch.float64) - 1 / 7
    K, target = H @ Z @ Z.T @ H, H @ (y[:, None] == y).double() @ H
    expected = 1 - float((K * target).sum() / (K.norm() * target.norm()))
    assert float(misalignment(Z, y)) == pytest.approx(expected)
    assert float(misalignment(3 * Z, y)) == pytest.approx(expected)
    assert float(misalignment(Z + 100.0, y)) == pytest.approx(expected)  # without centring the offset would decide


def test_a_batch_of_one_class_has_no_gradient() -> None:
    Z, _, _ = batch()
    Z.requires_grad_(True)
    misalignment(Z, torch.zeros(7, dtype=torch.long)).backward()  # type: ignore[no-untyped-call]
    assert Z.grad is not None
    assert Z.grad.abs().max() == 0.0


def test_gradients_match_finite_differences() -> None:
    Z, K, y = batch()
    Z.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda Z: kernel_error(Z, K), [Z])
    assert torch.autograd.gradcheck(lambda Z: misalignment(Z, y), [Z])
