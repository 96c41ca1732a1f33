"""Rows changed as they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from bochner.data.blocks import Block, Source
from bochner.data.sources.rows import read_shard


class MappedSource:
    """`source` with `transform` applied to every block on its way out; it keeps the rows and the number of inputs.

    >>> from bochner.data.sources import ArraySource, statistics
    >>> source = ArraySource(torch.tensor([[1.0], [3.0]]), torch.tensor([7, 4]))
    >>> found = statistics(source)
    >>> MappedSource(MappedSource(source, Standardize(found.mean, found.std)), EncodeLabels(found.classes)).read(0)
    Block(X=tensor([[-1.], [ 1.]]), y=tensor([1, 0]), weight=None)
    """

    def __init__(self, source: Source, transform: Callable[[Block], Block]) -> None:
        self._source, self._transform = source, transform
        self.num_inputs, self.shard_sizes = source.num_inputs, source.shard_sizes

    def read(self, shard: int) -> Block:
        return self._transform(read_shard(self._source, shard))


class Standardize(NamedTuple):
    """(x - mean) / std for each input, in the dtype of X; an input that never varies is only centred."""

    mean: Tensor
    std: Tensor

    def __call__(self, block: Block) -> Block:
        scale = torch.where(self.std > 0, self.std, 1.0)
        X = (block.X.to(self.mean) - self.mean) / scale
        return block._replace(X=X.to(block.X))


class EncodeLabels(NamedTuple):
    """y as places in the sorted `classes` [C]; a label that is not among them is refused."""

    classes: Tensor

    def __call__(self, block: Block) -> Block:
        places = torch.searchsorted(self.classes, block.y.contiguous()).clamp_(max=len(self.classes) - 1)
        unknown = self.classes[places] != block.y
        if unknown.any():
            labels = block.y[unknown].unique().tolist()
            raise ValueError(f"y must hold the {len(self.classes)} known classes only, got {labels[:10]}.")
        return block._replace(y=places)
