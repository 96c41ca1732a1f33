"""Cosine features on a CPU, a few columns at a time: a tile is still in cache when its scores are summed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bochner.ops.reference import cached_tiles, cosine_features, placed_waves
from bochner.ops.step import long_product, softmax_rows, update_head
from bochner.ops.tiles import row_tiles

Gradient = Callable[[Tensor, slice, Tensor], object]
"""Called with the outputs [B, C] of the rows in the slice, to write the derivative of their mean loss by them."""

# Operations that a GPU of today does while it reads a byte, times the bytes of a weight that is read and written.
BALANCE = 2000


def superbatch_steps(
    weights: Tensor,
    Z: Tensor,
    gradient: Gradient,
    *,
    rate: float,
    batch_size: int,
    copy: Tensor | None = None,
    along: Tensor | None = None,
) -> None:
    """weights <- weights - rate g_k^T z_k for the minibatches k = 1, 2, .. of Z [n, D], `batch_size` rows each.

    The outputs of minibatch k with the weights of its own moment are

        z_k Theta_k = z_k Theta_1 - rate sum_(j < k) (z_k z_j^T) g_j,

    so one product with weights [C, D] serves all of them, small ones between minibatches correct it, and the weights
    are written once: the iterates of plain SGD up to rounding. O(nDC + n^2 D / 2), and the weights' traffic divided by
    the number of minibatches. `copy` is that of `update_head`; with it products read the copy. Where `along` [n, D]
    is given, steps go along its rows: they stand for the z_k of the first line and the z_j of the second.

    >>> Z, weights = torch.eye(2).repeat(2, 1), torch.zeros(1, 2)
    >>> superbatch_steps(weights, Z, lambda outputs, rows, out: torch.sub(outputs, 1, out=out), rate=0.5, batch_size=1)
    >>> weights  # half of the way to 1, twice
    tensor([[0.7500, 0.7500]])
    """
    along = Z if along is None else along
    outputs = long_product(Z, weights if copy is None else copy)[:, : len(weights)]
    G = torch.empty_like(outputs)
    for rows in row_tiles(len(Z), row_elements=1, tile_elements=batch_size):
        current, before = outputs[rows], slice(0, rows.start)
        if rows.start:
            current = torch.addmm(current, long_product(Z[rows], along[before]), G[before], alpha=-rate)
        gradient(current, rows, G[rows])
    update_head(weights, G, along, rate=rate, copy=copy)


def minibatches_at_once(num_outputs: int, batch_size: int) -> int:
    """The superbatch that balances its two costs on a GPU: reading C weights a feature once, comparing n rows.

    With c bytes of a weight's traffic and f operations a byte, C c f / K + B^2 (K - 1) is least at sqrt(C c f) / B.

    >>> minibatches_at_once(147, 256), minibatches_at_once(1000, 256), minibatches_at_once(147, 32)
    (2, 6, 17)
    """
    return max(1, round(math.sqrt(BALANCE * num_outputs) / batch_size))


def descend_linear(
    weights: Tensor,
    bias: Tensor,
    Z: Tensor,
    y: Tensor,
    *,
    rate: float,
    batch_size: int,
    weight: Tensor | None = None,
    copy: Tensor | None = None,
    along: tuple[Tensor, Tensor] | None = None,
) -> None:
    """Theta <- Theta - rate z^T (p - onehot(y)) / B and the same for the bias, one step for each minibatch of Z.

    weights [C, D] = Theta^T, bias [C], Z [n, D], y [n], in place. `copy` is the weights in the dtype of Z, where that
    is shorter: products read it, and it follows the weights. `weight` [n] multiplies the rows' losses. Steps go along
    the rows `along` ([n, D], [n]) in place of Z and of the bias's ones.
    Cost: see `superbatch_steps`. Source: May 2018, Section 4.1.

    >>> import torch
    >>> weights, bias = torch.zeros(2, 1), torch.zeros(2)
    >>> descend_linear(weights, bias, torch.ones(1, 1), torch.tensor([1]), rate=1.0, batch_size=1)
    >>> weights.T, bias
    (tensor([[-0.5000,  0.5000]]), tensor([-0.5000,  0.5000]))
    """
    rows, ones = along or (None, None)
    gradient = linear_gradient(bias, y, rate=rate, weight=weight, ones=ones)
    superbatch_steps(weights, Z, gradient, rate=rate, batch_size=batch_size, copy=copy, along=rows)


def descend_bottleneck(
    first: Tensor,
    second: Tensor,
    bias: Tensor,
    Z: Tensor,
    y: Tensor,
    *,
    rate: float,
    batch_size: int,
    weight: Tensor | None = None,
    copies: tuple[Tensor, Tensor] | None = None,
    along: Tensor | None = None,
) -> None:
    """The same for Theta^T = second first: first [r, D] moves by superbatches, second [C, r] at every minibatch.

    >>> import torch
    >>> first, second, bias = torch.ones(1, 1), torch.ones(2, 1), torch.zeros(2)
    >>> descend_bottleneck(first, second, bias, torch.ones(1, 1), torch.tensor([1]), rate=1.0, batch_size=1)
    >>> first, second.T
    (tensor([[1.]]), tensor([[0.5000, 1.5000]]))
    """
    copy, second_copy = copies or (None, None)
    gradient = bottleneck_gradient(second, bias, y, rate=rate, weight=weight, copy=second_copy)
    superbatch_steps(first, Z, gradient, rate=rate, batch_size=batch_size, copy=copy, along=along)


def linear_gradient(
    bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, ones: Tensor | None = None
) -> Gradient:
    """What such a step does between its two products: from scores to their derivatives, and the bias [C] moves.

    `ones` [n] stand for the input of the bias, where that is not one.
    """

    def gradient(scores: Tensor, rows: slice, out: Tensor) -> None:
        _write_residual(scores, bias, y, weight, rows, out)
        bias.sub_(out.sum(dim=0) if ones is None else ones[rows] @ out, alpha=rate)

    return gradient


def bottleneck_gradient(
    second: Tensor, bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, copy: Tensor | None = None
) -> Gradient:
    """The same through a bottleneck: from its outputs [B, r] to their derivatives; second [C, r] and bias move."""
    factor = second if copy is None else copy

    def gradient(hidden: Tensor, rows: slice, out: Tensor) -> None:
        hidden = hidden.to(factor.dtype)
        scores = long_product(hidden, factor)
        G = scores if copy is None else scores.new_empty(scores.shape, dtype=factor.dtype)
        scores, G = scores[:, : len(second)], G[:, : len(second)]  # rows of G stay aligned
        _write_residual(scores, bias, y, weight, rows, G)
        out.copy_(long_product(G, factor[: len(second)].T))
        update_head(second, G, hidden, rate=rate, copy=copy)
        bias.sub_(G.sum(dim=0, dtype=bias.dtype), alpha=rate)

    return gradient


def _write_residual(scores: Tensor, bias: Tensor, y: Tensor, weight: Tensor | None, rows: slice, out: Tensor) -> None:
    """The derivative of the mean loss of some rows by their scores."""
    part = None if weight is None else weight[rows]
    softmax_rows(scores, y[rows], bias=bias, scale=1 / len(scores), weight=part, out=out)


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
