"""SAGA: stochastic gradients with a memory, which converge to the exact solution of the convex problem."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.features import FeatureMap
from bochner.models.heads import LinearHead
from bochner.models.losses import Loss, choose_loss
from bochner.ops.linalg import Report, warn_stopped
from bochner.solvers.rows import Summary, Tile, read_encoded, split_tile, summarize

# Rows of a shard on which the largest eigenvalue of its covariance is measured, by their Gram matrix [512, 512].
SPREAD_ROWS = 512
TILE_ROWS = 2048


def fit_saga(
    feature_map: FeatureMap,
    source: Source,
    *,
    loss: str,
    alpha: float,
    num_classes: int | None = None,
    batch_size: int = 64,
    tolerance: float = 1e-4,
    max_epochs: int = 200,
    generator: Generator,
    report: Report | None = None,
) -> LinearHead:
    """The minimum of mean_i loss(y_i, z(x_i) W + b) + alpha / 2 ||W||^2, loss "squared", "logistic" or "softmax".

    For a batch B of b rows with residuals r_i = loss'(f(x_i)) and the residuals r'_i stored when row i was last used,

        W <- prox[W - step (sum_B z_i (r_i - r'_i) / b + G)],   G <- G + sum_B z_i (r_i - r'_i) / N,   r'_B <- r_B,

    with prox the division by 1 + step alpha. The gradient of a row is z_i r_i, so the residuals [N, t] are all that is
    stored. Shards in random order, batches in random order within each. Features are centred, and their mean is moved
    into the bias at the end, so that the largest eigenvalue of their covariance, and the step, do not depend on the
    mean.

    step = 1 / 3 L with L = l'' (2 s + max ||z||^2 / b): s the largest eigenvalue of the covariance within a shard
    (measured on 512 of its rows), l'' the loss's smoothness. Stops when the norm of the gradient, by the stored
    residuals, has fallen by `tolerance`; a ConvergenceWarning is issued if `max_epochs` did not reach it.
    The head's weights [t, D] are W^T. Logistic: one output, the log-odds of class 1.
    O(N (z + D t)) per epoch, of which about max(N / b, L / alpha) b / N are needed; O(N t + D t + 2048 D) memory.
    Source: Defazio, Bach & Lacoste-Julien 2014; the step for batches, Gower, Richtarik & Bach 2018.

    >>> from bochner.features import FourierMap; from bochner.kernels import Gaussian
    >>> from bochner.data import ArraySource
    >>> z = FourierMap.draw(Gaussian(), num_inputs=1, num_features=16, generator=Generator().manual_seed(0))
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> y = (X[:, 0] > 1).long()
    >>> head = fit_saga(
    ...     z, ArraySource(X, y), loss="softmax", num_classes=2, alpha=1e-2, generator=Generator().manual_seed(0)
    ... )
    >>> bool((head(z(X)).argmax(dim=1) == y).float().mean() > 0.95)
    True
    """
    checks.nonnegative_float("alpha", alpha)
    checks.positive_int("batch_size", batch_size)
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_epochs", max_epochs)
    criterion = choose_loss(loss, num_classes)
    saga = _Saga(feature_map, source, criterion, alpha, num_classes, batch_size, generator)
    first = saga.gradient_norm()
    for epoch in range(1, max_epochs + 1):
        saga.run_epoch()
        left = saga.gradient_norm() / max(first, torch.finfo(torch.float64).tiny)
        if not left < float("inf"):
            raise ValueError(
                f"features must be finite and of bounded length, but the gradient is {left} after {epoch}."
            )
        if report is not None:
            report(epoch, left)
        if left <= tolerance:
            break
    else:
        warn_stopped(
            "SAGA",
            limit=f"max_epochs={max_epochs}",
            reached=f"{left:.3g} of the gradient left",
            tolerance=tolerance,
            remedy="raise max_epochs, or raise alpha, which makes the problem easier",
        )
    return saga.result()


class _Geometry(NamedTuple):
    """For centred rows: the largest eigenvalue of a shard's covariance, and the largest squared norm of a row."""

    spread: float
    longest: float


class _Saga:
    def __init__(
        self,
        feature_map: FeatureMap,
        source: Source,
        loss: Loss,
        alpha: float,
        num_classes: int | None,
        batch_size: int,
        generator: Generator,
    ) -> None:
        self.feature_map, self.source, self.loss, self.alpha = feature_map, source, loss, alpha
        self.num_classes, self.batch_size, self.generator = num_classes, batch_size, generator
        self.summary: Summary = summarize(source, num_classes=num_classes)
        self.shift = self._mean()
        self.bias = loss.offset(self.summary.mean).to(self.shift)
        self.weights = self.shift.new_zeros(len(self.bias), len(self.shift))  # [t, D], as in LinearHead
        self.stored = [self.shift.new_zeros(size, len(self.bias)) for size in source.shard_sizes]
        self.weights_gradient, self.bias_gradient = torch.zeros_like(self.weights), torch.zeros_like(self.bias)
        geometry = self._start()
        self.bias_rate = geometry.spread  # the bias as a feature of the same size as the others
        batch_part = (geometry.longest + geometry.spread) / batch_size
        self.step = 1 / (3 * loss.smoothness * (2 * geometry.spread + batch_part))

    def run_epoch(self) -> None:
        for shard in self._permutation(len(self.stored)).tolist():
            tile = self._read(shard)
            for rows in self._permutation(len(tile.X)).split(self.batch_size):
                self._update(Tile(*(part[rows] for part in tile)), self.stored[shard], rows)

    def gradient_norm(self) -> float:
        gradient = self.weights_gradient + self.alpha * self.weights
        return float((gradient.double().square().sum() + self.bias_gradient.double().square().sum()).sqrt())

    def result(self) -> LinearHead:
        return LinearHead(self.weights, self.bias - self.weights @ self.shift)

    def _update(self, tile: Tile, stored: Tensor, rows: Tensor) -> None:
        Z = self.feature_map(tile.X) - self.shift
        residual = self._residual(tile, torch.nn.functional.linear(Z, self.weights, self.bias))
        change = residual - stored[rows]
        stored[rows] = residual
        by_weights, by_bias = change.T @ Z, change.sum(dim=0)
        self.weights -= self.step * (by_weights / self.batch_size + self.weights_gradient)
        self.weights /= 1 + self.step * self.alpha
        self.bias -= self.step * self.bias_rate * (by_bias / self.batch_size + self.bias_gradient)
        self.weights_gradient += by_weights / self.summary.num_rows
        self.bias_gradient += by_bias / self.summary.num_rows

    def _residual(self, tile: Tile, scores: Tensor) -> Tensor:
        return self.loss.residual(scores, self.loss.targets(tile.targets)) * tile.weight[:, None]

    def _read(self, shard: int) -> Tile:
        """Weights with mean 1."""
        tile = read_encoded(self.source, shard, num_classes=self.num_classes)
        return tile._replace(weight=tile.weight * (self.summary.num_rows / self.summary.total_weight))

    def _permutation(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self.generator, device=self.generator.device)

    def _mean(self) -> Tensor:
        total: Tensor | None = None
        for shard in range(len(self.source.shard_sizes)):
            for tile in split_tile(self._read(shard), TILE_ROWS):
                part = tile.weight @ self.feature_map(tile.X)
                total = part.double() if total is None else total + part
                dtype = part.dtype
        assert total is not None  # summarize has seen rows
        return checks.finite("features", total / self.summary.num_rows).to(dtype)

    def _start(self) -> _Geometry:
        """The residuals at W = 0 and their gradient."""
        spread = longest = 0.0
        for shard, stored in enumerate(self.stored):
            read = self._read(shard)
            sample = self._permutation(len(read.X))[:SPREAD_ROWS]
            scaled = self._scaled(Tile(*(part[sample] for part in read)))
            if len(scaled):
                spread = max(spread, float(torch.linalg.matrix_norm(scaled @ scaled.T, ord=2)) / len(scaled))
            stored.copy_(self._residual(read, self.bias.expand_as(stored)))
            for tile, part in zip(split_tile(read, TILE_ROWS), stored.split(TILE_ROWS), strict=False):
                Z = self.feature_map(tile.X) - self.shift
                longest = max(longest, float((Z.square().sum(dim=1) * tile.weight).max()))
                self.weights_gradient += part.T @ Z / self.summary.num_rows
            self.bias_gradient += stored.sum(dim=0) / self.summary.num_rows
        return _Geometry(max(spread, torch.finfo(torch.float32).tiny), longest)

    def _scaled(self, tile: Tile) -> Tensor:
        return (self.feature_map(tile.X) - self.shift) * tile.weight.sqrt()[:, None]
