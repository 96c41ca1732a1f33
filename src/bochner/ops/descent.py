"""Steps of SGD on linear models and bottlenecks over features: in superbatches, and on a CPU by tiles of columns."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bochner.ops.step import (
    cached_tiles,
    cosine_features,
    feature_columns,
    long_product,
    softmax_residual,
    update_head,
    write_features,
)

Gradient = Callable[[Tensor, slice, Tensor], object]
"""Called with outputs [B, C], their rows as a slice, and a tensor to write the derivative of the mean loss into."""

# Operations per byte of memory traffic on a GPU (H200: 990 TFLOP/s in bfloat16 at 4.8 TB/s, about 200), times the bytes
# of traffic per weight: float32 read and written, and its bfloat16 copy written, 10.
OPERATIONS_PER_WEIGHT = 2000
ALIGNED = 16  # elements of derivatives between multiples of which rows start, for `update_head`


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

    The outputs of minibatch k with the weights at step k are

        z_k Theta_k = z_k Theta_1 - rate sum_(j < k) (z_k z_j^T) g_j,

    so one product with weights [C, D] serves all of them, small products between minibatches correct it, and the
    weights are written once: the iterates of plain SGD up to rounding. O(nDC + n^2 D / 2), with the memory traffic of
    the weights divided by the number of minibatches. `copy` is that of `update_head`; products then read the copy.
    Preconditioned steps pass other features as `along` [n, D]: its rows replace z_k in the first line and z_j in the
    second. Source: May 2018, Section 4.1.

    >>> weights, bias, y = torch.zeros(2, 1), torch.zeros(2), torch.tensor([1])
    >>> gradient = linear_gradient(bias, y, rate=1.0)
    >>> superbatch_steps(weights, torch.ones(1, 1), gradient, rate=1.0, batch_size=1)
    >>> weights.T, bias
    (tensor([[-0.5000,  0.5000]]), tensor([-0.5000,  0.5000]))
    """
    along = Z if along is None else along
    outputs = long_product(Z, weights if copy is None else copy)[:, : len(weights)]
    width = len(weights) + -len(weights) % ALIGNED
    G = Z.new_zeros(len(Z), width)[:, : len(weights)]  # in the dtype of products, with aligned rows

    def descend(start: int, stop: int) -> None:
        """The steps of some rows by halves, so that most corrections are large products."""
        count = -(-(stop - start) // batch_size)
        if count == 1:
            gradient(outputs[start:stop], slice(start, stop), G[start:stop])
            return
        middle = start + count // 2 * batch_size
        descend(start, middle)
        products = long_product(Z[middle:stop], along[start:middle])
        outputs[middle:stop].sub_(long_product(products.to(G.dtype), G[start:middle].T), alpha=rate)
        descend(middle, stop)

    descend(0, len(Z))
    update_head(weights, G, along, rate=rate, copy=copy)


def minibatches_at_once(num_outputs: int, batch_size: int) -> int:
    """The number K of minibatches per superbatch that balances its two costs on a GPU.

    With c bytes of traffic per weight and f operations per byte, reading the weights and correcting the outputs cost
    C c f / K + B^2 (K - 1) per minibatch and feature, which is least at K = sqrt(C c f) / B.

    >>> minibatches_at_once(147, 256), minibatches_at_once(1000, 256), minibatches_at_once(147, 32)
    (2, 6, 17)
    """
    return max(1, round(math.sqrt(OPERATIONS_PER_WEIGHT * num_outputs) / batch_size))


def linear_gradient(
    bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, ones: Tensor | None = None
) -> Gradient:
    """The gradient of the softmax loss in the scores of a linear model for classes y [n]; it also updates bias [C].

    With p = softmax(scores + bias) the derivatives are (p - onehot(y)) / B, times the sample weights `weight` [n], and
    bias <- bias - rate sum of them. Preconditioned steps pass `ones` [n] in place of the ones that multiply the bias.
    """

    def gradient(scores: Tensor, rows: slice, out: Tensor) -> None:
        _write_residual(scores, bias, y, weight, rows, out)
        bias.sub_(out.sum(dim=0, dtype=bias.dtype) if ones is None else ones[rows] @ out.to(ones.dtype), alpha=rate)

    return gradient


def bottleneck_gradient(
    second: Tensor, bias: Tensor, y: Tensor, *, rate: float, weight: Tensor | None = None, copy: Tensor | None = None
) -> Gradient:
    """The same for a bottleneck, scores = second h: derivatives in h [B, r]; `second` [C, r] and the bias are updated.

    `copy` is that of `update_head` for `second`.
    """
    factor = second if copy is None else copy

    def gradient(hidden: Tensor, rows: slice, out: Tensor) -> None:
        hidden = hidden.to(factor.dtype)
        scores = long_product(hidden, factor)
        G = scores if copy is None else scores.new_empty(scores.shape, dtype=factor.dtype)
        scores, G = scores[:, : len(second)], G[:, : len(second)]  # views, so that the rows of G stay aligned
        _write_residual(scores, bias, y, weight, rows, G)
        torch.mm(G, factor[: len(second)], out=out)
        update_head(second, G, hidden, rate=rate, copy=copy)
        bias.sub_(G.sum(dim=0, dtype=bias.dtype), alpha=rate)

    return gradient


def _write_residual(scores: Tensor, bias: Tensor, y: Tensor, weight: Tensor | None, rows: slice, out: Tensor) -> None:
    """The derivative of the mean loss of some rows with respect to their scores."""
    part = None if weight is None else weight[rows]
    softmax_residual(scores, y[rows], bias=bias, scale=1 / len(scores), weight=part, out=out)


class FeatureColumns:
    """Steps of SGD on z(x) = a cos(x W + b), or a [cos(x W), sin(x W)], for a frozen map and many steps.

    W [d, P] is kept once more as contiguous tiles of columns, whose products run at full speed, unlike slices of a wide
    matrix; a tile of features is still in cache when its scores are summed. Holds the features of at most `num_rows`
    rows, 2 P or P for each. With dtype=torch.bfloat16 products are in bfloat16 and features are stored in it; angles
    are rounded to it like the inputs, cosines and weights are in float32. Measurements: docs/speed.md.

    >>> import torch
    >>> columns = FeatureColumns(torch.ones(3, 2), None, amplitude=1.0, num_rows=1)
    >>> weights = torch.zeros(1, 4)
    >>> columns.step(weights, torch.zeros(1, 3), lambda outputs, rows, out: out.fill_(1.0), rate=0.5)
    >>> weights  # cos 0 = 1, sin 0 = 0
    tensor([[-0.5000, -0.5000,  0.0000,  0.0000]])
    """

    def __init__(
        self,
        frequencies: Tensor,
        phases: Tensor | None,
        *,
        amplitude: float,
        num_rows: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._amplitude, self._num_frequencies = amplitude, frequencies.shape[1]
        self._dtype = frequencies.dtype if dtype is None else dtype
        self._tiles = list(cached_tiles(self._num_frequencies, num_rows=num_rows))
        self._frequencies = [frequencies[:, tile].to(self._dtype).contiguous() for tile in self._tiles]
        self._phases = [None if phases is None else phases[tile] for tile in self._tiles]
        per_frequency = 2 if phases is None else 1
        self._features = [W.new_empty(num_rows, per_frequency * W.shape[1]) for W in self._frequencies]
        self._angles = torch.empty_like(self._features[0], dtype=frequencies.dtype)  # the first tile is the widest

    def step(self, weights: Tensor, X: Tensor, gradient: Gradient, *, rate: float) -> None:
        """weights <- weights - rate g^T z for the rows X [n, d], with g = `gradient` of their outputs z weights^T.

        weights [C, D]. O(n D (d + C)): each number of W and each feature is read from memory once for the outputs,
        each feature and each weight once for the update.
        """
        outputs = weights.new_zeros(len(weights), len(X))  # transposed: an odd number of classes is faster as rows
        features, X = [Z[: len(X)] for Z in self._features], X.to(self._dtype)
        for tile, W, phases, Z in zip(self._tiles, self._frequencies, self._phases, features, strict=True):
            self._write_features(X, W, phases, Z)
            for part, columns in feature_columns(Z, tile, self._num_frequencies):
                self._add_product(outputs, weights[:, columns], part.T, self._amplitude)
        G = weights.new_empty(len(X), len(weights))
        gradient(outputs.T, slice(0, len(X)), G)
        derivatives = G.to(self._dtype).T
        for tile, Z in zip(self._tiles, features, strict=True):
            for part, columns in feature_columns(Z, tile, self._num_frequencies):
                self._add_product(weights[:, columns], derivatives, part, -rate * self._amplitude)

    def _write_features(self, X: Tensor, W: Tensor, phases: Tensor | None, Z: Tensor) -> None:
        """cos(X W + b), or cosines and sines; the amplitude costs nothing as a factor of products."""
        if self._dtype == self._angles.dtype:
            cosine_features(X, W, phases, amplitude=1.0, out=Z)
            return
        angles = self._angles.view(-1)[: Z.numel()].view(Z.shape)
        width = W.shape[1]
        torch.mm(X, W, out=Z[:, :width])
        angles[:, :width] = Z[:, :width]
        write_features(angles, phases, 1.0)
        Z.copy_(angles)

    def _add_product(self, total: Tensor, A: Tensor, B: Tensor, factor: float) -> None:
        """total <- total + factor A B, in place."""
        if self._dtype == total.dtype:
            total.addmm_(A, B, alpha=factor)
        else:
            total.add_(A.to(self._dtype) @ B, alpha=factor)
