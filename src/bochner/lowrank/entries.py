"""The sampled entries of a kernel matrix, evaluated once."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.lowrank.pattern import Samples


class Entries(NamedTuple):
    """`samples`, and what the matrix holds there."""

    samples: Samples
    values: Tensor  # [p, g]: row by row of `samples.columns`, the values in the g rows of their block
    center_columns: Tensor  # [n, c]
    diagonal: Tensor  # [n], or empty where the samples leave it to chance


def evaluate(kernel: Kernel, X: Tensor, samples: Samples) -> Entries:
    """k(X, X) at `samples`, X [n, d], and nothing else of K: O((samples + n c) d) time.

    As in K itself, rounding does not cost k(x, x) its exact value.
    """
    diagonal = kernel.diagonal(X)
    extended = torch.cat([X, X[:1]])  # the index of no point; what it gives is never used
    exact = torch.cat([diagonal, diagonal[:1]])
    values = X.new_empty(len(samples.columns), samples.blocks.shape[1])
    write = _write_rows if samples.blocks.shape[1] == 1 else _write_blocks
    write(kernel, extended, exact, samples, values)
    center_columns = X.new_empty(len(X), len(samples.centers))
    if len(samples.centers):
        center_columns = kernel(X, X[samples.centers])
        center_columns[samples.centers, torch.arange(len(samples.centers))] = diagonal[samples.centers]
    for part in (values, center_columns, diagonal):
        checks.finite("k(X, X)", part)
    return Entries(samples, values, center_columns, diagonal if len(samples.diagonal) else diagonal[:0])


def _write_blocks(kernel: Kernel, X: Tensor, exact: Tensor, samples: Samples, values: Tensor) -> None:
    bounds = samples.offsets.tolist()
    for points, start, stop in zip(samples.blocks, bounds, bounds[1:], strict=False):
        if stop > start:
            columns = samples.columns[start:stop]
            values[start:stop] = torch.where(columns[:, None] == points, exact[points], kernel(X[columns], X[points]))


def _write_rows(kernel: Kernel, X: Tensor, exact: Tensor, samples: Samples, values: Tensor) -> None:
    """Rows that share no columns: many small kernel matrices [1, s] at once."""
    for tile in samples.tiles(column_elements=4 * X.shape[1] + 4):
        rows = samples.blocks[tile.blocks]
        block = torch.vmap(kernel)(X[rows], X[tile.columns])[:, 0]
        block = torch.where(tile.columns == rows, exact[rows], block)
        there = tile.columns < samples.num_columns
        values[tile.places[there], 0] = block[there]
