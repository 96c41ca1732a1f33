"""Cosine features on a CPU, a few columns at a time: a tile is still in cache when its scores are summed."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from bochner.ops.reference import cached_tiles, cosine_features, placed_waves
from bochner.ops.superbatch import Gradient


class FeatureColumns:
    """Steps of SGD on z(x) = a cos(x W + b), or a [cos(x W), sin(x W)], for a frozen map and many steps.

    W [d, P] is kept once more, tile by tile, each in one piece: its product then runs at the machine's rate, where the
    columns of a wide matrix do not. Holds the features of at most `num_rows` rows, 2 P or P of them each.
    docs/speed.md says what was measured.

    >>> import torch
    >>> columns = FeatureColumns(torch.ones(3, 2), None, amplitude=1.0, num_rows=1)
    >>> weights = torch.zeros(1, 4)
    >>> columns.step(weights, torch.zeros(1, 3), lambda outputs, rows, out: out.fill_(1.0), rate=0.5)
    >>> weights  # cosines of nothing are 1, sines 0
    tensor([[-0.5000, -0.5000,  0.0000,  0.0000]])
    """

    def __init__(self, frequencies: Tensor, phases: Tensor | None, *, amplitude: float, num_rows: int) -> None:
        self._amplitude, self._num_frequencies = amplitude, frequencies.shape[1]
        self._places = list(cached_tiles(self._num_frequencies, num_rows=num_rows))
        self._frequencies = [frequencies[:, place].contiguous() for place in self._places]
        self._phases = [None if phases is None else phases[place] for place in self._places]
        waves = 2 if phases is None else 1
        self._features = [W.new_empty(num_rows, waves * W.shape[1]) for W in self._frequencies]

    def step(self, weights: Tensor, X: Tensor, gradient: Gradient, *, rate: float) -> None:
        """weights <- weights - rate g^T z for the rows X [n, d], with g = `gradient` of their outputs z weights^T.

        weights [C, D]. O(n D (d + C)): each number of W and each feature is read from memory once for the outputs,
        each feature and each weight once for the update.
        """
        outputs = weights.new_zeros(len(weights), len(X))  # transposed: an odd number of classes costs less as rows
        for tile in range(len(self._places)):
            self._make(X, tile)
            for Z, columns in self._waves(tile, len(X)):
                outputs.addmm_(weights[:, columns], Z.T, alpha=self._amplitude)
        G = weights.new_empty(len(X), len(weights))
        gradient(outputs.T, slice(0, len(X)), G)
        for tile in range(len(self._places)):
            for Z, columns in self._waves(tile, len(X)):
                weights[:, columns].addmm_(G.T, Z, alpha=-rate * self._amplitude)

    def _make(self, X: Tensor, tile: int) -> None:
        """The waves themselves: their amplitude is a factor of the products, which costs nothing there."""
        out = self._features[tile][: len(X)]
        cosine_features(X, self._frequencies[tile], self._phases[tile], amplitude=1.0, out=out)

    def _waves(self, tile: int, num_rows: int) -> Iterator[tuple[Tensor, slice]]:
        return placed_waves(self._features[tile][:num_rows], self._places[tile], self._num_frequencies)
