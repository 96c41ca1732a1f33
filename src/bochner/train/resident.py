"""A training set that stays on the GPU after it was read once."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner.data.blocks import Block, Source
from bochner.train.parallel.team import here

SHARE = 0.4  # of the GPU's free memory: features, weights and a group of shards in random order want the rest
BYTES = 4


class ResidentSource:
    """The shards of `source`, each kept on `device` from its first reading on: the same rows in the same order."""

    def __init__(self, source: Source, device: torch.device) -> None:
        self._source, self._device = source, device
        self._kept: dict[int, Block] = {}
        self.shard_sizes, self.num_inputs = source.shard_sizes, source.num_inputs

    def read(self, shard: int) -> Block:
        if shard not in self._kept:
            block = self._source.read(shard)
            self._kept[shard] = Block(self._move(block.X), self._move(block.y), self._move_weight(block.weight))
        return self._kept[shard]

    def _move(self, part: Tensor) -> Tensor:
        return part.to(self._device)

    def _move_weight(self, weight: Tensor | None) -> Tensor | None:
        return None if weight is None else self._move(weight)


def resident(source: Source, device: torch.device) -> Source:
    """`source` kept on the GPU where it fits, else as it is: a network or a disk then feeds it block by block.

    >>> from bochner.data.sources import ArraySource
    >>> source = ArraySource(torch.ones(3, 2), torch.ones(3))
    >>> resident(source, torch.device("cpu")) is source
    True
    """
    if device.type != "cuda" or here().num_processes > 1:
        return source
    free, _ = torch.cuda.mem_get_info(device)
    needed = BYTES * sum(source.shard_sizes) * (source.num_inputs + 2)
    return ResidentSource(source, device) if needed < SHARE * free else source
