"""New points for a factor that has no landmarks."""

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
from bochner.ops import row_tiles
from bochner.storage import Storable

TILE_ELEMENTS = 2**22


class Eigenpairs(NamedTuple):
    """U U^T = Q diag(values) Q^T, both in float64."""

    values: Tensor  # [r], descending, non-negative
    vectors: Tensor  # [n, r], orthonormal columns Q


class Factor(Storable, abstract=True):
    """K ~ U U^T for the n points it was fitted on, U [n, r]: an operator that multiplies, solves and has a root.

    `features` is its map for new points, with features(X) U^T ~ k(X, points). A subclass sets `features` and implements
    `rows`, `num_points`, `num_parameters` and `dtype`; K itself is never held.
    """

    features: FeatureMap
    _eigenpairs: Eigenpairs | None = None

    # -- what a subclass says ----------------------------------------------------------------------------------

    @property
    def num_points(self) -> int:
        """n."""
        raise TypeError(f"{type(self).__name__} must define num_points.")

    @property
    def num_parameters(self) -> int:
        """How many numbers stand for K: what methods are compared by. The map for new points is not counted."""
        raise TypeError(f"{type(self).__name__} must define num_parameters.")

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of U."""
        raise TypeError(f"{type(self).__name__} must define dtype.")

    def rows(self, index: Tensor) -> Tensor:
        """U[index], as [len(index), r]."""
        raise TypeError(f"{type(self).__name__} must define rows(index).")

    # -- what follows ------------------------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        return self.features.kernel

    @property
    def rank(self) -> int:
        """r, the columns of U."""
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
        """The eigenvalues [r], descending, and eigenvectors [n, r] of U U^T, in float64; found once, then kept.

        By orthogonal factorisations: U^T U would lose half the digits of the small ones. O(n r^2).
        """
        if self._eigenpairs is None:
            Q, R = torch.linalg.qr(self.root.double())
            left, values, _ = torch.linalg.svd(R, full_matrices=False)
            self._eigenpairs = Eigenpairs(values.square(), Q @ left)
        return self._eigenpairs

    def solve(self, ridge: float, y: Tensor) -> Tensor:
        """(U U^T + ridge I)^{-1} y for y [n, t] or [n], in its shape and dtype, computed in float64.

        The Woodbury identity in the basis Q of `eigenpairs`, where it does not cancel:
        Q (L + ridge I)^{-1} Q^T y + (y - Q Q^T y) / ridge. O(n r^2) the first time, then O(n r t).
        """
        ridge = checks.positive_float("ridge", ridge)
        self._check_rows("y", y)
        columns = y.double().reshape(len(y), -1)
        values, Q = self.eigenpairs()
        inside = Q.T @ columns
        solution = Q @ (inside / (values + ridge)[:, None]) + (columns - Q @ inside) / ridge
        return solution.reshape(y.shape).to(y.dtype)

    def logdet(self, ridge: float) -> float:
        """log det(U U^T + ridge I)."""
        ridge = checks.positive_float("ridge", ridge)
        values = self.eigenpairs().values
        return float((values + ridge).log().sum()) + (self.num_points - len(values)) * math.log(ridge)

    def condition_number(self) -> float:
        """sigma_1 / sigma_r of U U^T; infinite when U has a lower rank than columns, to the digits of its dtype."""
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
        self._eigenpairs = None  # found on the old device or in the old dtype
        return super()._apply(fn, recurse)


class DenseFactor(Factor):
    """K ~ U U^T with all of U [n, r] at hand: n r parameters.

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
        self._root = frozen(checks.finite("root", root))

    @property
    def root(self) -> Tensor:
        return self._root

    @property
    def num_points(self) -> int:
        return len(self._root)

    @property
    def num_parameters(self) -> int:
        return self._root.numel()

    @property
    def dtype(self) -> torch.dtype:
        return self._root.dtype

    def rows(self, index: Tensor) -> Tensor:
        return self._root[index]


# Points per column of U that a new point is compared with: the least squares are well determined.
ANCHORS_PER_COLUMN = 10
LINEAR = Polynomial(degree=1, offset=0.0)


def extend(
    kernel: Kernel, X: Tensor, root: Tensor, *, generator: Generator, num_anchors: int | None = None
) -> NystromMap:
    """The map whose z(x) explains the kernel values of x at some of the points best:

        z(x) = argmin_z ||U_S z - k(S, x)||^2 = k(x, S) (U_S^+)^T,

    S = `num_anchors` points of X [n, d] (10 r, at most n), U_S [s, r] their rows of `root` [n, r]: r of them such that
    no direction of U is missed, be it carried by a single lonely point, and uniform ones. With all points and
    U = Q L^{1/2} from eigenpairs of K it is the Nystrom extension L^{-1/2} Q^T k(X, x), exact at X. Directions lost in
    the rounding of X's dtype are dropped. O(n r^2 + s r^2) to fit, O(s (d + r)) a new point.

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
    """`count` rows of U: random pivots of the projection on its columns, by their leverage, and uniform others."""
    Q = torch.linalg.qr(root.double()).Q
    pivots = pivoted_cholesky(LINEAR, Q, min(count, root.shape[1]), generator=generator).pivots
    is_free = torch.ones(len(root), dtype=torch.bool, device=root.device)
    is_free[pivots] = False
    others = is_free.nonzero().squeeze(1)
    drawn = uniform_sample(len(others), count - len(pivots), generator=generator).to(root.device)
    return torch.cat([pivots, others[drawn]])
