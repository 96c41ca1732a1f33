"""Rows changed as they are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bochner.data.blocks import Block, Source
from bochner.data.sources.labels import column_names_of, labels_of
from bochner.data.sources.rows import read_shard


class MappedSource:
    """`source` with `transform` applied to every block on its way out; it keeps the rows, the inputs and what y means.

    >>> from bochner.data.sources import ArraySource, statistics
    >>> source = ArraySource(torch.tensor([[1.0], [3.0]]), torch.tensor([7, 4]))
    >>> found = statistics(source)
    >>> MappedSource(MappedSource(source, Standardize(found.mean, found.std)), EncodeLabels(found.classes)).read(0)
    Block(X=tensor([[-1.], [ 1.]]), y=tensor([1, 0]), weight=None)
    """

    def __init__(self, source: Source, transform: Callable[[Block], Block]) -> None:
        self._source, self._transform = source, transform
        self.num_inputs, self.shard_sizes = source.num_inputs, source.shard_sizes
        self.labels, self.column_names = labels_of(source), column_names_of(source)
        if isinstance(transform, EncodeLabels) and self.labels is not None:
            self.labels = tuple(self.labels[place] for place in transform.classes.tolist())

    def read(self, shard: int) -> Block:
        return self._transform(read_shard(self._source, shard))


@dataclass(frozen=True, eq=False)
class Standardize:
    """(x - mean) / std for each input, in the dtype of X; an input that never varies is only centred."""

    mean: Tensor
    std: Tensor

    def __call__(self, block: Block) -> Block:
        scale = torch.where(self.std > 0, self.std, 1.0)
        X = (block.X.to(self.mean) - self.mean) / scale
        return block._replace(X=X.to(block.X))


@dataclass(frozen=True, eq=False)
class EncodeLabels:
    """y as places in the sorted `classes` [C]; a label that is not among them is refused."""

    classes: Tensor

    def __call__(self, block: Block) -> Block:
        kind = torch.promote_types(self.classes.dtype, block.y.dtype)  # a file may write 1 as 1.0
        classes, y = self.classes.to(block.y.device, kind), block.y.to(kind).contiguous()
        places = torch.searchsorted(classes, y).clamp_(max=len(classes) - 1)
        unknown = classes[places] != y
        if unknown.any():
            labels = block.y[unknown].unique().tolist()
            raise ValueError(f"y must hold the {len(self.classes)} known classes only, got {labels[:10]} besides.")
        return block._replace(y=places)
