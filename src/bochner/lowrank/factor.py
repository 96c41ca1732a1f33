"""Factors K ~ U U^T: their operations, their maps for new points, and the input checks of all methods."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import FeatureMap, NystromMap
from bochner.features.landmarks import pivoted_cholesky, uniform_sample
from bochner.features.projections import frozen
from bochner.kernels import Kernel, Polynomial
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.storage import Storable


class Eigenpairs(NamedTuple):
    """U U^T = Q diag(values) Q^T, both in float64."""

    values: Tensor  # [r], descending, non-negative
    vectors: Tensor  # [n, r], orthonormal columns Q


class Factor(Storable, abstract=True):
    """K ~ U U^T for the n points it was fitted on, U [n, r]: an operator that multiplies and solves without K.

    `features` is the map for new points, with features(X) U^T ~ k(X, points). A subclass stores `basis` [n, q], from
    which it computes rows of U in `rows`, and defines `num_parameters`.
    """

    features: FeatureMap
    basis: Tensor
    _eigenpairs: Eigenpairs | None = None

    @property
    def num_parameters(self) -> int:
        """The number of values that represent K, without the map for new points, by which methods are compared."""
        raise TypeError(f"{type(self).__name__} must define num_parameters.")

    def rows(self, index: Tensor) -> Tensor:
        """U[index], as [len(index), r]."""
        raise TypeError(f"{type(self).__name__} must define rows(index).")

    @property
    def num_points(self) -> int:
        """n."""
        return len(self.basis)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of U."""
        return self.basis.dtype

    @property
    def kernel(self) -> Kernel:
        return self.features.kernel

    @property
    def rank(self) -> int:
        """r, the number of columns of U."""
        return self.features.num_features

    @property
    def root(self) -> Tensor:
        """U [n, r]."""
        return self.rows(torch.arange(self.num_points))

    def forward(self, X: Tensor) -> Tensor:
        return self.transform(X)

    def transform(self, X: Tensor) -> Tensor:
        """Features [m, r] of new points X [m, d]: transform(X) U^T ~ k(X, points)."""
        return self.features(X)

    def expand(self, V: Tensor) -> Tensor:
        """U V for V [r, c], as [n, c]."""
        return self.root @ V

    def project(self, V: Tensor) -> Tensor:
        """U^T V for V [n, c], as [r, c]."""
        return self.root.T @ V

    def matmul(self, V: Tensor) -> Tensor:
        """U U^T V for V [n, c] or [n], in its shape and dtype. O(n r c)."""
        self._check_rows("V", V)
        columns = V.reshape(len(V), -1).to(self.dtype)
        return self.expand(self.project(columns)).reshape(V.shape).to(V.dtype)

    def diag(self) -> Tensor:
        """The diagonal [n] of U U^T."""
        tiles = row_tiles(self.num_points, row_elements=self.rank, tile_elements=TILE_ELEMENTS)
        return torch.cat([self.rows(torch.arange(t.start, t.stop)).square().sum(dim=1) for t in tiles])

    def eigenpairs(self) -> Eigenpairs:
        """The eigenvalues [r], descending, and eigenvectors [n, r] of U U^T, in float64; computed once. O(n r^2).

        By orthogonal factorizations: U^T U would lose half the digits of the small eigenvalues.
        """
        if self._eigenpairs is None:
            Q, R = torch.linalg.qr(self.root.double())
            left, values, _ = torch.linalg.svd(R, full_matrices=False)
            self._eigenpairs = Eigenpairs(values.square(), Q @ left)
        return self._eigenpairs

    def solve(self, alpha: float, y: Tensor) -> Tensor:
        """(U U^T + alpha I)^{-1} y for y [n, t] or [n], in its shape and dtype, computed in float64.

        The Woodbury identity in the basis Q of `eigenpairs`, where it does not cancel:
        Q (L + alpha I)^{-1} Q^T y + (y - Q Q^T y) / alpha. O(n r^2) the first time, then O(n r t).
        """
        alpha = checks.positive_float("alpha", alpha)
        self._check_rows("y", y)
        columns = y.double().reshape(len(y), -1)
        values, Q = self.eigenpairs()
        inside = Q.T @ columns
        solution = Q @ (inside / (values + alpha)[:, None]) + (columns - Q @ inside) / alpha
        return solution.reshape(y.shape).to(y.dtype)

    def logdet(self, alpha: float) -> float:
        """log det(U U^T + alpha I)."""
        alpha = checks.positive_float("alpha", alpha)
        values = self.eigenpairs().values
        return float((values + alpha).log().sum()) + (self.num_points - len(values)) * math.log(alpha)

    def condition_number(self) -> float:
        """sigma_1 / sigma_r of U U^T; infinite if the columns of U are dependent, to the precision of its dtype."""
        values = self.eigenpairs().values
        floor = (torch.finfo(self.dtype).eps * len(values)) ** 2 * float(values[0])
        return float(values[0] / values[-1]) if float(values[-1]) > floor else math.inf

    def _check_rows(self, name: str, V: Tensor) -> None:
        if not isinstance(V, Tensor) or V.ndim not in (1, 2) or len(V) != self.num_points:
            shape = tuple(V.shape) if isinstance(V, Tensor) else type(V).__name__
            raise ValueError(f"{name} must be a tensor with one row per point, {self.num_points}, got {shape}.")
        if not V.is_floating_point():
            raise TypeError(f"{name} must hold floats, got dtype {V.dtype}; use {name}.float().")

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        self._eigenpairs = None  # computed on the old device or in the old dtype
        return super()._apply(fn, recurse)


class DenseFactor(Factor):
    """K ~ U U^T with U [n, r] in memory: n r parameters.

    >>> from bochner.features import FourierMap; from bochner.kernels import Gaussian
    >>> z = FourierMap.draw(Gaussian(), num_inputs=2, num_features=4, generator=torch.Generator().manual_seed(0))
    >>> X = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    >>> factor = DenseFactor(z(X), z)
    >>> x = factor.solve(0.1, torch.ones(10))
    >>> torch.allclose(factor.matmul(x) + 0.1 * x, torch.ones(10), atol=1e-5)
    True
    """

    def __init__(self, root: Tensor, features: FeatureMap) -> None:
        super().__init__()
        if not isinstance(features, FeatureMap):
            raise TypeError(f"features must be a FeatureMap, got {features!r}.")
        if checks.inputs("root", root).shape[1] != features.num_features:
            raise ValueError(
                f"root must have one column per feature, {features.num_features}, got shape {tuple(root.shape)}."
            )
        self.features = features
        self.basis = frozen(checks.finite("root", root))

    @property
    def root(self) -> Tensor:
        return self.basis

    @property
    def num_parameters(self) -> int:
        return self.basis.numel()

    def rows(self, index: Tensor) -> Tensor:
        return self.basis[index]


# Anchors per column of U: ten equations per unknown of the least-squares problem.
ANCHORS_PER_COLUMN = 10
LINEAR = Polynomial(degree=1, offset=0.0)


def extend(
    kernel: Kernel, X: Tensor, root: Tensor, *, generator: Generator, num_anchors: int | None = None
) -> NystromMap:
    """The map for new points of a factor that has no landmarks, by least squares on kernel values at anchors S:

        z(x) = argmin_z ||U_S z - k(S, x)||^2 = k(x, S) (U_S^+)^T,

    S = `num_anchors` points of X [n, d] (10 r, at most n), U_S [s, r] their rows of `root` [n, r]. r anchors are chosen
    by leverage, so that each direction of U is represented even if a single isolated point carries it; the others are
    uniform. With all points and U = Q L^{1/2} from eigenpairs of K it is the Nystrom extension L^{-1/2} Q^T k(X, x),
    exact at X. Directions below the rounding of X's dtype are dropped. O(n r^2 + s r^2) to fit, O(s (d + r)) per new
    point.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    >>> root = torch.linalg.cholesky(Gaussian(bandwidth=0.1)(X))
    >>> z = extend(Gaussian(bandwidth=0.1), X, root, generator=Generator().manual_seed(0))
    >>> torch.allclose(z(X) @ root.T, Gaussian(bandwidth=0.1)(X))
    True
    """
    count = min(len(X), ANCHORS_PER_COLUMN * root.shape[1] if num_anchors is None else num_anchors)
    chosen = _anchors(root, count, generator)
    rounding = torch.finfo(root.dtype).eps * count
    normalization = torch.linalg.pinv(root[chosen].double(), rtol=rounding).T
    return NystromMap(kernel, X[chosen], normalization.to(X.dtype).contiguous())


def _anchors(root: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` rows of U: random pivots of Q Q^T, whose diagonal is the leverage, and uniform others."""
    Q = torch.linalg.qr(root.double()).Q
    pivots = pivoted_cholesky(LINEAR, Q, min(count, root.shape[1]), generator=generator).pivots
    is_free = torch.ones(len(root), dtype=torch.bool, device=root.device)
    is_free[pivots] = False
    others = is_free.nonzero().squeeze(1)
    drawn = uniform_sample(len(others), count - len(pivots), generator=generator).to(root.device)
    return torch.cat([pivots, others[drawn]])


# -- checks of kernel, points and rank --------------------------------------------------------------------------

# Points on which a kernel is evaluated before it is used: a few milliseconds.
PROBES = 256
# The share of max k(x, x) by which ||u||^2 may exceed k(x, x); rounding in float32 stays below 1e-4.
EXCESS = 0.01


def check_problem(kernel: Kernel, X: Tensor, rank: int) -> None:
    """Check for a kernel, finite points X [n, d] and a rank of at most n.

    The kernel is evaluated on up to 256 of the points: values that are not finite and negative eigenvalues raise an
    error instead of giving a meaningless factor.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a Kernel, got {kernel!r}.")
    checks.finite("X", checks.inputs("X", X))
    if checks.positive_int("rank", rank) > len(X):
        raise ValueError(f"rank must be at most the number of points, {len(X)}, got {rank}.")
    checks.finite("k(x, x)", kernel.diagonal(X))  # which bounds all other values
    probes = torch.linspace(0, len(X) - 1, min(len(X), PROBES), dtype=torch.float64, device=X.device).long()
    check_definite(kernel, torch.linalg.eigvalsh(kernel_matrix(kernel, X[probes])))


def check_definite(kernel: Kernel, values: Tensor, *, dtype: torch.dtype = torch.float64) -> None:
    """Check that no eigenvalue [m] of a kernel matrix with the precision of `dtype` is negative beyond rounding."""
    largest, smallest = float(values.abs().max()), float(values.min())
    if smallest < -largest * torch.finfo(dtype).eps ** 0.5:
        raise ValueError(
            f"kernel must be positive semi-definite, but {kernel!r} has eigenvalues from {smallest:.3g} to "
            f"{float(values.max()):.3g} on these points; U U^T cannot have negative ones."
        )


def check_below(kernel: Kernel, X: Tensor, root: Tensor) -> None:
    """Check that ||u||^2 <= k(x, x) for the rows u of U [n, r], computed from columns of K = k(X, X). O(n r).

    For a positive semi-definite K no such U U^T exceeds K, so this detects negative eigenvalues that the probes and the
    landmarks missed.
    """
    limits = kernel.diagonal(X)
    excess = float((root.square().sum(dim=1) - limits).max())
    if excess > EXCESS * float(limits.max()):
        raise ValueError(
            f"kernel must be positive semi-definite, but {kernel!r} has negative eigenvalues on these points: its "
            f"factor exceeds k(x, x) by up to {excess:.3g}."
        )


def kernel_matrix(kernel: Kernel, points: Tensor) -> Tensor:
    """k(points, points) [m, m] in float64, checked to be finite."""
    return checks.finite("k(X, X)", kernel(points.double()))
