"""The base class of kernels: values in tiles, products with vectors, and inputs transformed by a scale or a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.ops import (
    TILE_ELEMENTS,
    CenteredRows,
    Radial,
    accurate_squared_distances,
    fused_kernels,
    row_tiles,
    squared_distances,
    tile_size,
)
from bochner.storage import Storable

if TYPE_CHECKING:
    from bochner.kernels.combined import Product, Sum


# Columns per tile of k(X, Y) in a product: few enough for hundreds of rows per tile.
TILE_COLUMNS = 2**13

# Inputs up to which a product is fused with that of distances, which otherwise takes nearly all the time.
MAX_FUSED_INPUTS = 512

Scale = float | Tensor | None
"""One factor for all inputs, or one per input."""


def metric_root(metric: Tensor) -> Tensor:
    """The symmetric root M^{1/2} of a positive semi-definite M [d, d], by its eigenvectors, in float64.

    >>> metric_root(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]], dtype=torch.float64)
    """
    if not isinstance(metric, Tensor):
        raise TypeError(f"metric must be a torch.Tensor, got {type(metric).__name__}.")
    if metric.numel() == 0 or metric.ndim != 2 or metric.shape[0] != metric.shape[1] or not metric.is_floating_point():
        raise ValueError(
            f"metric must be a square float matrix, got shape {tuple(metric.shape)} and dtype {metric.dtype}."
        )
    M = checks.finite("metric", metric).double()
    size = M.abs().max()
    gap = (M - M.T).abs().max()
    if gap > 1e-5 * size:
        raise ValueError(f"metric must be symmetric, entries differ by {gap:.3g}; use (M + M.T) / 2.")
    values, vectors = torch.linalg.eigh((M + M.T) / 2)
    if values[0] < -1e-5 * size:
        raise ValueError(f"metric must be positive semi-definite, its least eigenvalue is {values[0]:.3g}.")
    return (vectors * values.clamp_min(0).sqrt()) @ vectors.T


class Kernel(Storable, abstract=True):
    """A positive semi-definite k(x, y) on rows of float tensors, on any device.

    `scale` (a number, or one per input) and `metric` (a positive semi-definite [d, d] matrix M) transform the inputs
    first: k(s x, s y), or k(M^{1/2} x, M^{1/2} y), so that distances become ||M^{1/2} (x - y)||. Give one or the other.

    A subclass implements `_evaluate` and `diagonal`; half and bfloat16 inputs are computed in float32. `spectral` means
    that frequencies can be drawn, as Fourier maps need.
    """

    spectral = False
    scale: Scale
    metric: Tensor | None
    _root: Tensor | None

    def __init__(self, *, scale: Scale = None, metric: Tensor | None = None) -> None:
        super().__init__()
        if scale is not None and metric is not None:
            raise ValueError("give scale or metric, not both: fold the scale into the metric.")
        if isinstance(scale, Tensor):
            if scale.ndim != 1 or not scale.is_floating_point():
                raise ValueError(
                    f"scale must be a number or a float vector with one entry per input, got shape "
                    f"{tuple(scale.shape)} and dtype {scale.dtype}."
                )
            self.register_buffer("scale", checks.finite("scale", scale))
        else:
            self.scale = None if scale is None else checks.positive_float("scale", scale)
        root = None if metric is None else metric_root(metric)
        self.register_buffer("metric", metric)
        self.register_buffer("_root", root, persistent=False)

    def with_bandwidth(
        self,
        rule: str | float,
        X: Tensor,
        *,
        generator: Generator | None = None,
        rows: Iterable[Tensor] | None = None,
    ) -> Self:
        """The same kernel with a given bandwidth, or one that suits X; only stationary kernels have one."""
        raise ValueError(f"bandwidth={rule!r} was given, but {self!r} has no bandwidth; use None.")

    # -- values ------------------------------------------------------------------------------------------------

    def forward(self, X: Tensor, Y: Tensor | None = None) -> Tensor:
        """k(x_i, y_j) for X [n, d] and Y [m, d] (X when omitted), as [n, m]; temporaries stay within one tile."""
        X = checks.inputs("X", X)
        same = Y is None or Y is X
        Y = X if Y is None else checks.inputs("Y", Y, width=X.shape[1])
        dtype = X.dtype
        U = self.prepare(X)
        V = U if same else self.prepare(Y)
        K = self.values(U, V)
        if same:  # k(x, x) is known exactly, while its distance is 0 only up to rounding
            exact = self.diagonal(X).to(K.dtype)
            if K.requires_grad:
                K = K.diagonal_scatter(exact)
            else:
                K.diagonal().copy_(exact)
        return K.to(dtype)

    def diagonal(self, X: Tensor) -> Tensor:
        """k(x_i, x_i) for X [n, d], as [n]."""
        raise TypeError(f"{type(self).__name__} must define diagonal(X).")

    def _evaluate(self, U: Tensor, V: Tensor) -> Tensor:
        """Values of k on prepared inputs (scaled, at least float32), as [n, m]."""
        raise TypeError(f"{type(self).__name__} must define _evaluate(U, V).")

    @property
    def radial(self) -> Radial | None:
        """The kernel as a function of a sum of powers, if it is one."""
        return None

    def _temporaries(self) -> int:
        """How many arrays of the block's size `_evaluate` holds at once; tiles are smaller by this factor."""
        return 2

    def blocks(self, X: Tensor, Y: Tensor, *, rows: int = 1024) -> Iterator[tuple[slice, Tensor]]:
        """k(X, Y) a few rows at a time: pairs of the row slice and its [rows, m] block.

        >>> import torch; from bochner.kernels import Gaussian
        >>> X = torch.zeros(5, 2)
        >>> [tuple(block.shape) for _, block in Gaussian().blocks(X, X, rows=3)]
        [(3, 5), (2, 5)]
        """
        for tile in row_tiles(len(X), row_elements=1, tile_elements=checks.positive_int("rows", rows)):
            yield tile, self(X[tile], Y)

    def matmul(self, X: Tensor, Y: Tensor, V: Tensor, *, tile_rows: int | None = None) -> Tensor:
        """k(X, Y) V for V [m, c], as [n, c], without storing k(X, Y), unless gradients are recorded.

        As k is symmetric, k(X, Y)^T W is `matmul(Y, X, W)`. On a GPU float32 products with kernels that have a
        `radial` form are fused with the values of k, to float32's accuracy; others are computed tile by tile, of
        `tile_rows` rows where given: a full tile is then rounded as in a call with its rows alone. O(nm (d + c)).

        >>> import torch; from bochner.kernels import Gaussian
        >>> Gaussian().matmul(torch.zeros(2, 3), torch.zeros(5, 3), torch.ones(5, 1))
        tensor([[5.],
                [5.]])
        """
        X = checks.inputs("X", X)
        Y = checks.inputs("Y", Y, width=X.shape[1])
        if torch.is_grad_enabled() and any(T.requires_grad for T in (X, Y, V)):
            return self(X, Y) @ V
        U, L = self.prepare(X), self.prepare(Y)
        radial = self.radial
        if radial is not None and (fused := self.fused_products(U)):
            by_blocks = radial.norm == 2 and X.shape[1] > MAX_FUSED_INPUTS
            product = fused.blocked_product if by_blocks else fused.radial_product
            return product(U, L, V.to(U), radial).to(V.dtype)
        columns, limit = min(len(Y), TILE_COLUMNS), tile_size(TILE_ELEMENTS, U.device)
        step = tile_rows or max(1, limit // (self._temporaries() * max(1, columns)))
        result = torch.zeros(len(X), V.shape[1], dtype=U.dtype, device=U.device)
        for j in row_tiles(len(Y), row_elements=1, tile_elements=TILE_COLUMNS):
            rows = V[j].T.to(U).contiguous()
            evaluate = self._evaluator(L[j])
            for i in row_tiles(len(X), row_elements=1, tile_elements=step):
                result[i] += (rows @ evaluate(U[i]).T).T  # on a CPU several times as fast as K @ V[j]
        return result.to(V.dtype)

    def _evaluator(self, V: Tensor) -> Callable[[Tensor], Tensor]:
        """U -> `_evaluate(U, V)`, without derivatives; what depends on V alone is computed once."""
        radial = self.radial
        if radial is None or radial.norm != 2 or radial.error == 0:
            return lambda U: self._evaluate(U, V)
        rows, error = CenteredRows.of(V), radial.error
        return lambda U: radial.values(squared_distances(U, rows, error=error))

    def slopes(self, U: Tensor, V: Tensor) -> Tensor:
        """g [n, m] with grad_u k(u_i, v_j) = -g_ij (u_i - v_j), for prepared inputs and kernels with a `radial` form in
        the Euclidean norm."""
        radial = self.radial
        if radial is None or radial.norm != 2:
            raise ValueError(f"slopes need a function of the Euclidean distance, got {self!r}.")
        if radial.error == 0:
            return radial.slopes(accurate_squared_distances(U, V))
        return radial.slopes(squared_distances(U, V, error=radial.error))

    def fused_products(self, like: Tensor) -> Any | None:
        """The module of fused products if `matmul` uses one on inputs such as `like`, else None."""
        suits = like.is_cuda and like.dtype != torch.float64 and self.radial is not None
        return fused_kernels(like, multiplies=False) if suits else None

    # -- inputs ------------------------------------------------------------------------------------------------

    def prepare(self, X: Tensor) -> Tensor:
        """The transformed inputs, s x or M^{1/2} x, at least in float32."""
        if X.dtype in (torch.float16, torch.bfloat16):
            X = X.float()
        if self._root is not None:
            checks.inputs("X", X, width=len(self._root))
            return X @ self._root.to(X)
        if isinstance(self.scale, Tensor):
            checks.inputs("X", X, width=len(self.scale))
            return X * self.scale.to(X)
        return X if self.scale is None else X * self.scale

    def fold(self, weights: Tensor) -> Tensor:
        """W' with x W' = prepare(x) W: the scale or metric moved into weights W [d, D]."""
        if self._root is not None:
            return self._root.to(weights) @ weights
        if isinstance(self.scale, Tensor):
            return self.scale.to(weights)[:, None] * weights
        return weights if self.scale is None else weights * self.scale

    def values(self, U: Tensor, V: Tensor) -> Tensor:
        """k(u_i, v_j) for prepared inputs, as [n, m]; temporaries stay within one tile."""
        limit = tile_size(TILE_ELEMENTS, U.device)
        tiles = list(row_tiles(len(U), row_elements=self._temporaries() * len(V), tile_elements=limit))
        if len(tiles) <= 1:
            return self._evaluate(U, V)
        if torch.is_grad_enabled() and (U.requires_grad or V.requires_grad):
            return torch.cat([self._evaluate(U[tile], V) for tile in tiles])
        K = U.new_empty(len(U), len(V))
        for tile in tiles:
            K[tile] = self._evaluate(U[tile], V)
        return K

    # -- algebra -----------------------------------------------------------------------------------------------

    def __add__(self, other: Kernel) -> Sum:
        from bochner.kernels.combined import Sum  # which imports this module

        return Sum([self, other])

    def __mul__(self, other: Kernel | float) -> Product | Sum:
        from bochner.kernels.combined import Product, Sum

        return Product([self, other]) if isinstance(other, Kernel) else Sum([self], weights=[other])

    __rmul__ = __mul__
