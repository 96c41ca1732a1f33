"""Kernel ridge regression on landmarks by preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.kernels import Kernel
from bochner.learn.losses import LOSSES, Loss
from bochner.learn.solvers.rows import Summary, Tile, read_encoded, split_tile, summarize
from bochner.learn.solvers.whitening import Whitening, solve_factored
from bochner.ops.conjugate import Report, conjugate_gradients
from bochner.ops.convergence import warn_stopped
from bochner.storage import Storable

# Numbers in one block of K_nm: what a kernel makes in one piece.
TILE_ELEMENTS = 2**21
# How much of the preconditioned residual may be rounding.
ROUNDING = 1e-3
# ridge = k(x, x) / (RIDGE_ROWS n) by default: see fit_landmark_ridge.
RIDGE_ROWS = 5


class LandmarkModel(Storable):
    """f(x) = sum_j k(x, l_j) a_j + b: landmarks [m, d], coefficients [m, t], bias [t]; can be saved and loaded.

    >>> from bochner.kernels import Gaussian
    >>> model = LandmarkModel(Gaussian(), torch.zeros(1, 2), torch.ones(1, 3), torch.zeros(3))
    >>> model.decision(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    landmarks: Tensor
    coefficients: Tensor
    bias: Tensor

    def __init__(self, kernel: Kernel, landmarks: Tensor, coefficients: Tensor, bias: Tensor) -> None:
        super().__init__()
        if coefficients.shape != (len(landmarks), len(bias)):
            expected, given = (len(landmarks), len(bias)), tuple(coefficients.shape)
            raise ValueError(f"coefficients must have shape {expected}, one row per landmark, got {given}.")
        self.kernel = kernel
        self.register_buffer("landmarks", landmarks)
        self.register_buffer("coefficients", coefficients)
        self.register_buffer("bias", bias)

    def decision(self, X: Tensor) -> Tensor:
        """f(X) [n, t] for X [n, d], without ever holding k(X, landmarks); in the landmarks' dtype, returned in X's."""
        checks.inputs("X", X, width=self.landmarks.shape[1])
        f = X.new_empty(len(X), len(self.bias))
        alpha = self.coefficients.T.contiguous()
        rows = max(1, TILE_ELEMENTS // len(self.landmarks))
        for tile, block in self.kernel.blocks(X.to(self.landmarks), self.landmarks, rows=rows):
            f[tile] = (scores(block, alpha) + self.bias).to(f.dtype)
        return f

    def forward(self, X: Tensor) -> Tensor:
        return self.decision(X)


def scores(K: Tensor, alpha: Tensor) -> Tensor:
    """K alpha^T [n, t] for a block K [n, m] and alpha [t, m] by rows: on a CPU five times as fast as K @ alpha."""
    return (alpha @ K.T).T


class CrossKernel:
    """K_nm = k(source, landmarks) as something that is walked through, block by block.

    Blocks are kept as long as `memory_budget` bytes last and made anew in every walk after that: the result does not
    depend on the budget.
    """

    def __init__(
        self,
        kernel: Kernel,
        landmarks: Tensor,
        source: Source,
        summary: Summary,
        *,
        num_classes: int | None,
        memory_budget: int,
    ) -> None:
        if memory_budget < 0:
            raise ValueError(f"memory_budget must be a number of bytes, at least 0, got {memory_budget!r}.")
        self.summary = summary
        self._kernel, self.landmarks, self._source, self._num_classes = kernel, landmarks, source, num_classes
        self._kept: dict[int, list[tuple[Tile, Tensor]]] = {}
        self._bytes_left = memory_budget

    def walk(self) -> Iterator[tuple[Tile, Tensor]]:
        """Pairs of rows and their block of K_nm [rows, m]."""
        for shard, size in enumerate(self._source.shard_sizes):
            if shard in self._kept:
                yield from self._kept[shard]
                continue
            needed = size * len(self.landmarks) * self.landmarks.element_size()
            if needed > self._bytes_left:
                yield from self._make(shard)
            else:
                self._bytes_left -= needed
                self._kept[shard] = list(self._make(shard))
                yield from self._kept[shard]

    def adjoint(self, values: Callable[[Tile, Tensor], Tensor]) -> Tensor:
        """K_nm^T diag(w) V / sum(w) [m, t] in float64, with V [n, t] made block by block as values(rows, block)."""
        total: Tensor | None = None
        for tile, K in self.walk():
            part = (values(tile, K) * tile.weight[:, None]).T @ K
            total = part.double() if total is None else total.add_(part)
        assert total is not None  # summarize has seen rows
        return total.T / self.summary.total_weight

    def rows_of(self, alpha: Tensor) -> Tensor:
        """alpha [m, t] as `scores` wants it."""
        return alpha.T.to(self.landmarks).contiguous()

    def _make(self, shard: int) -> Iterator[tuple[Tile, Tensor]]:
        rows = max(1, TILE_ELEMENTS // len(self.landmarks))
        for tile in split_tile(read_encoded(self._source, shard, num_classes=self._num_classes), rows):
            tile = Tile(*(part.to(self.landmarks) for part in tile))
            yield tile, self._kernel(tile.X, self.landmarks)


def fit_landmark_ridge(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    *,
    ridge: float | None = None,
    num_classes: int | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    memory_budget: int = 2**30,
    report: Report | None = None,
) -> LandmarkModel:
    """f = K_nm a + b with b the mean of y and a the minimum of

        ||K_nm a + b - Y||^2 / n + ridge a^T K_mm a    (means weighted by the rows' weights),

    that is (K_nm^T K_nm + n ridge K_mm) a = K_nm^T (Y - b), solved by conjugate gradients for all outputs at once.
    The preconditioner takes the m landmarks for the n rows: K_nm^T K_nm / n ~ K_mm^2 / m, with K_mm = L L^T and
    L^T L / m + ridge I = M M^T; for landmarks drawn uniformly from the rows and m of the order of 1 / ridge the
    iterations do not depend on n.

    kernel on landmarks [m, d]; y numbers [n] or [n, t], or class indices with `num_classes` (then one-hot, one against
    the rest). K_nm is kept while it fits `memory_budget` bytes and made anew in every iteration otherwise. Sums and
    factorisations are in float64, blocks of K_nm in the landmarks' dtype, unless K_mm is so close to singular and the
    ridge so small that float32 could not resolve the solution: then in float64, and so is the model.
    ridge None means k(x, x) / (5 n): least squares on labels with little noise wants less than 1 / n; choose it on
    heldout rows where it matters. tolerance is the fall of the preconditioned residual; a ConvergenceWarning says when
    `max_iterations` did not reach it.
    O(m^3) once, O(n m (d + t)) an iteration (n m t where K_nm is kept); O(m^2) memory beside the budget.
    Source: Rudi, Carratino & Rosasco 2017 (Falkon).

    >>> from bochner.kernels import Gaussian; from bochner.data.sources import ArraySource
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> model = fit_landmark_ridge(Gaussian(), X[::10], ArraySource(X, X[:, 0].sin()), ridge=1e-7)
    >>> bool((model.decision(X) - X.sin()).abs().max() < 1e-2)
    True
    """
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_iterations", max_iterations)
    K, space, ridge = prepare(
        kernel, landmarks, source, LOSSES["squared"], ridge=ridge, num_classes=num_classes, memory_budget=memory_budget
    )
    factor = space.factor_hessian(None, ridge)
    bias = K.summary.mean.to(K.landmarks)

    def apply(gamma: Tensor) -> Tensor:
        alpha = K.rows_of(space.coefficients(gamma))
        return space.pull(K.adjoint(lambda _, block: scores(block, alpha))) + ridge * gamma

    gamma, left = conjugate_gradients(
        apply,
        space.pull(K.adjoint(lambda rows, _: rows.targets - bias)),
        lambda residual: solve_factored(factor, residual),
        tolerance=tolerance,
        max_iterations=max_iterations,
        report=report,
    )
    if not left <= tolerance:
        warn_stopped(
            "conjugate gradients",
            limit=f"max_iterations={max_iterations}",
            reached=f"{left:.3g} of the residual left",
            tolerance=tolerance,
            remedy="raise max_iterations, or raise the ridge, which makes the problem easier",
        )
    return LandmarkModel(kernel, K.landmarks, space.coefficients(gamma).to(K.landmarks), bias)


def prepare(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    loss: Loss,
    *,
    ridge: float | None,
    num_classes: int | None,
    memory_budget: int,
) -> tuple[CrossKernel, Whitening, float]:
    """K_nm, the landmarks' space, and the ridge.

    Rounding errors eps of K_nm reach the preconditioned residual as eps / sqrt(ridge lambda), lambda the smallest
    eigenvalue of K_mm; where that is too much in the landmarks' dtype, K_nm is made in float64.
    """
    checks.inputs("landmarks", landmarks, width=source.num_inputs)
    summary = summarize(source, num_classes=num_classes)
    space = Whitening(kernel, landmarks)
    if ridge is None:
        curvature = float(loss.curvature(loss.offset(summary.mean)[None]))
        ridge = curvature * space.amplitude / (RIDGE_ROWS * summary.num_rows)
    checks.positive_float("ridge", ridge)
    noise = torch.finfo(landmarks.dtype).eps / (ridge * space.smallest / space.amplitude**2) ** 0.5
    points = landmarks.double() if noise > ROUNDING else landmarks
    K = CrossKernel(kernel, points, source, summary, num_classes=num_classes, memory_budget=memory_budget)
    return K, space, ridge
