"""Tiles that bound memory, distances, conjugate gradients and eigenpairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

# Numbers in one tile of a large array (a block of features or of a kernel matrix), unless a module says otherwise:
# 16 MiB in float32. Matrix products reach full speed well below this size, and memory stays small beside the data.
TILE_ELEMENTS = 2**22
# Squared distances below this share of a squared length are computed from differences. Above it the relative error of
# the matrix product is at most 2^8 eps, 2e-5 in float32, and less than half a per cent of all pairs lie below it for
# points spread over three dimensions or more.
NEAR = 2.0**-8
# With more near pairs than this, differences of all pairs in one pass take less time than gathering the near ones.
MAX_NEAR_SHARE = 1 / 16
# Numbers in a tile of sums of powers, on a CPU (two of them fit its second-level cache) and on a GPU.
POWER_TILE = (2**17, 2**26)


def row_tiles(num_rows: int, *, row_elements: int, tile_elements: int) -> Iterator[slice]:
    """Slices that cover `num_rows`, each as many rows as fit into `tile_elements` (at least one).

    >>> list(row_tiles(5, row_elements=10, tile_elements=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, tile_elements // max(1, row_elements))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m].

    ||x||^2 + ||y||^2 - 2 x.y loses digits when the points lie far from the origin, so both are first moved by the
    mean of Y. Cost O(nmd).
    """
    center = Y.mean(dim=0)
    X, Y = X - center, Y - center
    squares = torch.addmm(Y.square().sum(dim=1), X, Y.T, alpha=-2)
    return squares.add_(X.square().sum(dim=1, keepdim=True)).clamp_min_(0)


def accurate_squared_distances(X: Tensor, Y: Tensor) -> Tensor:
    """||x_i - y_j||^2 for X [n, d] and Y [m, d], as [n, m], to a small relative error for near points as well.

    The matrix product in `squared_distances` leaves an error of about eps ||x||^2, which is all there is of the square
    when x and y coincide: a function such as r -> r^0.7 turns 1e-6 into 1e-2. Squares below NEAR ||x||^2 are therefore
    computed again from the differences x - y, exactly 0 for equal rows. Cost O(nmd), two arrays [n, m].

    >>> X = torch.tensor([[0.1, 0.3], [0.1, 0.3], [9.0, 7.0]])
    >>> accurate_squared_distances(X, X)[0, :2]
    tensor([0., 0.])
    """
    if len(X) == 1:  # as cheap from differences; and torch.vmap, which has no nonzero(), is used on single rows
        return (X - Y).square().sum(dim=1)[None]
    squares = squared_distances(X, Y)
    lengths = (X - Y.mean(dim=0)).detach().square().sum(dim=1, keepdim=True)
    near = squares.detach() < NEAR * lengths
    if torch.count_nonzero(near) > MAX_NEAR_SHARE * near.numel():
        del squares, near
        return torch.cdist(X, Y, compute_mode="donot_use_mm_for_euclid_dist").square()
    rows, columns = near.nonzero(as_tuple=True)
    # three arrays [pairs, d] at once, together less than one [n, m]
    pairs = max(1, squares.numel() // (4 * X.shape[1]))
    for i, j in zip(rows.split(pairs), columns.split(pairs), strict=True):
        squares = squares.index_put_((i, j), (X[i] - Y[j]).square().sum(dim=1))
    return squares


def power_sums(X: Tensor, Y: Tensor, power: float) -> Tensor:
    """sum_i |x_i - y_i|^power for X [n, d] and Y [m, d], as [n, m].

    Inputs that take two values l < h only in Y, such as one-hot columns, are one matrix product: their terms are
    |x_i - l|^power or |x_i - h|^power. The others take one pass each, in tiles that stay in a CPU's second-level cache.
    Cost O(nmd).

    >>> power_sums(torch.tensor([[0.0, 3.0]]), torch.tensor([[4.0, 3.0], [1.0, 2.0]]), 1.5)
    tensor([[8., 2.]])
    """
    if power == 2:
        return squared_distances(X, Y)
    low, high = Y.amin(dim=0), Y.amax(dim=0)
    is_high = high == Y
    two_valued = (is_high | (low == Y)).all(dim=0)
    sums = X.new_zeros(len(X), len(Y))
    if two_valued.any():
        x = X[:, two_valued]
        from_low, from_high = ((x - end[two_valued]).abs().pow(power) for end in (low, high))
        sums = torch.addmm(from_low.sum(dim=1, keepdim=True), from_high - from_low, is_high[:, two_valued].to(X).T)
        sums.clamp_min_(0)
    others = (~two_valued).nonzero()[:, 0]
    if len(others) == 0:
        return sums
    rows, columns = X.T[others], Y.T[others]
    if power == 1 and X.device.type == "cuda":
        return sums.add_(torch.cdist(rows.T, columns.T, p=1.0))
    for tile in row_tiles(len(X), row_elements=len(Y), tile_elements=POWER_TILE[X.device.type == "cuda"]):
        part = sums[tile]
        for x, y in zip(rows[:, tile], columns, strict=True):
            gap = (x[:, None] - y).abs_()
            if power == 1:
                part += gap
            elif power == 0.5:
                part += gap.sqrt_()
            elif power == 1.5:
                part.addcmul_(gap, gap.sqrt())
            else:
                part += gap.log2_().mul_(power).exp2_()  # a third of the time of torch.pow
    return sums


def warn_stopped(solver: str, *, limit: str, reached: str, tolerance: float, remedy: str) -> None:
    """A ConvergenceWarning at the call of the solver that calls this function."""
    message = f"{solver} stopped at {limit} with {reached}, tolerance {tolerance:g}: {remedy}."
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


Operator = Callable[[Tensor], Tensor]
Report = Callable[[int, float], None]
"""Called with the iteration, from 1, and the remaining relative residual."""


class Solution(NamedTuple):
    """X [m, t], and the remaining relative residual (preconditioned norm) of the worst column."""

    X: Tensor
    left: float


def conjugate_gradients(
    apply: Operator,
    rhs: Tensor,
    precondition: Operator,
    *,
    tolerance: float,
    max_iterations: int,
    report: Report | None = None,
) -> Solution:
    """X with H X = rhs for positive definite H and rhs [m, t]; each column has its own step sizes.

    `apply` multiplies by H, `precondition` by an approximate inverse P of H. Stops when sqrt(r^T P r) has fallen by
    `tolerance` in every column. After k steps the error is at most 2 ((sqrt(c) - 1) / (sqrt(c) + 1))^k times the first,
    c the condition number of P H. Cost: one product with H and one with P per step.
    Source: Hestenes & Stiefel 1952; Saad 2003, Section 9.2.

    >>> H = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda V: H @ V, torch.ones(2, 1), lambda R: R, tolerance=1e-6, max_iterations=9).X
    tensor([[0.4000],
            [0.2000]])
    """
    solution, residual = torch.zeros_like(rhs), rhs
    image = direction = precondition(residual)
    start = energy = (residual * image).sum(dim=0)
    left = 1.0
    for iteration in range(1, max_iterations + 1):
        product = apply(direction)
        step = _ratio(energy, (direction * product).sum(dim=0))
        solution = solution + step * direction
        residual = residual - step * product  # not in place: `precondition` may return its argument
        image = precondition(residual)
        previous, energy = energy, (residual * image).sum(dim=0)
        direction = image + _ratio(energy, previous) * direction
        left = float(_ratio(energy, start).max().sqrt())
        if report is not None:
            report(iteration, left)
        if left <= tolerance:
            break
    return Solution(solution, left)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 for 0 / 0: a solved column does not change."""
    return torch.where(below > 0, above / below, 0.0)


# Of the randomised decomposition: extra columns, and rounds of subspace iteration. Halko et al. advise 5 to 10 extra
# columns and few rounds; four rounds (K^5) suit the slowly decaying spectra of kernel matrices.
OVERSAMPLING = 10
POWER_ROUNDS = 4


def top_eigenpairs(K: Tensor, count: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """The `count` largest eigenvalues [D], descending, and eigenvectors [m, D] of a positive semi-definite K [m, m].

    For more than a third of them the exact decomposition, O(m^3); for fewer a randomised one, O(m^2 D), on the range of
    K^5 times a Gaussian matrix. Source: Halko, Martinsson & Tropp 2011; for Nystrom, Li et al. 2010.
    """
    if count > len(K) // 3:
        values, vectors = torch.linalg.eigh(K)
        return values.flip(0)[:count], vectors.flip(1)[:, :count]
    shape = (len(K), count + OVERSAMPLING)
    normals = torch.randn(shape, generator=generator, device=generator.device, dtype=K.dtype)
    Q = torch.linalg.qr(K @ normals.to(K.device)).Q
    for _ in range(POWER_ROUNDS):
        Q = torch.linalg.qr(K @ Q).Q
    values, small = torch.linalg.eigh(Q.T @ K @ Q)
    return values.flip(0)[:count], (Q @ small).flip(1)[:, :count]
