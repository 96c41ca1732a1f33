"""The base class of feature maps."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.storage import Storable


class FeatureMap(Storable, abstract=True):
    """z: R^d -> R^D with z(x) . z(y) ~ k(x, y), as a torch module.

    Calling a map on X [N, d] gives z(X) [N, D], differentiable in X and in any parameter that requires a gradient.
    A subclass sets `kernel`, `num_inputs` and `num_features` and implements `_features`.
    """

    kernel: Kernel
    num_inputs: int
    num_features: int

    tile_elements = TILE_ELEMENTS  # features that are computed at once: bounds the temporaries

    def forward(self, X: Tensor) -> Tensor:
        checks.inputs("X", X, width=self.num_inputs)
        if torch.is_grad_enabled() and (X.requires_grad or any(p.requires_grad for p in self.parameters())):
            return self._features(X)
        return self.write(X, X.new_empty(len(X), self.num_features))

    def write(self, X: Tensor, out: Tensor) -> Tensor:
        """z(X) into `out` [N, D], tile by tile, without a second array of that size; no gradients."""
        checks.inputs("X", X, width=self.num_inputs)
        with torch.no_grad():
            for tile in row_tiles(len(X), row_elements=self.num_features, tile_elements=self.tile_elements):
                self._write_tile(X[tile], out[tile])
        return out

    def stream(self, X: Tensor, *, rows: int = 4096) -> Iterator[tuple[slice, Tensor]]:
        """z(X) a few rows at a time: pairs of the row slice and its features. All blocks share one buffer."""
        buffer = X.new_empty(min(checks.positive_int("rows", rows), len(X)), self.num_features)
        for tile in row_tiles(len(X), row_elements=1, tile_elements=rows):
            yield tile, self.write(X[tile], buffer[: tile.stop - tile.start])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the map's parameters; its kernel may hold a metric of another dtype."""
        own = (tensor for name, tensor in self.state_dict().items() if not name.startswith("kernel."))
        return next(tensor.dtype for tensor in own if tensor.is_floating_point())

    def adaptable(self) -> list[str]:
        """Names of the parameters that adapting the map to data changes; by default none."""
        return []

    def approximate(self, X: Tensor, Y: Tensor) -> Tensor:
        """z(X) z(Y)^T [n, m], the approximation of k(X, Y)."""
        return self(X) @ self(Y).T

    def _features(self, X: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} must define _features(X).")

    def _write_tile(self, X: Tensor, out: Tensor) -> None:
        out.copy_(self._features(X))
