"""A set of entries of a matrix, row by row, in blocks of rows that share their columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

# Rows of U that are gathered at once: 2^22 numbers.
TILE_ELEMENTS = 2**22


class Tile(NamedTuple):
    """Some blocks together, their lists of columns filled up to one length with the index of no column; what stands
    beside that in the other lists means nothing."""

    blocks: Tensor  # [T], which blocks
    columns: Tensor  # [T, s]
    weights: Tensor  # [T, s]
    places: Tensor  # [T, s], where in `Samples.columns` they stand


class Samples(NamedTuple):
    """A set of entries of a matrix with `num_columns` columns, in three parts:

    in every row of block a, blocks[a] [g], the columns columns[offsets[a] : offsets[a + 1]] with their `weights`, 1 /
    (probability to be there); all rows and columns of the `centers`, which are in no block; and the diagonal of a
    symmetric matrix, which gets the additional weight `diagonal`. The index `num_columns` stands for no point.
    """

    num_columns: int
    blocks: Tensor  # [B, g]
    offsets: Tensor  # [B + 1]
    columns: Tensor  # [p]
    weights: Tensor  # [p]
    centers: Tensor  # [c]
    diagonal: Tensor  # [n], or empty where the diagonal is left to chance

    @property
    def num_entries(self) -> int:
        """How many entries of a symmetric matrix are in the set."""
        present = (self.blocks < self.num_columns).sum(dim=1)
        rows = torch.repeat_interleave(present, self.offsets.diff())
        sampled = int(rows[self.columns < self.num_columns].sum())
        c = len(self.centers)
        return sampled + 2 * c * self.num_columns - c * c + int((self.diagonal == 1).sum())

    @property
    def mean_weight(self) -> float:
        """Over all entries of the matrix, those outside the set with weight 0: 1 when weights are 1 / probability."""
        n, c = self.num_columns, len(self.centers)
        present = (self.blocks < n).sum(dim=1).double()
        weights = torch.where(self.columns < n, self.weights, 0) * torch.repeat_interleave(present, self.offsets.diff())
        return (float(weights.sum()) + 2 * c * n - c * c + float(self.diagonal.sum())) / n**2

    def tempered(self, power: float) -> Samples:
        """The same entries with weights raised to `power`; the diagonal, where it is always there, keeps its 1."""
        sampled = 1 - self.diagonal
        diagonal = torch.where(sampled > 0, 1 - sampled**power, 1.0)
        return self._replace(weights=self.weights**power, diagonal=diagonal)

    def to(self, device: torch.device) -> Samples:
        return Samples(self.num_columns, *(part.to(device) for part in self[1:]))

    def tiles(self, *, column_elements: int, block_elements: int = 0) -> Iterator[Tile]:
        """All blocks, those with equally many columns together, so that little is filled up; as many at a time as need
        2^22 numbers, at so many a column and a block."""
        counts, order = self.offsets.diff().sort(descending=True)
        lengths = counts.tolist()
        start = 0
        while start < len(lengths):
            fitting = max(1, TILE_ELEMENTS // max(1, lengths[start] * column_elements + block_elements))
            yield self._tile(order[start : start + fitting], lengths[start])
            start += fitting

    def _tile(self, blocks: Tensor, length: int) -> Tile:
        places = self.offsets[blocks][:, None] + torch.arange(length, device=blocks.device)
        there = places < self.offsets[blocks + 1][:, None]
        places = torch.where(there, places, 0)
        columns = torch.where(there, self.columns[places], self.num_columns)
        return Tile(blocks, columns, self.weights[places], places)


def join_pairs(
    num_columns: int,
    blocks: Tensor,
    rows: Tensor,
    columns: Tensor,
    weights: Tensor,
    *,
    centers: Tensor | None = None,
    diagonal: Tensor | None = None,
) -> Samples:
    """Samples from pairs of blocks, sorted by row: every point of blocks[columns] is a column of blocks[rows].

    >>> samples = join_pairs(3, torch.arange(3)[:, None], torch.tensor([0, 2]), torch.tensor([1, 2]), torch.ones(2))
    >>> samples.offsets.tolist(), samples.columns.tolist()
    ([0, 1, 1, 2], [1, 2])
    """
    g = blocks.shape[1]
    offsets = torch.zeros(len(blocks) + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(rows, minlength=len(blocks)).cumsum(0) * g
    return Samples(
        num_columns,
        blocks,
        offsets,
        blocks[columns].flatten(),
        weights.repeat_interleave(g),
        torch.arange(0) if centers is None else centers,
        torch.zeros(0, dtype=torch.float64) if diagonal is None else diagonal,
    )
