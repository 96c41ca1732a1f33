"""Kernel least squares on all rows: one factorisation, or one for each part of a partition; leave-one-out residuals."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.data.blocks import Source
from bochner.kernels import Kernel
from bochner.models.landmarks import LandmarkModel
from bochner.models.partition import PartitionedModel
from bochner.ops import row_tiles
from bochner.ops.linalg import conjugate_gradients
from bochner.solvers.landmarks import ALPHA_ROWS, ROUNDING
from bochner.solvers.rows import OwnShards, Tile, read_encoded, summarize

logger = logging.getLogger(__name__)

# Up to this many rows a factorisation in float64 takes 20 ms of a CPU; beyond, float32 takes 0.4 of its time.
DOUBLE_ROWS = 1000
# Leave-one-out residuals are computed for this many rows: their quantiles are then known to a per cent.
LEAVE_OUT_ROWS = 2000
REFINED = 1e-10  # of the preconditioned residual, at which refinement ends
MIN_REFINEMENTS = 8  # steps that are tried at least
JITTER_ATTEMPTS = 6  # tenfold each: from the rounding of K in float64 to 1e-11 n of its diagonal
DIVIDED_COLUMNS = 512  # of a block of the factor, where several processes compute it
# A part is split where both sides get at least this share of its rows, which bounds the depth of the tree.
MIN_SHARE = 1 / 16
NUM_COMPONENTS = 4  # along which a split is tried


class ExactFit(NamedTuple):
    """A model, and the rows [r] whose leave-one-out predictions [r, t] are known."""

    model: nn.Module
    rows: Tensor
    left_out: Tensor


def fit_exact(
    kernel: Kernel,
    X: Tensor,
    Y: Tensor,
    *,
    alpha: float,
    weight: Tensor | None = None,
    num_left_out: int | None = None,
) -> ExactFit:
    """f = K a + b with b the weighted mean of Y [n, t] and (K + alpha W^{-1}) a = Y - b, W = diag(weight).

    alpha is the variance of the noise where k(x, x) = 1 is that of the function: it does not depend on n. A row of
    weight 2 counts as two equal rows.

    `left_out` are the predictions for row i of the model fitted to all other rows, as if it had been: with
    A = K + alpha W^{-1}, c = A^{-1} 1 and the mean b_i of the other rows, they are
    y_i - (a_i + (b - b_i) c_i) / (A^{-1})_ii. With A = L L^T the diagonal of A^{-1} for the last m rows needs the
    trailing m x m block of L only, O(m^3 / 3). They are given for the last `num_left_out` rows, 2,000 by default; X
    must be in random order for these to be a sample.

    One matrix [n, n], factorised in place, in O(n^3 / 3 + n^2 d / 2). In float64 up to 1,000 rows and in float32
    beyond, unless float32 does not resolve the solution (a small alpha and a smooth kernel): then in float64, or, with
    `num_left_out` 0, by refinement of the float32 solution. Refinement takes half the memory: conjugate gradients with
    the float32 factor as preconditioner and residuals in float64, from kernel values that are computed again in every
    step, end at a residual of 1e-10 of the targets; where the steps that cost as much as a factorisation in float64
    do not reach it, that is done. The model has X's dtype where that resolves it, else float64. If even float64 fails,
    the rounding of K is added to alpha, and more if need be, with a warning.
    Source of the refinement: Carson & Higham 2018; Higham & Mary 2022.

    >>> from bochner.kernels import PowerExponential
    >>> X = torch.linspace(-2, 2, 50)[:, None]
    >>> fit = fit_exact(PowerExponential(exponent=2.0), X, X.sin(), alpha=1e-4)
    >>> bool((fit.left_out - X[fit.rows].sin()).abs().max() < 1e-2)
    True
    """
    checks.positive_float("alpha", alpha)
    n = _check_rows(X, Y, weight)
    w = torch.ones(n, dtype=torch.float64, device=X.device) if weight is None else weight.double()
    bias = (Y.double() * w[:, None]).sum(dim=0) / w.sum()
    residual = Y.double() - bias
    limit = LEAVE_OUT_ROWS if num_left_out is None else checks.nonnegative_int("num_left_out", num_left_out)
    m = min(n, limit) if n > 1 else 0  # a single row leaves no model
    targets = torch.cat([residual, torch.ones_like(w)[:, None]], dim=1)
    # the diagonal of A^{-1} needs a factor that resolves the solution itself
    factor, solution, dtype = _solve(kernel, X, targets, alpha, w, refines=limit == 0)
    coefficients = solution[:, :-1]
    last = slice(n - m, n)
    identity = torch.eye(m, dtype=factor.dtype, device=X.device)
    inverse = torch.linalg.solve_triangular(factor[last, last], identity, upper=False).square_().sum(dim=0)
    del factor
    shift = residual[last] * (w[last] / (w.sum() - w[last]))[:, None]  # b - b_i
    corrected = (coefficients[last] + shift * solution[last, -1:]).double()
    left_out = Y[last].double() - corrected / inverse.double()[:, None]
    points = X.to(dtype)
    model = LandmarkModel(kernel, points, coefficients.to(points), bias.to(points))
    return ExactFit(model, torch.arange(n - m, n, device=X.device), left_out)


def fit_exact_ridge(
    kernel: Kernel,
    source: Source,
    *,
    alpha: float | None = None,
    num_classes: int | None = None,
    group: Any = None,
) -> LandmarkModel:
    """What `fit_landmark_ridge` minimises, with all rows as landmarks; arguments as there.

    f = K a + b with b the mean of y and (K + sum(w) alpha W^{-1}) a = Y - b for the rows' weights w: `fit_exact` with
    an alpha that is a penalty on a mean over the rows. O(n^3 / 3 + n^2 d / 2) time; one matrix [n, n]. With a `group`
    of R processes each reads its own shards, holds an R-th of the matrix, in float64, and takes an R-th of the time;
    the model is that of one process.

    >>> from bochner.kernels import Gaussian; from bochner.data import ArraySource
    >>> X = torch.linspace(-2, 2, 50)[:, None]
    >>> model = fit_exact_ridge(Gaussian(), ArraySource(X, X[:, 0].sin()), alpha=1e-7)
    >>> bool((model.decision(X) - X.sin()).abs().max() < 1e-3)
    True
    """
    X, Y, weight, shift = gather_rows(kernel, source, alpha=alpha, num_classes=num_classes, group=group)
    if group is not None:
        return _fit_divided(kernel, X, Y, weight.double(), shift, group)
    model = fit_exact(kernel, X, Y, alpha=shift, weight=weight, num_left_out=0).model
    assert isinstance(model, LandmarkModel)
    return model


class GatheredRows(NamedTuple):
    """Rows of positive weight in memory: X [n, d], targets [n, t], weight [n]; and the penalty sum(w) alpha."""

    X: Tensor
    Y: Tensor
    weight: Tensor
    shift: float


def gather_rows(
    kernel: Kernel, source: Source, *, alpha: float | None, num_classes: int | None, group: Any = None
) -> GatheredRows:
    """All rows of a source; alpha None means k(x, x) / (5 n), as for landmarks.

    With a `group`, each process reads its own shards and gets the others' from their processes.
    """
    own = source if group is None else OwnShards(source, group)
    summary = summarize(own, num_classes=num_classes, group=group)
    shards = [read_encoded(own, shard, num_classes=num_classes) for shard in range(len(own.shard_sizes))]
    if group is not None:
        shards = _exchanged(shards, source, group)
    X, Y, weight = (torch.cat(parts) for parts in zip(*shards, strict=True))
    checks.finite("k(x, x)", kernel.diagonal(X))
    if alpha is None:
        alpha = float(kernel.diagonal(X).mean()) / (ALPHA_ROWS * summary.num_rows)
    kept = weight > 0
    shift = summary.total_weight * checks.positive_float("alpha", alpha)
    return GatheredRows(X[kept], Y[kept], weight[kept], shift)


def _exchanged(own: list[Tile], source: Source, group: Any) -> list[Tile]:
    """The shards of all processes in the order of the source, from those of this process."""
    like, widths = own[0].X, [own[0].X.shape[1], own[0].targets.shape[1], 1]
    shards = []
    for number, size in enumerate(source.shard_sizes):
        if number % group.num_shares == group.share_number:
            tile = own[number // group.num_shares]
            rows = torch.cat([tile.X, tile.targets, tile.weight[:, None]], dim=1)
        else:
            rows = like.new_zeros(size, sum(widths))
        X, targets, weight = group.sum(rows).split(widths, dim=1)
        shards.append(Tile(X, targets, weight[:, 0]))
    return shards


def _check_rows(X: Tensor, Y: Tensor, weight: Tensor | None) -> int:
    checks.inputs("X", X)
    if Y.ndim != 2 or len(Y) != len(X) or len(X) == 0:
        raise ValueError(
            f"Y must have shape [n, t] for X [n, d] with n > 0, got {tuple(Y.shape)} and {tuple(X.shape)}."
        )
    if weight is not None and (weight.shape != X.shape[:1] or not bool((weight > 0).all() & weight.isfinite().all())):
        raise ValueError("weight must hold one positive finite number per row; leave out rows of weight 0.")
    return len(X)


def _solve(
    kernel: Kernel, X: Tensor, targets: Tensor, alpha: float, w: Tensor, *, refines: bool
) -> tuple[Tensor, Tensor, torch.dtype]:
    """L, A^{-1} targets, and the dtype that a model of all targets but the last column needs."""
    scale = len(X) * float(kernel.diagonal(X).mean())
    attempts = [(torch.float64, jitter) for jitter in _jitters(scale)]
    if len(X) > DOUBLE_ROWS:
        shifts = (0.0, torch.finfo(torch.float32).eps * scale / 8) if refines else (0.0,)
        attempts = [*((torch.float32, shift) for shift in shifts), *attempts]
    resolved = ROUNDING * float(targets[:, :-1].norm()) / len(X) ** 0.5
    for dtype, jitter in attempts:
        points = X.to(dtype)
        diagonal = kernel.diagonal(points)
        factor = _factorise(kernel, points, diagonal + (alpha / w + jitter).to(dtype))
        if factor is None:
            continue
        half = torch.linalg.solve_triangular(factor, targets.to(dtype), upper=False)
        solution = torch.linalg.solve_triangular(factor.mT, half, upper=True)
        # K a in float32 is off by about eps k(x, x) ||a||
        noise = torch.finfo(torch.float32).eps * float(diagonal.mean()) * float(solution[:, :-1].norm())
        if dtype == torch.float32 and (jitter or not noise <= resolved):
            refined = _refine(kernel, X.double(), targets, alpha / w, factor) if refines else None
            if refined is not None:
                return factor, refined, torch.float64
            del factor
            continue
        if jitter:
            logger.warning("alpha=%g is too small for %r on %d rows: %g is added", alpha, kernel, len(X), jitter)
        return factor, solution, X.dtype if noise <= resolved else torch.float64
    raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on the rows.")


def _jitters(scale: float) -> list[float]:
    """What may be added to the diagonal of K in float64, whose rounding is eps scale."""
    rounding = torch.finfo(torch.float64).eps * scale
    return [0.0, *(rounding * 10.0**power for power in range(JITTER_ATTEMPTS))]


def _fit_divided(kernel: Kernel, X: Tensor, Y: Tensor, w: Tensor, alpha: float, group: Any) -> LandmarkModel:
    """`fit_exact` without leave-one-out predictions, by the processes of `group`."""
    bias = (Y.double() * w[:, None]).sum(dim=0) / w.sum()
    targets, points, diagonal = Y.double() - bias, X.double(), kernel.diagonal(X).double()
    for jitter in _jitters(len(X) * float(diagonal.mean())):
        solution = _solve_divided(kernel, points, diagonal + alpha / w + jitter, targets, group)
        if solution is None:
            continue
        if jitter:
            logger.warning("alpha=%g is too small for %r on %d rows: %g is added", alpha, kernel, len(X), jitter)
        noise = torch.finfo(torch.float32).eps * float(diagonal.mean()) * float(solution.norm())
        points = X if noise <= ROUNDING * float(targets.norm()) / len(X) ** 0.5 else points
        return LandmarkModel(kernel, points, solution.to(points), bias.to(points))
    raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on the rows.")


def _solve_divided(kernel: Kernel, X: Tensor, diagonal: Tensor, targets: Tensor, group: Any) -> Tensor | None:
    """A^{-1} targets for A = K with the given diagonal, or None if A is not positive definite to rounding.

    L with L L^T = A is computed in blocks of columns, of which every R-th is this process's. A finished block is sent
    to all processes, which subtract its part from theirs: n^2 / 2 numbers are sent in all.
    """
    n, shares = len(X), group.num_shares
    width = max(1, min(DIVIDED_COLUMNS, n // (4 * shares)))
    blocks = list(row_tiles(n, row_elements=1, tile_elements=width))
    panels: dict[int, Tensor] = {}
    for number in range(group.share_number, len(blocks), shares):
        block = blocks[number]
        panels[number] = kernel(X[block.start :], X[block])
        panels[number][: block.stop - block.start].diagonal().copy_(diagonal[block])
    solution = targets.clone()
    for number, block in enumerate(blocks):
        size = block.stop - block.start
        if number in panels:
            panel = panels[number]
            corner, failed = torch.linalg.cholesky_ex(panel[:size])
            below = torch.linalg.solve_triangular(corner, panel[size:].T, upper=False).T
            panel = panels[number] = torch.cat([corner, below])
            panel = torch.full_like(panel, torch.nan) if int(failed) else panel.clone()
        else:
            panel = X.new_zeros(n - block.start, size)
        panel = group.sum(panel)
        if not torch.isfinite(panel).all():
            return None
        for later in panels:
            if later > number:
                start, stop = blocks[later].start - block.start, blocks[later].stop - block.start
                panels[later] -= panel[start:] @ panel[start:stop].T
        solution[block] = torch.linalg.solve_triangular(panel[:size], solution[block], upper=False)
        solution[block.stop :] -= panel[size:] @ solution[block]
    for number, block in reversed(list(enumerate(blocks))):
        part = torch.zeros_like(solution[block])
        if number in panels:
            corner, below = panels[number].split([len(part), n - block.stop])
            rest = solution[block] - below.T @ solution[block.stop :]
            part = torch.linalg.solve_triangular(corner.T, rest, upper=True)
        solution[block] = group.sum(part.contiguous())  # processes add numbers in the order of memory
    return solution


def _refine(kernel: Kernel, X: Tensor, targets: Tensor, shifts: Tensor, factor: Tensor) -> Tensor | None:
    """(K + diag(shifts))^{-1} targets in float64, with a float32 factor L of about that matrix; None if it is too far.

    A step computes n^2 values of the kernel, each in the time of about 2 (d + t + 50) operations of a factorisation, in
    which n / 3 fall to each: as many steps are allowed as cost half of one in float64.
    """
    steps = max(MIN_REFINEMENTS, len(X) // (12 * (X.shape[1] + targets.shape[1] + 50)))

    def precondition(residual: Tensor) -> Tensor:
        size = residual.abs().amax(dim=0).clamp_min(torch.finfo(torch.float64).tiny)  # beyond the range of float32
        half = torch.linalg.solve_triangular(factor, (residual / size).float(), upper=False)
        return torch.linalg.solve_triangular(factor.mT, half, upper=True).double() * size

    solution, left = conjugate_gradients(
        lambda V: kernel.matmul(X, X, V) + shifts[:, None] * V,
        targets,
        precondition,
        tolerance=REFINED,
        max_iterations=steps,
    )
    logger.info("float32 does not resolve alpha on %d rows: refined to %.3g of the residual", len(X), left)
    return solution if left <= REFINED else None


def _factorise(kernel: Kernel, X: Tensor, diagonal: Tensor) -> Tensor | None:
    """L with L L^T = K and the given diagonal, or None; in the memory of K, of which one half is computed."""
    n = len(X)
    K, U = X.new_empty(n, n), kernel.prepare(X)
    rows = min(2**24 // n, max(64, n // 16))  # narrow blocks, which waste little beside the diagonal
    for tile in row_tiles(n, row_elements=1, tile_elements=rows):
        K[tile, tile.start :] = kernel.values(U[tile], U[tile.start :])
    K.diagonal().copy_(diagonal)
    transposed = K.mT  # in LAPACK's order, which is factorised in place
    failed = torch.empty((), dtype=torch.int32, device=X.device)
    torch.linalg.cholesky_ex(transposed, out=(transposed, failed))
    return None if int(failed) else transposed


def fit_partition(
    kernel: Kernel, X: Tensor, Y: Tensor, *, alpha: float, max_rows: int, weight: Tensor | None = None
) -> ExactFit:
    """`fit_exact` on each part of a partition of the rows into parts of at most `max_rows`.

    A part is split near the median of its rows along their first principal component, as the kernel sees them (scaled,
    or under its metric), until it is small enough; along one of the next components where too many rows coincide in the
    first. Rows that coincide in all of them are halved, and new rows of that kind go to the left half.
    O(n max_rows^2 / 3) for the factorisations and one matrix [max_rows, max_rows]. Rows near a boundary lose the
    neighbours beyond it: the price for n rows at once. Leave-one-out predictions are those of the parts, of each part
    as large a share as of all rows. Source: Beaglehole et al. 2025 (xRFM) split in the same way.
    """
    n, max_rows = _check_rows(X, Y, weight), checks.positive_int("max_rows", max_rows)
    if n <= max_rows:
        return fit_exact(kernel, X, Y, alpha=alpha, weight=weight)
    directions: list[Tensor] = []
    thresholds: list[float] = []
    branches: list[list[int]] = []
    leaves: list[Tensor] = []
    pending = [(torch.arange(n, device=X.device), -1, 0)]  # rows, and the node and side they hang from
    while pending:
        rows, parent, side = pending.pop()
        is_leaf = len(rows) <= max_rows
        if parent >= 0:
            branches[parent][side] = -1 - len(leaves) if is_leaf else len(branches)
        if is_leaf:
            leaves.append(rows)
            continue
        split = _split(kernel, X[rows])
        pending += [(rows[split.right], len(branches), 1), (rows[~split.right], len(branches), 0)]
        directions.append(split.direction)
        thresholds.append(split.threshold)
        branches.append([0, 0])
    fits = [
        fit_exact(
            kernel,
            X[rows],
            Y[rows],
            alpha=alpha,
            weight=None if weight is None else weight[rows],
            num_left_out=-(-LEAVE_OUT_ROWS * len(rows) // n),
        )
        for rows in leaves
    ]
    model = PartitionedModel(
        torch.stack(directions),
        torch.tensor(thresholds, dtype=X.dtype, device=X.device),
        torch.tensor(branches, device=X.device),
        [fit.model for fit in fits],
    )
    left_out = torch.cat([fit.left_out for fit in fits])
    return ExactFit(model, torch.cat([rows[fit.rows] for rows, fit in zip(leaves, fits, strict=True)]), left_out)


class _Split(NamedTuple):
    """Rows x with x . direction > threshold, which `right` [n] marks unless rows that coincide had to be halved."""

    direction: Tensor
    threshold: float
    right: Tensor


def _split(kernel: Kernel, X: Tensor) -> _Split:
    n = len(X)
    prepared = kernel.prepare(X)
    centred = (prepared - prepared.mean(dim=0)).double()
    components = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -NUM_COMPONENTS:].flip(1)
    counts = torch.arange(1, n, device=X.device)  # rows to the left of each gap
    halves: _Split | None = None
    for direction in kernel.fold(components.to(X)).T.contiguous():
        places = X @ direction
        ordered, order = places.sort(stable=True)
        # a gap that rounding can close is none: a row must go to the same side in every batch
        rounding = 8 * torch.finfo(X.dtype).eps * float((X.abs() @ direction.abs()).max())
        off = torch.where(ordered.diff() > rounding, (counts - n / 2).abs(), n)
        gap = int(off.argmin())
        if float(off[gap]) <= (0.5 - MIN_SHARE) * n:
            threshold = float((ordered[gap] + ordered[gap + 1]) / 2)
            return _Split(direction, threshold, places > threshold)
        if halves is None:
            right = torch.zeros(n, dtype=torch.bool, device=X.device)
            right[order[n // 2 :]] = True
            halves = _Split(direction, float(ordered[n // 2]) + rounding, right)
    assert halves is not None
    return halves
