"""What every projection x -> W^T x of a Fourier map can do."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from bochner.kernels import Spectral
from bochner.ops import row_tiles
from bochner.storage import Storable


class Projection(Storable, abstract=True):
    """A linear map from d inputs to P outputs, W [d, P], however it is stored; P frequencies of a spectral kernel.

    `prepared` says that the inputs must have gone through `kernel.prepare`; otherwise W holds scale and metric itself.
    """

    num_inputs: int
    num_outputs: int
    prepared = True
    structured = False  # whether W is a chain of diagonals and fast transforms
    adaptable: tuple[str, ...] = ()  # the parameters that adapting a map to data changes
    tile_elements = 2**20  # outputs a tile, a few MiB: they stay in cache from one pass to the next

    def forward(self, X: Tensor) -> Tensor:
        """X W, as [N, P]; differentiable."""
        raise TypeError(f"{type(self).__name__} must define forward(X).")

    def write(self, X: Tensor, out: Tensor) -> None:
        """X W into `out` [N, P], for one tile and without gradients."""
        out.copy_(self(X))

    def take(self, columns: Tensor) -> Projection | None:
        """Only some outputs, stored the same way; None where that is not possible."""
        return None

    def join(self, other: Projection) -> Projection | None:
        """Both projections side by side, stored the same way; None where that is not possible."""
        return None

    def matrix(self) -> Tensor:
        """W itself, [d, P]: for analysis and tests."""
        like = next(p for p in self.parameters() if p.is_floating_point())
        return self(torch.eye(self.num_inputs, dtype=like.dtype, device=like.device))


def frozen(values: Tensor) -> nn.Parameter:
    """A parameter that is not trained unless someone asks for it."""
    return nn.Parameter(values, requires_grad=False)


def sample_radii(kernel: Spectral, num_inputs: int, count: int, *, generator: Generator, dtype: torch.dtype) -> Tensor:
    """Lengths of `count` frequencies of the kernel in `num_inputs` dimensions, [count]."""
    radii = torch.empty(count, dtype=dtype, device=generator.device)
    for tile in row_tiles(count, row_elements=num_inputs, tile_elements=2**22):
        W = kernel.sample_frequencies(num_inputs, tile.stop - tile.start, generator=generator, dtype=dtype)
        radii[tile] = W.norm(dim=0)
    return radii


def random_signs(shape: tuple[int, ...], *, generator: Generator, dtype: torch.dtype) -> Tensor:
    bits = torch.randint(0, 2, shape, generator=generator, device=generator.device)
    return (2 * bits - 1).to(dtype)


def pad_inputs(X: Tensor, width: int) -> Tensor:
    return X if X.shape[1] == width else nn.functional.pad(X, (0, width - X.shape[1]))


def next_power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
