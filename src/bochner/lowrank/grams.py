"""The Gram matrices of many ridge regressions, from those of the blocks that they sampled."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner.lowrank.pattern import Samples, Tile


class BlockGrams(NamedTuple):
    """q_i q_i^T summed over the points of each block, formed once however many other blocks have sampled it.

    Where blocks of g rows sample whole blocks of columns, the Gram matrix of a row is a weighted sum of these: a pair
    of blocks costs O(r^2) in place of O(g r^2).
    """

    own: Tensor  # [B + 1, r^2]; the last, of no block, is zero
    block_of: Tensor  # [n + 1], the block of each point; B for centers and for no point
    block_size: int

    def of_tile(self, tile: Tile) -> Tensor:
        """sum_i w_i q_i q_i^T over the columns of each block of the tile, [T, r, r]."""
        g, side = self.block_size, round(self.own.shape[1] ** 0.5)
        if not tile.columns.numel():  # blocks that sampled nothing, which an embedding bag refuses
            return self.own.new_zeros(len(tile.columns), side, side)
        sampled, weights = self.block_of[tile.columns[:, ::g]], tile.weights[:, ::g].to(self.own)
        sums = torch.nn.functional.embedding_bag(sampled, self.own, per_sample_weights=weights, mode="sum")
        return sums.reshape(-1, side, side)


def worth_sharing(samples: Samples, rank: int) -> bool:
    """Whether the Gram matrices of the blocks take no more room than the sampled entries."""
    num_blocks, g = samples.blocks.shape
    return g > 1 and num_blocks * rank**2 <= g * len(samples.columns)


def block_grams(samples: Samples, extended: Tensor) -> BlockGrams:
    """For Q [n, r] with a row of zeros below it, `extended` [n + 1, r]. O(n r^2) time, O(n r^2 / g) memory."""
    num_blocks, g = samples.blocks.shape
    own = extended.new_zeros(num_blocks + 1, extended.shape[1] ** 2)
    for a, points in enumerate(samples.blocks):
        Q = extended[points]
        own[a] = (Q.T @ Q).flatten()
    block_of = torch.full((samples.num_columns + 1,), num_blocks, device=own.device)
    block_of[samples.blocks] = torch.arange(num_blocks, device=own.device)[:, None].expand(num_blocks, g)
    block_of[-1] = num_blocks
    return BlockGrams(own, block_of, g)
