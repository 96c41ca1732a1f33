"""Ridge regression on features in closed form, by normal equations summed over a source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.features import FeatureMap
from bochner.models.heads import LinearHead
from bochner.ops import row_tiles
from bochner.solvers.rows import OwnShards, read_tiles, summarize

# Rows whose products are summed in the features' dtype before they are added in float64: relative errors of about
# sqrt(2048) eps = 3e-6 in the worst case for float32, 2e-7 measured.
TILE_ROWS = 2048
# Columns of the Gram matrix computed at once: only its lower half is computed, in blocks of this width.
GRAM_COLUMNS = 1024


class Moments(NamedTuple):
    """Weighted means of features [D] and targets [t], and centred second moments [D, D] and [D, t], in float64."""

    feature_mean: Tensor
    target_mean: Tensor
    gram: Tensor
    cross: Tensor
    dtype: torch.dtype


def fit_ridge(
    feature_map: FeatureMap, source: Source, *, alpha: float, num_classes: int | None = None, group: Any = None
) -> LinearHead:
    """W = (cov(z) + alpha I)^{-1} cov(z, y), b = mean(y) - mean(z) W: the head with the least mean squared error plus
    alpha ||W||^2, with weighted means and an unpenalised bias. Its weights [t, D] are W^T, in the features' dtype.

    y holds numbers [n] or [n, t], or class indices with `num_classes` (then one-hot, and f estimates p(class | x)).
    Products are computed in the features' dtype over 2,048 rows, about a common shift, and summed in float64: relative
    errors of the moments about 2e-7 for float32 features, in half the time of float64 products.
    The processes of a `group` divide the shards of the source, at least one for each, and get the same head.
    O(N D (D + t)) + O(D^3 / 3) time; O(D^2 + 2048 D) memory.

    >>> from torch import Generator; from bochner.features import FourierMap; from bochner.kernels import Gaussian
    >>> from bochner.data import ArraySource
    >>> z = FourierMap.draw(Gaussian(), num_inputs=1, num_features=64, generator=Generator().manual_seed(0))
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> head = fit_ridge(z, ArraySource(X, X[:, 0].sin()), alpha=1e-5)
    >>> bool((head(z(X)) - X.sin()).abs().max() < 1e-2)
    True
    """
    checks.nonnegative_float("alpha", alpha)
    moments = _accumulate(feature_map, source, num_classes=num_classes, group=group)
    moments.gram.diagonal().add_(alpha)
    factor, failed = torch.linalg.cholesky_ex(moments.gram)
    if int(failed):
        enough = float(moments.gram.diagonal().mean()) * len(factor) * torch.finfo(moments.dtype).eps
        raise ValueError(f"alpha must make the features' covariance invertible, got {alpha!r}; try {enough:.1g}.")
    return _fit(moments, torch.cholesky_solve(moments.cross, factor))


def fit_ridge_path(
    feature_map: FeatureMap, source: Source, *, alphas: Sequence[float], num_classes: int | None = None
) -> list[LinearHead]:
    """`fit_ridge` for each of `alphas`, with one pass over the rows and one eigendecomposition:

        W(alpha) = U (Lambda + alpha)^{-1} U^T cov(z, y),    cov(z) = U Lambda U^T.

    O(N D (D + t)) + O(10 D^3) time once, then O(D^2 t) per alpha; alpha = 0 gives the solution of least norm.

    >>> from torch import Generator; from bochner.features import FourierMap; from bochner.kernels import Gaussian
    >>> from bochner.data import ArraySource
    >>> z = FourierMap.draw(Gaussian(), num_inputs=1, num_features=8, generator=Generator().manual_seed(0))
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> small, large = fit_ridge_path(z, ArraySource(X, X[:, 0]), alphas=[1e-3, 10.0])
    >>> bool(small.weights.norm() > large.weights.norm())
    True
    """
    if len(alphas) == 0:
        raise ValueError("alphas must hold at least one number, got none.")
    for alpha in alphas:
        checks.nonnegative_float("alphas", alpha)
    moments = _accumulate(feature_map, source, num_classes=num_classes)
    values, vectors = torch.linalg.eigh(moments.gram)
    floor = float(values[-1]) * len(values) * torch.finfo(moments.dtype).eps
    values = torch.where(values > floor, values, 0.0)
    rotated = vectors.T @ moments.cross
    return [_fit(moments, vectors @ (rotated * _inverse(values + alpha)[:, None])) for alpha in alphas]


def _inverse(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, torch.inf).reciprocal()


def _fit(moments: Moments, weights: Tensor) -> LinearHead:
    bias = moments.target_mean - moments.feature_mean @ weights
    return LinearHead(weights.T.to(moments.dtype).contiguous(), bias.to(moments.dtype))


def _accumulate(feature_map: FeatureMap, source: Source, *, num_classes: int | None, group: Any = None) -> Moments:
    """Sums about a shift near the mean: z^T z - N mean mean^T would lose digits where the mean is large."""
    source = source if group is None else OwnShards(source, group)
    summary = summarize(source, num_classes=num_classes, group=group)
    gram = cross = total = shift = None
    for tile in read_tiles(source, num_classes=num_classes, rows=TILE_ROWS):
        Z = feature_map(tile.X)
        if gram is None or cross is None or total is None or shift is None:
            shift = Z.mean(dim=0)
            if group is not None:
                shift = group.sum(shift) / group.num_shares
            D, t = Z.shape[1], tile.targets.shape[1]
            gram, cross, total = (Z.new_zeros(shape, dtype=torch.float64) for shape in ((D, D), (D, t), (D,)))
        Z -= shift
        weighted = Z * tile.weight[:, None]
        total += weighted.sum(dim=0, dtype=torch.float64)
        cross += weighted.T @ (tile.targets - summary.mean.to(tile.targets))
        for part in row_tiles(len(gram), row_elements=1, tile_elements=GRAM_COLUMNS):
            gram[part, : part.stop] += weighted[:, part].T @ Z[:, : part.stop]
    if gram is None or cross is None or total is None or shift is None:
        raise ValueError("source must hold rows, got none.")
    if group is not None:
        total, gram, cross = (group.sum(part) for part in (total, gram, cross))
    checks.finite("features", total)
    for moment in (total, gram, cross):
        moment /= summary.total_weight
    gram.addr_(total, total, alpha=-1)
    for part in row_tiles(len(gram), row_elements=1, tile_elements=GRAM_COLUMNS):
        gram[: part.start, part] = gram[part, : part.start].T
    return Moments(shift.double() + total, summary.mean.to(total), gram, cross, shift.dtype)
