"""Rows that many blocks of a kernel matrix share as columns: prepared once, and more can be appended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bochner.kernels.kernel import Kernel
from bochner.ops import TILE_ELEMENTS, row_tiles, tile_size


class Centers:
    """Rows Y [count, d] in memory for `capacity` rows, as inputs of `kernel`.

    Where the kernel has fused blocks (on a GPU, for functions of the Euclidean distance in float32), what they need of
    a row is computed when it is appended. `rows` and `prepare` return rows in the form that `KernelBlock` takes.

    >>> from bochner.kernels import Gaussian
    >>> Y = torch.zeros(3, 2)
    >>> centers = Centers(Gaussian(), Y, capacity=5)
    >>> centers.append(centers.prepare(torch.ones(1, 2)))
    >>> KernelBlock(centers, centers.prepare(Y[:1]), slice(0, 4)).times(torch.ones(4, 1))
    tensor([[3.3679]])
    """

    def __init__(self, kernel: Kernel, Y: Tensor, *, capacity: int) -> None:
        self.kernel, self.count, inputs = kernel, 0, kernel.prepare(Y)
        self.has_blocks = has_blocks(kernel, inputs)
        self.fused = kernel.fused_products(inputs) if self.has_blocks else None
        self.center = inputs.mean(dim=0)
        self._memory: Any  # a tensor, or SplitRows
        if self.fused is None:
            self._memory = Y.new_empty(capacity, Y.shape[1])
        else:
            self._memory = self.fused.SplitRows.empty(capacity, inputs)
        for tile in row_tiles(len(Y), row_elements=Y.shape[1], tile_elements=tile_size(TILE_ELEMENTS, Y.device)):
            self.append(self.prepare(Y[tile]))

    def prepare(self, X: Tensor) -> Any:
        return X if self.fused is None else self.fused.SplitRows.of(self.kernel.prepare(X), self.center)

    def rows(self, part: slice) -> Any:
        return self._memory[part] if isinstance(self._memory, Tensor) else self._memory.part(part)

    def append(self, rows: Any) -> None:
        """Add prepared rows."""
        added = slice(self.count, self.count + num_rows(rows))
        if isinstance(rows, Tensor):
            self._memory[added] = rows
        else:
            for memory, values in zip(self._memory, rows, strict=True):
                memory[added] = values
        self.count = added.stop


def has_blocks(kernel: Kernel, like: Tensor) -> bool:
    """Whether blocks of `kernel` are worth keeping: not those of other distances on a GPU, which has fused products."""
    return kernel.fused_products(like) is None or (kernel.radial is not None and kernel.radial.norm == 2)


def num_rows(rows: Any) -> int:
    return len(rows) if isinstance(rows, Tensor) else len(rows.rows)


class KernelBlock:
    """k(X, Y) for prepared rows X and a part of the centers, as a factor of products.

    It is computed in tiles of columns, of which those that fit into `keep` numbers are kept for the next product.
    """

    def __init__(self, centers: Centers, rows: Any, part: slice, *, keep: int = 0) -> None:
        self.centers, self.rows, self.part = centers, rows, part
        self._left, self._kept = keep, dict[int, Tensor]()

    def times(self, V: Tensor) -> Tensor:
        """k(X, Y) V [n, c]."""
        if not self.centers.has_blocks:
            return self.centers.kernel.matmul(self.rows, self.centers.rows(self.part), V)
        result = V.new_zeros(num_rows(self.rows), V.shape[1])
        for tile, K in self._tiles():
            result += (V[tile].T.contiguous() @ K.T).T  # on a CPU several times as fast as K @ V
        return result

    def adjoint(self, W: Tensor) -> Tensor:
        """k(X, Y)^T W [m, c]."""
        if not self.centers.has_blocks:
            return self.centers.kernel.matmul(self.centers.rows(self.part), self.rows, W)
        return torch.cat([(W.T @ K).T for _, K in self._tiles()])

    def _tiles(self) -> Iterator[tuple[slice, Tensor]]:
        centers, n = self.centers, num_rows(self.rows)
        limit = tile_size(TILE_ELEMENTS, centers.center.device)
        for tile in row_tiles(self.part.stop - self.part.start, row_elements=n, tile_elements=limit):
            K = self._kept.get(tile.start)
            if K is None:
                columns = centers.rows(slice(self.part.start + tile.start, self.part.start + tile.stop))
                if centers.fused is None:
                    K = centers.kernel(self.rows, columns)
                else:
                    K = centers.fused.radial_block(self.rows, columns, centers.kernel.radial)
                if K.numel() <= self._left:
                    self._left -= K.numel()
                    self._kept[tile.start] = K
            yield tile, K
