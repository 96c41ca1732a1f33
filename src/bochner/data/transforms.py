"""Sources made from sources: standardised inputs, encoded classes, statistics, and a split for validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bochner.data.blocks import Block, MappedSource, Shards, Source, num_rows, read_shard, read_targets, seeded, take
from bochner.data.labels import MAX_LABELS, abbreviated, column_names_of, labels_of

Classes = np.ndarray[Any, Any]
"""Class labels [C]: text, or sorted numbers."""


@dataclass(frozen=True, eq=False)
class Standardize:
    """(x - mean) / std for each input, in the dtype of X; a constant input is only centred."""

    mean: Tensor
    std: Tensor

    def __call__(self, block: Block) -> Block:
        scale = torch.where(self.std > 0, self.std, 1.0)
        X = (block.X.to(self.mean) - self.mean) / scale
        return block._replace(X=X.to(block.X))


@dataclass(frozen=True, eq=False)
class EncodeLabels:
    """y as indices into the sorted `classes` [C]; any other label is an error."""

    classes: Tensor

    def encode_labels(self, labels: Sequence[str]) -> tuple[str, ...]:
        """The labels of the indices that y holds afterwards."""
        return tuple(labels[index] for index in self.classes.tolist())

    def __call__(self, block: Block) -> Block:
        dtype = torch.promote_types(self.classes.dtype, block.y.dtype)  # a file may hold 1 as 1.0
        classes, y = self.classes.to(block.y.device, dtype), block.y.to(dtype).contiguous()
        codes = torch.searchsorted(classes, y).clamp_(max=len(classes) - 1)
        unknown = classes[codes] != y
        if unknown.any():
            labels = block.y[unknown].unique().tolist()
            raise ValueError(f"y must hold the {len(self.classes)} known classes only, got {labels[:10]} besides.")
        return block._replace(y=codes)


class Statistics(NamedTuple):
    """Of N rows: `mean` [d] and `std` [d] in float64 (divided by N, not N - 1), and the sorted `classes` [C].

    `classes` are integers (indices of labels, if y is text); None for floats and for more than 100,000 of them.
    """

    num_rows: int
    mean: Tensor
    std: Tensor
    classes: Tensor | None


def statistics(source: Source) -> Statistics:
    """Mean, standard deviation and classes, in one pass over the shards.

    Two sets of n and m rows with means a, b and sums of squared deviations S, T have together the mean
    a + (b - a) m / (n + m) and the sum S + T + (b - a)^2 n m / (n + m): no cancellation, however far the mean is from
    zero. O(N d) time, O(shard d) memory. Source: Chan, Golub and LeVeque, 1983.

    >>> from bochner.data import ArraySource
    >>> statistics(ArraySource(torch.tensor([[1.0], [3.0]]), torch.tensor([7, 4])))
    Statistics(num_rows=2, mean=tensor([2.], dtype=torch.float64), std=tensor([1.], dtype=torch.float64),
        classes=tensor([4, 7]))
    """
    n, mean = 0, torch.zeros(source.num_inputs, dtype=torch.float64)
    squares = torch.zeros_like(mean)
    classes: Tensor | None = torch.empty(0, dtype=torch.int64)
    for shard, m in enumerate(source.shard_sizes):
        if not m:
            continue
        block = read_shard(source, shard)
        X = block.X.to(mean)
        shard_mean = X.mean(0)
        step = shard_mean - mean
        squares += (X - shard_mean).square().sum(0) + step.square() * (n * m / (n + m))
        mean += step * (m / (n + m))
        n += m
        is_label = not block.y.is_floating_point() and block.y.ndim == 1
        classes = torch.cat([classes, block.y.cpu()]).unique() if is_label and classes is not None else None
        if classes is not None and len(classes) > MAX_LABELS:
            classes = None
    return Statistics(n, mean, (squares / max(n, 1)).sqrt(), classes)


def split(source: Source, validation_fraction: float, seed: int) -> tuple[SubsetSource, SubsetSource]:
    """Divide the rows at random into (train, validation), as a function of the seed and without reading them.

    Of N rows round(validation_fraction N) are for validation (at least 1, at most N - 1), spread evenly over the
    shards; within a shard every choice of rows is equally likely. Both parts keep the shards, and reading a shard of
    theirs reads the whole shard of `source`: use `cache_to_disk(validation)` where a small part is read often. Memory:
    one shard.

    >>> from bochner.data import ArraySource
    >>> train, validation = split(ArraySource(torch.arange(10.0)[:, None], shard_rows=5), 0.2, seed=0)
    >>> train.shard_sizes, validation.shard_sizes
    ([4, 4], [1, 1])
    """
    N = num_rows(source)
    if not isinstance(validation_fraction, Real) or not 0 < validation_fraction < 1:
        raise ValueError(f"validation_fraction must lie between 0 and 1, got {validation_fraction!r}.")
    if N < 2:
        raise ValueError(f"source must have at least 2 rows to be split, got {N}.")
    total = min(max(round(validation_fraction * N), 1), N - 1)
    offset = int(torch.randint(N, (), generator=seeded(seed, "heldout-counts")))
    ends = accumulate(source.shard_sizes, initial=0)
    # Rounding the cumulative sum gives each shard its share, and all of them together exactly `total`.
    counts = [b - a for a, b in pairwise((total * end + offset) // N for end in ends)]
    train, validation = (SubsetSource(source, counts, seed, is_validation=part) for part in (False, True))
    return train, validation


class SubsetSource:
    """The `counts[shard]` validation rows of each shard, or the others; see `split`."""

    def __init__(self, source: Source, counts: Sequence[int], seed: int, *, is_validation: bool) -> None:
        self._source, self._counts, self._seed, self._is_validation = source, counts, seed, is_validation
        self.num_inputs, self.labels, self.column_names = source.num_inputs, labels_of(source), column_names_of(source)
        self.shard_sizes = [
            count if is_validation else size - count for size, count in zip(source.shard_sizes, counts, strict=True)
        ]

    def read(self, shard: int) -> Block:
        return take(read_shard(self._source, shard), self._rows(shard))

    def read_targets(self, shard: int) -> Tensor:
        return read_targets(self._source, shard)[self._rows(shard)]

    def _rows(self, shard: int) -> Tensor:
        size, count = self._source.shard_sizes[shard], self._counts[shard]
        order = torch.randperm(size, generator=seeded(self._seed, "heldout-rows", shard))
        return (order[:count] if self._is_validation else order[count:]).sort().values


class SelectedSource(SubsetSource):
    """The rows of `source` where `is_selected` [N] holds, in its order."""

    def __init__(self, source: Source, is_selected: np.ndarray[Any, Any]) -> None:
        ends = list(accumulate(source.shard_sizes, initial=0))
        self._masks = [torch.from_numpy(is_selected[a:b]) for a, b in pairwise(ends)]
        super().__init__(source, [int(mask.sum()) for mask in self._masks], 0, is_validation=True)

    def _rows(self, shard: int) -> Tensor:
        return self._masks[shard].nonzero()[:, 0]


def classes_of(source: Shards) -> Classes:
    """The classes [C] of a source: its labels, or the sorted distinct numbers in y.

    Labels cost nothing; numbers cost one pass over the targets, O(N log N) time and O(shard + C) memory.

    >>> from bochner.data import ArraySource
    >>> classes_of(ArraySource(np.eye(3), ["yes", "no", "yes"])), classes_of(ArraySource(np.eye(3), [3, -1, 3]))
    (array(['no', 'yes'], dtype='<U3'), array([-1,  3]))
    """
    labels = labels_of(source)
    return distinct_targets(source) if labels is None else np.array(labels)


def check_classes(train: Source, validation: Source | None = None) -> Classes:
    """The classes of `train`, with a check that there are at least two and that `validation` has no others.

    `validation` may lack some of the classes. One pass over the targets of both.

    >>> from bochner.data import ArraySource
    >>> check_classes(ArraySource(np.eye(2), [0, 1]), ArraySource(np.eye(2), [1, 5]))
    Traceback (most recent call last):
        ...
    ValueError: validation data must hold classes of the training rows only, got [5] besides; ...
    """
    classes, present = classes_of(train), distinct_targets(train)
    if len(present) < 2:
        raise ValueError(f"the training rows must hold at least two classes, got {_names(present, train)} only.")
    if validation is not None:
        kinds = ["numbers" if labels is None else abbreviated(labels) for labels in map(labels_of, (train, validation))]
        if labels_of(train) != labels_of(validation):
            raise ValueError(
                f"validation data must have the labels of the training rows, {kinds[0]}, got {kinds[1]}; "
                f"open it with labels=classes_of(train)."
            )
        unknown = np.setdiff1d(distinct_targets(validation), present)
        if len(unknown):
            raise ValueError(
                f"validation data must hold classes of the training rows only, got {_names(unknown, train)} besides; "
                f"leave their rows out, or choose other validation rows."
            )
    return classes


def with_classes(source: Source, classes: Classes | Sequence[Any]) -> Source:
    """`source` with y as indices into `classes`: sorted numbers, or the labels with which it was opened.

    >>> from bochner.data import ArraySource
    >>> with_classes(ArraySource(np.eye(3), [3, -1, 3]), [-1, 3]).read(0).y
    tensor([1, 0, 1])
    """
    array, labels = np.asarray(classes), labels_of(source)
    is_text, expected = array.dtype.kind == "U", abbreviated(array.tolist())
    if labels is None and not is_text:
        return MappedSource(source, EncodeLabels(torch.as_tensor(array)))
    if labels is not None and not is_text:
        raise ValueError(f"source must hold the classes {expected}, got the labels {abbreviated(labels)}.")
    if labels is None or labels != tuple(array.tolist()):
        kind = "numbers" if labels is None else abbreviated(labels)
        raise ValueError(f"source must have the labels {expected}, got {kind}; open it with labels=.")
    return source


def distinct_targets(source: Shards) -> Classes:
    """The distinct values in y, sorted: numbers, or indices of labels."""
    values: Classes = np.empty(0, np.int64)
    for shard, size in enumerate(source.shard_sizes):
        if size:
            y = read_targets(source, shard)
            if y.ndim != 1:
                raise ValueError(f"y must have shape [rows] to hold classes, got rows of shape {tuple(y.shape[1:])}.")
            in_shard = np.unique(y.cpu().numpy())
            values = np.union1d(values, in_shard) if len(values) else in_shard
        if len(values) > MAX_LABELS:
            raise ValueError(f"y must hold classes, got more than {MAX_LABELS} different numbers.")
    return values


def _names(targets: Classes, source: Source) -> str:
    """Targets in an error message: numbers, or the labels that they index."""
    labels = labels_of(source)
    return abbreviated([target if labels is None else labels[target] for target in targets.tolist()])
