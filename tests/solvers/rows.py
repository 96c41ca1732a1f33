"""A source for tests."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bochner.data.blocks import Block
from bochner.ops import row_tiles


class Rows:
    """Tensors in memory as a source without checks, so that bad rows reach the solvers."""

    def __init__(self, X: Tensor, y: Tensor, weight: Tensor | None = None, *, shard_rows: int = 8192) -> None:
        self.X, self.y, self.weight = X, y, weight
        self._shards = list(row_tiles(len(X), row_elements=1, tile_elements=shard_rows))

    @property
    def num_inputs(self) -> int:
        return self.X.shape[1]

    @property
    def shard_sizes(self) -> Sequence[int]:
        return [shard.stop - shard.start for shard in self._shards]

    def read(self, shard: int) -> Block:
        rows = self._shards[shard]
        return Block(self.X[rows], self.y[rows], None if self.weight is None else self.weight[rows])
