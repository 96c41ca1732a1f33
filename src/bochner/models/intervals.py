"""Standard deviations and conformal prediction intervals of regressors, from leave-one-out residuals."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.models.inputs import InputTransform
from bochner.ops import row_tiles
from bochner.storage import Storable

MAX_LANDMARKS = 512  # the variance of a row then costs about as much as the prediction of a model of 5,000 rows
# Penalties of the local size of residuals, relative to its variance. Absolute residuals scatter by 3/4 of their mean,
# so that weak penalties would follow noise.
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
MIN_SIZE = 0.2  # the least local size of residuals, relative to their mean
JITTER = 1e-10  # of k(x, x), so that a factorisation in float64 exists for any alpha
TILE_ELEMENTS = 2**20


class Uncertainty(Storable):
    """The uncertainty of predictions: std(x), and intervals that contain a new target with a given probability.

    The difficulty of x is d_j(x) = sqrt(v(x)) h_j(x) for output j:

    - v(x) = alpha + k(x, x) - k_m(x)^T (K_mm + alpha I)^{-1} k_m(x), the posterior variance of a Gaussian process with
      kernel k and noise alpha at m landmarks, which grows away from the rows,
    - h_j(x) = max(1 + k_m(x)^T b_j, 0.2), the mean of |residual| / sqrt(v) near x relative to that of all rows, which
      models noise that depends on x; b = 0 if the residuals show none.

    With ratios q_ij = |residual_ij| / d_j(x_i) of r rows that were left out, the standard deviation is c_j d_j(x) where
    c_j^2 is the mean of q_ij^2, and the interval is f_j(x) -+ q d_j(x) for the ceil((r + 1) coverage)-th smallest q_ij.
    Intervals of left-out rows have the coverage on average over x, whatever the distribution of the noise; d
    determines only where they are wide. landmarks [m, d], sizes b [m, t], ratios [r, t], weight [r] or None; with a
    `transform` of the inputs, k and the landmarks are those of transformed inputs. O(m (m + d)) per row.
    Source: Vovk et al. 2005; Lei et al. 2018 (locally weighted conformal, jackknife).

    >>> from bochner.kernels import Gaussian
    >>> X = torch.linspace(-1, 1, 100)[:, None]
    >>> residuals = torch.randn(100, 1, generator=Generator().manual_seed(0))
    >>> uncertainty = Uncertainty.fit(Gaussian(), X, residuals, alpha=0.1)
    >>> lower, upper = uncertainty.interval(X.sin(), X, coverage=0.9)
    >>> bool((upper - lower > 2).all()), uncertainty.std(X).shape
    (True, torch.Size([100, 1]))
    """

    landmarks: Tensor
    sizes: Tensor
    ratios: Tensor
    weight: Tensor | None
    _factor: Tensor

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Tensor,
        alpha: float,
        sizes: Tensor,
        ratios: Tensor,
        weight: Tensor | None = None,
        transform: InputTransform | None = None,
    ) -> None:
        super().__init__()
        if sizes.ndim != 2 or ratios.ndim != 2 or len(sizes) != len(landmarks) or sizes.shape[1] != ratios.shape[1]:
            shapes = tuple(sizes.shape), tuple(ratios.shape)
            raise ValueError(f"sizes [{len(landmarks)}, t] and ratios [r, t] must have such shapes, got {shapes}.")
        if weight is not None and weight.shape != (len(ratios),):
            raise ValueError(f"weight must have shape ({len(ratios)},), got {tuple(weight.shape)}.")
        self.kernel, self.alpha, self.transform = kernel, checks.positive_float("alpha", alpha), transform
        self.register_buffer("landmarks", checks.finite("landmarks", landmarks))
        self.register_buffer("sizes", checks.finite("sizes", sizes))
        self.register_buffer("ratios", checks.finite("ratios", ratios))
        self.register_buffer("weight", weight if weight is None else checks.finite("weight", weight))
        self.register_buffer("_factor", _factorise(kernel, landmarks, alpha), persistent=False)

    @classmethod
    def fit(
        cls,
        kernel: Kernel,
        X: Tensor,
        residuals: Tensor,
        *,
        alpha: float,
        weight: Tensor | None = None,
        transform: InputTransform | None = None,
        generator: Generator | None = None,
    ) -> Self:
        """From rows X [r, d] and the residuals [r] or [r, t] of predictions for them by models without them.

        `kernel`, `alpha` and `transform` are those of the model, weight [r] counts rows. At most 512 random rows become
        landmarks; for a landmark, v is that of a process without it, 1 / ((K_mm + alpha I)^{-1})_ii. The penalty of h
        is the one with the lowest leave-one-out error; h is 1 unless that is better than the constant by more than a
        standard error.
        O(r m^2).
        """
        checks.inputs("X", X)
        residuals = checks.finite("residuals", residuals.reshape(len(residuals), -1)).double()
        if len(X) != len(residuals) or len(X) < 2:
            raise ValueError(
                f"X and residuals must have the same number of rows, at least 2, got {len(X)} and {len(residuals)}."
            )
        X = X if transform is None else transform(X)
        order = torch.randperm(len(X), generator=generator).to(X.device)
        chosen, others = order[:MAX_LANDMARKS], order[MAX_LANDMARKS:]
        landmarks = X[chosen].double()
        factor = _factorise(kernel, landmarks, alpha)
        variance = residuals.new_empty(len(X))
        variance[others] = _variance(kernel, X[others].double(), landmarks, factor, alpha)[0]
        variance[chosen] = 1 / torch.cholesky_inverse(factor).diagonal()
        scaled = residuals.abs() / variance.sqrt()[:, None]
        w = scaled.new_ones(len(X)) if weight is None else weight.to(scaled)
        K = kernel(X.double(), landmarks)
        sizes, local = _local_sizes(K, K[chosen], scaled, w)
        return cls(kernel, X[chosen], alpha, sizes.to(X), (scaled / local).to(X), weight, transform)

    def rescaled(self, factor: Tensor) -> Self:
        """The uncertainty of targets that are `factor` [t] times as large."""
        return self.replace(ratios=self.ratios * factor.abs().to(self.ratios))

    def std(self, X: Tensor) -> Tensor:
        """Standard deviations [n, t] of targets around predictions, for X [n, d]."""
        w = self._weights()
        c = (w @ self.ratios.double().square() / w.sum()).sqrt()
        return (c * self._difficulty(X)).to(X)

    def interval(self, prediction: Tensor, X: Tensor, coverage: float) -> tuple[Tensor, Tensor]:
        """Lower and upper ends, each in the shape of prediction [n] or [n, t], for X [n, d]."""
        half = self.quantiles(coverage) * self._difficulty(X)
        half = half.reshape(prediction.shape).to(prediction)
        return prediction - half, prediction + half

    def quantiles(self, coverage: float) -> Tensor:
        """The ratios [t] that a share `coverage` of left-out rows and a new one do not exceed.

        A new row counts as one of mean weight. Too few rows for the coverage are an error: r rows allow up to r / (r +
        1).
        """
        if not 0 < checks.positive_float("coverage", coverage) < 1:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}.")
        w = self._weights()
        ordered, order = self.ratios.double().sort(dim=0)
        shares = (w / w.mean())[order].cumsum(dim=0) / (len(w) + 1)
        place = (shares < coverage - 1e-9).sum(dim=0)  # 0.9 * 10 is not quite 9
        if int(place.max()) >= len(w):
            needed = math.ceil(coverage / (1 - coverage) - 1e-9)
            raise ValueError(
                f"coverage={coverage!r} needs {needed} rows with leave-one-out residuals, but the model has {len(w)}; "
                f"use at most {math.floor(1e4 * len(w) / (len(w) + 1)) / 1e4}."
            )
        return ordered.gather(0, place[None])[0]

    def _weights(self) -> Tensor:
        return (self.ratios.new_ones(len(self.ratios)) if self.weight is None else self.weight).double()

    def _difficulty(self, X: Tensor) -> Tensor:
        X = checks.inputs("X", X).to(self.landmarks.device)
        X = checks.inputs("X", X if self.transform is None else self.transform(X), width=self.landmarks.shape[1])
        landmarks, sizes = self.landmarks.double(), self.sizes.double()
        parts = [torch.empty(0, sizes.shape[1], dtype=torch.float64, device=X.device)]
        for tile in row_tiles(len(X), row_elements=len(landmarks), tile_elements=TILE_ELEMENTS):
            variance, K = _variance(self.kernel, X[tile].double(), landmarks, self._factor, self.alpha)
            parts.append(variance.sqrt()[:, None] * (1 + K @ sizes).clamp_min(MIN_SIZE))
        return torch.cat(parts)


def _factorise(kernel: Kernel, landmarks: Tensor, alpha: float) -> Tensor:
    """L with L L^T = K_mm + alpha I, in float64."""
    K = kernel(landmarks.double())
    K.diagonal().add_(alpha + JITTER * K.diagonal().mean())
    return torch.linalg.cholesky(K)


def _variance(kernel: Kernel, X: Tensor, landmarks: Tensor, factor: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """v(x) [n] and k(X, landmarks) [n, m]."""
    K = kernel(X, landmarks)
    explained = torch.linalg.solve_triangular(factor, K.T, upper=False).square_().sum(dim=0)
    return alpha + (kernel.diagonal(X) - explained).clamp_min(0), K


def _local_sizes(K: Tensor, K_mm: Tensor, values: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """b [m, t], and h [r, t] at the rows by models without them, for values [r, t] >= 0 and K = k(X, landmarks) [r, m].

    Ridge regression of values / mean - 1 on K in the norm b^T K_mm b, for each output separately.
    """
    w = w / w.mean()
    mean = w @ values / len(w)
    y = torch.where(mean > 0, values / torch.where(mean > 0, mean, 1.0) - 1, 0.0)
    sizes, local, least = K.new_zeros(K.shape[1], y.shape[1]), torch.ones_like(y), w @ y.square()
    # With K_mm = L L^T and the eigenvalues s of A^T W A for A = K L^{-T}, every penalty costs O(r m).
    L = torch.linalg.cholesky(K_mm + 1e-8 * K_mm.diagonal().mean() * torch.eye(len(K_mm)).to(K_mm))
    A = torch.linalg.solve_triangular(L, K.T, upper=False).T
    spectrum, vectors = torch.linalg.eigh(A.T @ (w[:, None] * A))
    A, back = A @ vectors, torch.linalg.solve_triangular(L.T, vectors, upper=True)
    moments = A.T @ (w[:, None] * y)
    for penalty in PENALTIES:
        shrunk = 1 / (spectrum.clamp_min(0) + penalty)
        b = back @ (shrunk[:, None] * moments)
        leverage = (w * (A.square() @ shrunk))[:, None].clamp_max(1 - 1e-6)
        left_out = (K @ b - leverage * y) / (1 - leverage)
        errors = (left_out - y).square()
        gain = w[:, None] * (y.square() - errors)
        enough = gain.mean(dim=0) > gain.std(dim=0) / len(gain) ** 0.5
        better = enough & (w @ errors < least)
        sizes, least = torch.where(better, b, sizes), torch.where(better, w @ errors, least)
        local = torch.where(better, (1 + left_out).clamp_min(MIN_SIZE), local)
    return sizes, local
