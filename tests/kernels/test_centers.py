"""Blocks of kernel matrices with prepared columns, in torch and by fused blocks, against values in float64."""

from __future__ import annotations

import pytest
import torch

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern, kernel
from bochner.kernels.centers import Centers, KernelBlock, has_blocks
from tests.ops.step_cases import DEVICE, Draw


@pytest.fixture(params=["torch", "fused"])
def fused(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether fused blocks are used; on a CPU by Triton's interpreter."""
    if request.param == "fused":
        pytest.importorskip("triton", reason="Triton is not installed: fused blocks are not tested")
        from bochner.ops import fused

        monkeypatch.setattr(Kernel, "fused_products", lambda kernel, like: fused)
        return True
    monkeypatch.setattr(Kernel, "fused_products", lambda kernel, like: None)
    return False


@pytest.mark.parametrize("keep", [0, 10**4, 10**6])
@pytest.mark.parametrize(
    "k", [Gaussian(bandwidth=3.0, scale=0.5), Matern(smoothness=0.5, metric=torch.eye(20) / 9)], ids=["scale", "metric"]
)
def test_blocks_with_centers(monkeypatch: pytest.MonkeyPatch, fused: bool, keep: int, k: Kernel) -> None:
    monkeypatch.setattr("bochner.kernels.centers.TILE_ELEMENTS", 10**4 if DEVICE == "cpu" else 10**3)
    draw, k = Draw(0), k.to(DEVICE)
    Y, X, more = draw.normal(300, 20), draw.normal(65, 20), draw.normal(40, 20)
    centers = Centers(k, Y, capacity=380)
    assert (centers.fused is not None) == fused
    centers.append(centers.prepare(more))
    X[:5] = more[:5]
    part = slice(10, centers.count)
    block = KernelBlock(centers, centers.prepare(X), part, keep=keep)
    K = k(X.double(), torch.cat([Y, more]).double()[part])
    V, W = draw.normal(330, 3), draw.normal(65, 2)
    for _ in range(2):  # the second time from what was kept
        torch.testing.assert_close(block.times(V).double(), K @ V.double(), rtol=0, atol=1e-4)
        torch.testing.assert_close(block.adjoint(W).double(), K.T @ W.double(), rtol=0, atol=1e-4)
    inner = KernelBlock(centers, centers.rows(slice(300, 340)), slice(0, 0))
    assert inner.times(V[:0]).shape == (40, 3)


def test_products_of_many_inputs_are_computed_by_blocks(monkeypatch: pytest.MonkeyPatch, fused: bool) -> None:
    monkeypatch.setattr(kernel, "MAX_FUSED_INPUTS", 16)
    draw, k = Draw(1), Matern(smoothness=1.5, bandwidth=4.0)
    X, Y, V = draw.normal(20, 50).T, draw.normal(70, 20), draw.normal(70, 2)  # rows that are not contiguous
    if fused:
        from bochner.ops import fused as module

        monkeypatch.setattr(module, "radial_product", None)
    expected = k(X.double(), Y.double()) @ V.double()
    torch.testing.assert_close(k.matmul(X, Y, V).double(), expected, rtol=0, atol=1e-4)


def test_kernels_of_other_distances_have_fused_products_only(fused: bool) -> None:
    draw, k = Draw(2), Laplacian(bandwidth=8.0)
    X, Y, V, W = draw.normal(30, 4), draw.normal(70, 4), draw.normal(70, 2), draw.normal(30, 2)
    assert has_blocks(k, Y) == (not fused)
    centers = Centers(k, Y, capacity=70)
    block, K = KernelBlock(centers, centers.prepare(X), slice(0, 70)), k(X.double(), Y.double())
    torch.testing.assert_close(block.times(V).double(), K @ V.double(), rtol=0, atol=1e-4)
    torch.testing.assert_close(block.adjoint(W).double(), K.T @ W.double(), rtol=0, atol=1e-4)
