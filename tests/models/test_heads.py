"""Heads: shapes, starts, bottlenecks, norms."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from bochner.models.heads import BottleneckHead, LinearHead, glorot_uniform, svd_bottleneck


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def random_head(D: int = 12, C: int = 5) -> LinearHead:
    return LinearHead(torch.randn(C, D, generator=generator()), torch.randn(C, generator=generator(1)))


def test_a_linear_head_starts_at_zero_and_is_affine() -> None:
    head = LinearHead.zeros(num_features=4, num_outputs=3)
    assert not head(torch.ones(2, 4)).any()
    head = random_head()
    Z = torch.randn(7, 12, generator=generator(2))
    torch.testing.assert_close(head(Z), Z @ head.weights.T + head.bias)
    torch.testing.assert_close(head.row_norms(), head.weights.detach().T.norm(dim=1))
    assert all(p.requires_grad for p in head.parameters())


def test_a_bottleneck_head_is_the_product_of_its_factors() -> None:
    head = BottleneckHead.glorot(num_features=12, num_outputs=6, rank=3, generator=generator())
    Z, theta = torch.randn(7, 12, generator=generator(2)), head.first.detach().T @ head.second.detach().T
    torch.testing.assert_close(head(Z), Z @ theta + head.bias)
    torch.testing.assert_close(head.row_norms(), theta.norm(dim=1))
    assert head.first.shape == (3, 12)
    assert head.rank == 3


def test_glorot_bounds_and_variance() -> None:
    W = glorot_uniform(300, 200, generator=generator())
    bound = (6 / 500) ** 0.5
    assert W.abs().max() <= bound
    assert W.std().item() == pytest.approx(bound / 3**0.5, rel=0.01)
    assert torch.equal(W, glorot_uniform(300, 200, generator=generator()))


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_svd_bottleneck_is_the_best_of_its_rank(rank: int) -> None:
    head = random_head()
    small = svd_bottleneck(head, rank=rank)
    product = (small.second @ small.first).detach()
    values = torch.linalg.svdvals(head.weights.detach())
    error = torch.linalg.matrix_norm(head.weights.detach() - product)
    torch.testing.assert_close(error, values[rank:].square().sum().sqrt(), rtol=1e-4, atol=1e-5)
    assert torch.linalg.matrix_rank(product) == rank
    assert torch.equal(small.bias, head.bias)


@pytest.mark.parametrize("kind", ["linear", "bottleneck"])
def test_a_bias_to_start_from_is_copied(kind: str) -> None:
    bias = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    head = (
        LinearHead.zeros(num_features=4, num_outputs=3, bias=bias)
        if kind == "linear"
        else BottleneckHead.glorot(num_features=4, num_outputs=3, rank=2, bias=bias, generator=generator())
    )
    assert head.bias.dtype == torch.float32
    assert torch.equal(head(torch.zeros(2, 4)), bias.float().expand(2, 3))
    with torch.no_grad():
        head.bias.zero_()
    assert bias.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bias_of_the_same_dtype_is_copied_too(dtype: torch.dtype) -> None:
    bias = torch.ones(3, dtype=dtype)
    head = LinearHead.zeros(num_features=4, num_outputs=3, bias=bias, dtype=dtype)
    with torch.no_grad():
        head.bias.zero_()
    assert bias.tolist() == [1, 1, 1]


def test_bad_ranks_and_shapes() -> None:
    with pytest.raises(ValueError, match=r"bias must have shape \(3,\), one number per output, got \(2,\)"):
        LinearHead.zeros(num_features=4, num_outputs=3, bias=torch.ones(2))
    with pytest.raises(ValueError, match="bias must be finite"):
        LinearHead.zeros(num_features=4, num_outputs=1, bias=torch.tensor([1.0]).logit())
    with pytest.raises(ValueError, match=r"first must be \[r, D\], second \[C, r\] and bias \[C\]"):
        BottleneckHead(torch.ones(12, 2), torch.ones(5, 2), torch.ones(5))
    with pytest.raises(ValueError, match=r"rank must be at most min\(num_features, num_outputs\), 3, got 4"):
        BottleneckHead.glorot(num_features=10, num_outputs=3, rank=4, generator=generator())
    with pytest.raises(ValueError, match="rank must be at most 5, the rank of the weights, got 6"):
        svd_bottleneck(random_head(), rank=6)
    with pytest.raises(ValueError, match=r"weights must be \[C, D\] and bias \[C\]"):
        LinearHead(torch.ones(3, 2), torch.ones(2))
    with pytest.raises(ValueError, match="num_outputs must be an integer of at least 1, got 0"):
        LinearHead.zeros(num_features=3, num_outputs=0)
