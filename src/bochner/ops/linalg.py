"""Tiles that bound memory, conjugate gradients and eigenpairs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

# Numbers in one tile of a large array (a block of features or of a kernel matrix), unless a module says otherwise:
# 16 MiB in float32. Matrix products reach full speed well below this size, and memory stays small beside the data.
TILE_ELEMENTS = 2**22
# Tiles on a GPU are larger by this factor, 256 MiB in float32: computing one then takes far longer than launching it.
GPU_TILES = 16


def tile_size(elements: int, device: torch.device) -> int:
    """The number of elements in a tile on `device` that corresponds to `elements` on a CPU.

    >>> tile_size(100, torch.device("cpu")), tile_size(100, torch.device("cuda"))
    (100, 1600)
    """
    return elements * GPU_TILES if device.type == "cuda" else elements


def row_tiles(num_rows: int, *, row_elements: int, tile_elements: int) -> Iterator[slice]:
    """Slices that cover `num_rows`, each as many rows as fit into `tile_elements` (at least one).

    >>> list(row_tiles(5, row_elements=10, tile_elements=25))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, tile_elements // max(1, row_elements))
    for start in range(0, num_rows, step):
        yield slice(start, min(start + step, num_rows))


def warn_stopped(solver: str, *, limit: str, reached: str, tolerance: float, remedy: str) -> None:
    """Issue a ConvergenceWarning that points to the call of the solver."""
    message = f"{solver} stopped at {limit} with {reached}, tolerance {tolerance:g}: {remedy}."
    warnings.warn(message, ConvergenceWarning, stacklevel=3)


Operator = Callable[[Tensor], Tensor]
Report = Callable[[int, float], None]
"""Called with the iteration, from 1, and the remaining relative residual."""


class Iterate(NamedTuple):
    """The state of conjugate gradients after an iteration: X, residual and direction [m, t], energies [t]."""

    iteration: int
    solution: Tensor
    residual: Tensor
    direction: Tensor
    energy: Tensor
    start: Tensor


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
    state: Iterate | None = None,
    keep: Callable[[Iterate], None] | None = None,
) -> Solution:
    """X with H X = rhs for positive definite H and rhs [m, t]; each column has its own step sizes.

    `apply` multiplies by H, `precondition` by an approximate inverse P of H. Stops when sqrt(r^T P r) has fallen by
    `tolerance` in every column. After k steps the error is at most 2 ((sqrt(c) - 1) / (sqrt(c) + 1))^k times the first,
    c the condition number of P H. Cost: one product with H and one with P per step. `keep` gets the state after each
    step but the last; a call with that `state` continues there.
    Source: Hestenes & Stiefel 1952; Saad 2003, Section 9.2.

    >>> H = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    >>> conjugate_gradients(lambda V: H @ V, torch.ones(2, 1), lambda R: R, tolerance=1e-6, max_iterations=9).X
    tensor([[0.4000],
            [0.2000]])
    """
    if state is None:
        rhs = rhs.contiguous()  # as in a stored state: the rounding of products depends on the layout of their operands
        image = precondition(rhs)
        energy = (rhs * image).sum(dim=0)
        state = Iterate(0, torch.zeros_like(rhs), rhs, image.contiguous(), energy, energy)
    first, solution, residual, direction, energy, start = state
    left = float(_ratio(energy, start).max().sqrt())
    for iteration in range(first + 1, max_iterations + 1):
        product = apply(direction)
        step = _ratio(energy, (direction * product).sum(dim=0))
        solution = solution + step * direction
        residual = (residual - step * product).contiguous()  # not in place: `precondition` may return its argument
        image = precondition(residual)
        previous, energy = energy, (residual * image).sum(dim=0)
        direction = (image + _ratio(energy, previous) * direction).contiguous()
        left = float(_ratio(energy, start).max().sqrt())
        if report is not None:
            report(iteration, left)
        if left <= tolerance:
            break
        if keep is not None:
            keep(Iterate(iteration, solution, residual, direction, energy, start))
    return Solution(solution, left)


# Residuals by rough products are not trusted below this part; they get this share of the iterations, and end with a
# restart that leaves more than half of the residual.
ROUGH_TOLERANCE, ROUGH_SHARE, MAX_LEFT = 1e-2, 0.25, 0.5


def refined_conjugate_gradients(
    apply: Operator,
    rough: Operator,
    rhs: Tensor,
    precondition: Operator,
    *,
    tolerance: float,
    max_iterations: int,
    report: Report | None = None,
) -> Solution:
    """`conjugate_gradients` with products `rough`, restarted from residuals by `apply`, their exact counterpart.

    As many products by `apply` as there are restarts, usually two. Where rough products are too rough for a restart to
    halve the residual, exact ones finish the work.
    Source: Higham 2002, Chapter 12 (iterative refinement).

    >>> H = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    >>> options = {"tolerance": 1e-6, "max_iterations": 50}
    >>> rhs = torch.ones(2, 1, dtype=torch.float64)
    >>> refined_conjugate_gradients(lambda V: H @ V, lambda V: 1.1 * H @ V, rhs, lambda R: R, **options).X
    tensor([[0.4000],
            [0.2000]], dtype=torch.float64)
    """
    start = (rhs * precondition(rhs)).sum(dim=0)
    solution, residual, left, used = torch.zeros_like(rhs), rhs, 1.0, 0

    def count(iteration: int, part: float) -> None:
        nonlocal used
        used += 1
        if report is not None:
            report(used, part * left)

    is_rough = True
    while used < max_iterations and left > tolerance:
        part = max(ROUGH_TOLERANCE if is_rough else 0.0, tolerance / left / 2)
        limit = max(1, int((ROUGH_SHARE if is_rough else 1.0) * (max_iterations - used)))
        limits: dict[str, Any] = {"tolerance": part, "max_iterations": limit, "report": count}
        step = conjugate_gradients(rough if is_rough else apply, residual, precondition, **limits).X
        tried = rhs - apply(solution + step)
        now = float(_ratio((tried * precondition(tried)).sum(dim=0), start).max().sqrt())
        if now < left:
            solution, residual = solution + step, tried
        is_rough = is_rough and now < MAX_LEFT * left
        left = min(left, now)
    return Solution(solution, left)


def _ratio(above: Tensor, below: Tensor) -> Tensor:
    """above / below, and 0 for 0 / 0: a solved column does not change."""
    return torch.where(below > 0, above / below, 0.0)


# Extra columns and rounds of subspace iteration of the randomised decomposition. Halko et al. advise 5 to 10 extra
# columns and few rounds; four rounds (K^5) suit the slowly decaying spectra of kernel matrices.
OVERSAMPLING = 10
POWER_ROUNDS = 4


def top_eigenpairs(K: Tensor, count: int, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """The `count` largest eigenvalues [D], descending, and eigenvectors [m, D] of a positive semi-definite K [m, m].

    More than a third of them are computed exactly, O(m^3); fewer by a randomised decomposition, O(m^2 D), on the range
    of K^5 times a Gaussian matrix. Source: Halko, Martinsson & Tropp 2011; for Nystrom, Li et al. 2010.
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
