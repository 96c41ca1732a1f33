"""Products in tiles: the rounding of a tile, and kernels as functions of squared distances."""

import pytest
import torch
from torch import Generator

from bochner.kernels import Gaussian, Kernel, Laplacian, Matern, PowerExponential

KERNELS = [
    Gaussian(bandwidth=2.0),
    Gaussian(bandwidth=2.0, metric=torch.diag(torch.tensor([1.0, 2.0, 3.0]))),
    PowerExponential(exponent=2.0, bandwidth=2.0),
    PowerExponential(exponent=1.0, bandwidth=2.0),
    Matern(smoothness=0.5),
    Matern(smoothness=1.5),
    Matern(smoothness=2.5),
    Laplacian(bandwidth=3.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_full_tile_is_rounded_as_a_product_by_itself(kernel: Kernel) -> None:
    generator = Generator().manual_seed(0)
    X, Y, V = (torch.randn(shape, generator=generator) for shape in ((96, 3), (500, 3), (500, 2)))
    alone = torch.cat([kernel.matmul(tile, Y, V) for tile in X.split(32)])
    assert torch.equal(kernel.matmul(X, Y, V, tile_rows=32), alone)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel.radial.norm == 2], ids=repr)
def test_values_from_squared_distances(kernel: Kernel) -> None:
    X = torch.randn(20, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    U = kernel.prepare(X)
    values = kernel.radial.values(torch.cdist(U, U, compute_mode="donot_use_mm_for_euclid_dist").square())
    torch.testing.assert_close(values, kernel(X))
