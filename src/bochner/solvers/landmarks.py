"""Kernel ridge regression on landmarks by preconditioned conjugate gradients (Falkon), or exactly on all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Source
from bochner.data.content import content_hashes
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.models.losses import LOSSES, Loss
from bochner.ops import TILE_ELEMENTS, row_tiles, tile_size
from bochner.ops.linalg import (
    Iterate,
    Operator,
    Report,
    conjugate_gradients,
    refined_conjugate_gradients,
    warn_stopped,
)
from bochner.solvers.checkpoint import SolverCheckpoints
from bochner.solvers.rows import OwnShards, Summary, Tile, read_encoded, split_tile, summarize
from bochner.solvers.step import RESIDENT_SHARE
from bochner.storage import checksum

# Numbers in one block of k(X, landmarks): 8 or 16 MB, which stays in a CPU's last-level cache.
BLOCK_ELEMENTS = TILE_ELEMENTS // 2
# Columns of L^T W L computed at once: the zeros above the diagonal of L are skipped in blocks of this size.
PRODUCT_COLUMNS = 512
INVERTED_ROWS = 1024  # rows and columns of the diagonal blocks that `Triangle` inverts
JITTER_ATTEMPTS = 8  # tenfold each: from 1e-16 to 1e-8 of the diagonal, beyond which a kernel is indefinite


class Triangle:
    """A lower triangular matrix L [m, m], and solutions for few right-hand sides [m, t]. O(m^2 t).

    By blocks of `block_rows`, whose diagonal blocks are inverted once: products, which take the time of reading L. By
    default so on a GPU, and by torch's solution, where a row waits for the one before it, on a CPU.
    """

    def __init__(self, L: Tensor, *, block_rows: int | None = None) -> None:
        self.L = L
        block_rows = block_rows or (INVERTED_ROWS if L.is_cuda else None)
        self._blocks = list(row_tiles(len(L), row_elements=1, tile_elements=block_rows)) if block_rows else []
        self._inverses = [
            torch.linalg.solve_triangular(L[b, b], torch.eye(b.stop - b.start).to(L), upper=False) for b in self._blocks
        ]

    def solve(self, rhs: Tensor) -> Tensor:
        """L^{-1} rhs."""
        if not self._blocks:
            return torch.linalg.solve_triangular(self.L, rhs, upper=False)
        X = rhs.clone()
        for b, inverse in zip(self._blocks, self._inverses, strict=True):
            X[b] = inverse @ (X[b] - self.L[b, : b.start] @ X[: b.start])
        return X

    def solve_transposed(self, rhs: Tensor) -> Tensor:
        """L^{-T} rhs."""
        if not self._blocks:
            return torch.linalg.solve_triangular(self.L.T, rhs, upper=True)
        X = rhs.clone()
        for b, inverse in zip(reversed(self._blocks), reversed(self._inverses), strict=True):
            X[b] = inverse.T @ (X[b] - self.L[b.stop :, b].T @ X[b.stop :])
        return X

    def solve_squared(self, rhs: Tensor) -> Tensor:
        """(L L^T)^{-1} rhs; on a CPU three times as fast as torch.cholesky_solve."""
        return self.solve_transposed(self.solve(rhs))


class Whitening:
    """L [m, m], lower, with L L^T = K_mm + jitter I, in float64.

    f on landmarks has coefficients a and the squared norm a^T K_mm a, which is ||gamma||^2 for gamma = L^T a: the
    penalty becomes a multiple of the identity. The jitter starts at the rounding of float64 and grows tenfold until the
    factorisation succeeds, so that duplicated landmarks do no harm. O(m^3 / 3).
    """

    def __init__(self, kernel: Kernel, landmarks: Tensor) -> None:
        checks.finite("landmarks", checks.inputs("landmarks", landmarks))
        K = checks.finite("k(landmarks, landmarks)", kernel(landmarks.double()))
        self.amplitude = float(K.diagonal().mean())
        jitter = self.amplitude * torch.finfo(K.dtype).eps * len(K) ** 0.5
        for _ in range(JITTER_ATTEMPTS):
            K.diagonal().add_(jitter)
            self.root, failed = torch.linalg.cholesky_ex(K)
            if not int(failed):
                self._triangle = Triangle(self.root)
                return
            jitter *= 10
        raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on the landmarks.")

    @property
    def smallest(self) -> float:
        """About the smallest eigenvalue of K_mm: the smallest pivot of its factorisation, never less than it."""
        return float(self.root.diagonal().min()) ** 2

    def coefficients(self, gamma: Tensor) -> Tensor:
        """a = L^{-T} gamma."""
        return self._triangle.solve_transposed(gamma)

    def pull(self, gradient: Tensor) -> Tensor:
        """L^{-1} g: turns a gradient by a into one by gamma."""
        return self._triangle.solve(gradient)

    def factor_hessian(self, curvature: Tensor | None, alpha: float) -> Triangle:
        """The lower Cholesky factor of L^T W L / m + alpha I, W = diag(curvature [m]): the Hessian, were the rows of
        the data the landmarks. O(2 m^3 / 3): only the lower half, and without the zeros of L."""
        root, m = self.root, len(self.root)
        H = torch.zeros_like(root)
        for part in row_tiles(m, row_elements=1, tile_elements=PRODUCT_COLUMNS):
            below = root[part.start :]
            left = below[:, part] if curvature is None else below[:, part] * curvature[part.start :, None]
            H[part, : part.stop] = left.T @ below[:, : part.stop]
        H.div_(m).diagonal().add_(alpha)
        factor, failed = torch.linalg.cholesky_ex(H)
        if int(failed):
            raise ValueError(f"alpha must be larger, got {alpha:g}: the preconditioner is singular to rounding.")
        return Triangle(factor)


# The part of the preconditioned residual that may be rounding: that of the default tolerance.
ROUNDING = 1e-3
# The default is alpha = k(x, x) / (ALPHA_ROWS n): least squares on labels with little noise needs less than 1 / n.
ALPHA_ROWS = 5


class ImplicitBlock(NamedTuple):
    """k(X, Y) as a factor of products, each of which computes it again."""

    kernel: Kernel
    X: Tensor
    Y: Tensor

    @property
    def T(self) -> ImplicitBlock:
        return ImplicitBlock(self.kernel, self.Y, self.X)

    def __rmatmul__(self, left: Tensor) -> Tensor:
        return self.kernel.matmul(self.Y, self.X, left.T).T


Block = Tensor | ImplicitBlock


def scores(K: Block, coefficients: Tensor) -> Tensor:
    """K a [n, t] for a block K [n, m] and the rows of a^T [t, m]: on a CPU five times as fast as K @ a."""
    return (coefficients @ K.T).T


class CrossKernel:
    """K_nm = k(source, landmarks), computed block by block.

    Blocks are kept while they fit `memory_budget` bytes, and the others are computed again in every pass; the result
    does not depend on the budget. On a GPU where the kernel has fused products, blocks are not stored even for one
    pass unless all of them fit, and the rows stay on the GPU if they fit there.
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
        group: Any = None,
    ) -> None:
        if memory_budget < 0:
            raise ValueError(f"memory_budget must be a number of bytes, at least 0, got {memory_budget!r}.")
        self.summary, self.group = summary, group
        self.kernel, self.landmarks, self._source, self._num_classes = kernel, landmarks, source, num_classes
        self._kept: dict[int, list[tuple[Tile, Block]]] = {}
        self._bytes_left = memory_budget
        needed = sum(source.shard_sizes) * len(landmarks) * landmarks.element_size()
        self._is_fused = needed > memory_budget and kernel.fused_products(landmarks) is not None
        self._resident = self._read_all() if self._is_fused else None

    def _read_all(self) -> Tile | None:
        """All rows on the GPU, or None if they do not fit."""
        width = self._source.num_inputs + len(self.summary.mean) + 1
        needed = sum(self._source.shard_sizes) * width * self.landmarks.element_size()
        if needed > RESIDENT_SHARE * torch.cuda.mem_get_info(self.landmarks.device)[0]:
            return None
        shards = [
            [part.to(self.landmarks) for part in read_encoded(self._source, shard, num_classes=self._num_classes)]
            for shard in range(len(self._source.shard_sizes))
        ]
        return Tile(*map(torch.cat, zip(*shards, strict=True)))

    def blocks(self) -> Iterator[tuple[Tile, Block]]:
        """One pass: pairs of rows and their block of K_nm [rows, m]."""
        if self._resident is not None:
            yield self._resident, ImplicitBlock(self.kernel, self._resident.X, self.landmarks)
            return
        for shard, size in enumerate(self._source.shard_sizes):
            if shard in self._kept:
                yield from self._kept[shard]
                continue
            needed = size * len(self.landmarks) * self.landmarks.element_size()
            if needed > self._bytes_left or self._is_fused:
                yield from self._make(shard)
            else:
                self._bytes_left -= needed
                self._kept[shard] = list(self._make(shard))
                yield from self._kept[shard]

    def adjoint(self, values: Callable[[Tile, Block], Tensor]) -> Tensor:
        """K_nm^T diag(w) V / sum(w) [m, t] in float64, with V [n, t] = values(rows, block) computed block by block."""
        total: Tensor | None = None
        for tile, K in self.blocks():
            part = (values(tile, K) * tile.weight[:, None]).T @ K
            total = part.double() if total is None else total.add_(part)
        assert total is not None  # summarize has seen rows
        if self.group is not None:
            total = self.group.sum(total)
        return total.T / self.summary.total_weight

    def rows_of(self, coefficients: Tensor) -> Tensor:
        """Coefficients [m, t] transposed, in the dtype of the landmarks, as `scores` takes them."""
        return coefficients.T.to(self.landmarks).contiguous()

    def _make(self, shard: int) -> Iterator[tuple[Tile, Block]]:
        rows = read_encoded(self._source, shard, num_classes=self._num_classes)
        size = max(1, tile_size(BLOCK_ELEMENTS, self.landmarks.device) // len(self.landmarks))
        for tile in [rows] if self._is_fused else split_tile(rows, size):
            tile = Tile(*(part.to(self.landmarks) for part in tile))
            implicit = ImplicitBlock(self.kernel, tile.X, self.landmarks)
            yield tile, implicit if self._is_fused else self.kernel(tile.X, self.landmarks)


def fit_landmark_ridge(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    *,
    alpha: float | None = None,
    num_classes: int | None = None,
    tolerance: float = 1e-3,
    max_iterations: int = 100,
    memory_budget: int = 2**30,
    report: Report | None = None,
    group: Any = None,
    checkpoint_dir: Path | None = None,
    checkpoint_seconds: float = 60.0,
) -> LandmarkModel:
    """f = K_nm a + b with b the mean of y and a the minimum of

        ||K_nm a + b - Y||^2 / n + alpha a^T K_mm a    (means weighted by the rows' weights),

    that is (K_nm^T K_nm + n alpha K_mm) a = K_nm^T (Y - b), solved by conjugate gradients for all outputs at once.
    The preconditioner takes the m landmarks for the n rows: K_nm^T K_nm / n ~ K_mm^2 / m, with K_mm = L L^T and
    L^T L / m + alpha I = M M^T; for landmarks drawn uniformly from the rows and m of the order of 1 / alpha the
    iterations do not depend on n.

    kernel on landmarks [m, d]; y numbers [n] or [n, t], or class indices with `num_classes` (then one-hot, one against
    the rest). K_nm is kept while it fits `memory_budget` bytes and computed again in every iteration otherwise. Sums
    and factorisations are in float64, blocks of K_nm in the landmarks' dtype, unless K_mm is so close to singular and
    alpha so small that float32 could not resolve the solution: then in float64, and so is the model; on a GPU with
    fused products, which are those of float32, conjugate gradients are then restarted from residuals in float64.
    alpha None means k(x, x) / (5 n): least squares on labels with little noise needs less than 1 / n; choose it on
    validation rows where it matters. tolerance is the relative reduction of the preconditioned residual; a
    ConvergenceWarning is issued if `max_iterations` did not reach it.
    With a `checkpoint_dir`, the same call, made again, continues after the last iteration that was stored there: one
    every `checkpoint_seconds`, and the current one at SIGTERM or SIGINT. On a CPU the model is then the same.
    The processes of a `group` divide the shards of the source: each reads its own rows and computes its part of the
    sums, and all have the same model. They need a shard each, and have no checkpoints.
    O(m^3) once, O(n m (d + t)) per iteration (n m t where K_nm is kept); O(m^2) memory beside the budget.
    Source: Rudi, Carratino & Rosasco 2017 (Falkon).

    >>> from bochner.kernels import Gaussian; from bochner.data import ArraySource
    >>> X = torch.linspace(-2, 2, 200)[:, None]
    >>> model = fit_landmark_ridge(Gaussian(), X[::10], ArraySource(X, X[:, 0].sin()), alpha=1e-7)
    >>> bool((model.decision(X) - X.sin()).abs().max() < 1e-2)
    True
    """
    checks.positive_float("tolerance", tolerance)
    checks.positive_int("max_iterations", max_iterations)
    if group is not None:
        if checkpoint_dir is not None:
            raise ValueError(f"checkpoint_dir must be None with a group of processes, got {checkpoint_dir!r}.")
        source = OwnShards(source, group)
    options: dict[str, Any] = {"num_classes": num_classes, "memory_budget": memory_budget, "group": group}
    K, space, alpha = prepare(kernel, landmarks, source, LOSSES["squared"], alpha=alpha, **options)
    factor = space.factor_hessian(None, alpha)
    bias = K.summary.mean.to(K.landmarks)

    def hessian(K: CrossKernel, gamma: Tensor) -> Tensor:
        coefficients = K.rows_of(space.coefficients(gamma))
        return space.pull(K.adjoint(lambda _, block: scores(block, coefficients))) + alpha * gamma

    apply: Operator = partial(hessian, K)
    inputs = {}
    if checkpoint_dir is not None:
        inputs = checkpoint_inputs(K, source, alpha=alpha, tolerance=tolerance, max_iterations=max_iterations)
    rhs = space.pull(K.adjoint(lambda rows, _: rows.targets - bias))
    limits: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations, "report": report}
    if K.landmarks.dtype != landmarks.dtype and kernel.fused_products(landmarks) and checkpoint_dir is None:
        rough = partial(hessian, CrossKernel(kernel, landmarks, source, K.summary, **options))
        gamma, left = refined_conjugate_gradients(apply, rough, rhs, factor.solve_squared, **limits)
    else:
        with SolverCheckpoints(checkpoint_dir, inputs, seconds=checkpoint_seconds) as checkpoints:
            state, keep = _stored_iterate(checkpoints, rhs), partial(_keep_iterate, checkpoints)
            gamma, left = conjugate_gradients(apply, rhs, factor.solve_squared, **limits, state=state, keep=keep)
    if not left <= tolerance:
        limit, reached = f"max_iterations={max_iterations}", f"{left:.3g} of the residual left"
        remedy = "raise max_iterations, or raise alpha, which makes the problem easier"
        warn_stopped("conjugate gradients", limit=limit, reached=reached, tolerance=tolerance, remedy=remedy)
    return LandmarkModel(kernel, K.landmarks, space.coefficients(gamma).to(K.landmarks), bias)


def checkpoint_inputs(K: CrossKernel, source: Source, **settings: float) -> dict[str, Any]:
    """What must be equal for a checkpoint to be used: kernel, landmarks, all rows, settings."""
    tensors = {name: tensor.detach().cpu() for name, tensor in K.kernel.state_dict().items()}
    digest = checksum({"kernel": repr(K.kernel)}, {**tensors, "landmarks": K.landmarks.cpu()})
    return {"kernel and landmarks": digest, "rows": content_hashes(source), **settings}


def _keep_iterate(checkpoints: SolverCheckpoints, iterate: Iterate) -> None:
    iteration, *tensors = iterate
    checkpoints.keep(dict(zip(Iterate._fields[1:], tensors, strict=True)), {"iteration": iteration})


def _stored_iterate(checkpoints: SolverCheckpoints, rhs: Tensor) -> Iterate | None:
    """The state of conjugate gradients for this right-hand side in a checkpoint."""
    expected = {name: rhs[0] if name in ("energy", "start") else rhs for name in Iterate._fields[1:]}
    stored = checkpoints.read(expected, "iteration")
    return None if stored is None else Iterate(int(stored[1]["iteration"]), *stored[0].values())


def prepare(
    kernel: Kernel,
    landmarks: Tensor,
    source: Source,
    loss: Loss,
    *,
    alpha: float | None,
    num_classes: int | None,
    memory_budget: int,
    group: Any = None,
) -> tuple[CrossKernel, Whitening, float]:
    """K_nm, the landmarks' space, and alpha.

    Rounding errors eps of K_nm reach the preconditioned residual as eps / sqrt(alpha lambda), lambda the smallest
    eigenvalue of K_mm; where that is too much in the landmarks' dtype, K_nm is computed in float64.
    """
    checks.inputs("landmarks", landmarks, width=source.num_inputs)
    summary = summarize(source, num_classes=num_classes, group=group)
    space = Whitening(kernel, landmarks)
    if alpha is None:
        curvature = float(loss.curvature(loss.offset(summary.mean)[None]))
        alpha = curvature * space.amplitude / (ALPHA_ROWS * summary.num_rows)
    checks.positive_float("alpha", alpha)
    noise = torch.finfo(landmarks.dtype).eps / (alpha * space.smallest / space.amplitude**2) ** 0.5
    points = landmarks.double() if noise > ROUNDING else landmarks
    options: dict[str, Any] = {"num_classes": num_classes, "memory_budget": memory_budget, "group": group}
    K = CrossKernel(kernel, points, source, summary, **options)
    return K, space, alpha
