"""Low-rank factors of a kernel matrix, by alternating least squares and by pivoted Cholesky: seconds and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

from benchmarks.data import median_bandwidth, points
from benchmarks.report import Row
from benchmarks.suite import peers
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner.kernels import Gaussian
from bochner.lowrank import fit_als, fit_pivoted_cholesky

ROUNDS, RIDGE = 3, 0.5
SEEDS, CHECKED = 3, 1000
Root = Callable[[Gaussian, Tensor, int, int], Tensor]  # kernel, points, rank, seed


def rows(sizes: Sizes) -> Iterator[Row]:
    inputs = points(sizes.factor_points, sizes.inputs)
    X, kernel = torch.from_numpy(inputs).to(sizes.device), Gaussian(bandwidth=median_bandwidth(inputs))
    table = f"Factors of rank {sizes.factor_rank}, {sizes.factor_points:,} points"
    ours: dict[str, Root] = {"fit_als": als_root, "fit_pivoted_cholesky": cholesky_root}
    theirs: dict[str, Root] = {f"{PLAIN}: on all of K": plain_als}
    if peers.has("GPyTorch"):
        theirs["GPyTorch: pivoted Cholesky"] = gpytorch_root
    ways = {**ours, **theirs}
    runs = {name: (lambda way=way: way(kernel, X, sizes.factor_rank, 0)) for name, way in ways.items()}
    yield from race(table, {name: runs.pop(name) for name in ours}, runs, sizes, repeats=sizes.slow_repeats)
    errors = {name: _errors(way, kernel, X, sizes.factor_rank) for name, way in ways.items()}
    note = f"||K - U Uᵀ|| / ||K|| in spectral norm on {CHECKED:,} random points, {SEEDS} seeds."
    for case in ours:
        yield from (Row(f"{table}: error", case, peer, "error", errors[case], errors[peer], note) for peer in theirs)


def als_root(kernel: Gaussian, X: Tensor, rank: int, seed: int) -> Tensor:
    return fit_als(kernel, X, rank=rank, rounds=ROUNDS, generator=Generator().manual_seed(seed)).root


def cholesky_root(kernel: Gaussian, X: Tensor, rank: int, seed: int) -> Tensor:
    """Random pivots, and no more of K than their columns."""
    return fit_pivoted_cholesky(kernel, X, rank=rank, generator=Generator().manual_seed(seed)).root


def plain_als(kernel: Gaussian, X: Tensor, rank: int, seed: int) -> Tensor:
    """Rounds of U <- (U + V) / 2 with ridge regressions on all of K, starting from columns of K."""
    K = kernel(X)
    chosen = torch.randperm(len(X), generator=Generator().manual_seed(seed))[:rank].to(X.device)
    values, vectors = torch.linalg.eigh(K[chosen][:, chosen].double())
    U = K[:, chosen] @ (vectors / values.clamp_min(1e-6).sqrt()).to(K)
    for _ in range(ROUNDS):
        gram = U.T @ U + RIDGE * torch.eye(rank, dtype=U.dtype, device=U.device)
        U = (U + torch.linalg.solve(gram, U.T @ K).T) / 2
    return U


def gpytorch_root(kernel: Gaussian, X: Tensor, rank: int, seed: int) -> Tensor:
    from linear_operator import pivoted_cholesky, to_linear_operator

    return pivoted_cholesky(to_linear_operator(kernel(X)), rank=rank)


def _errors(way: Root, kernel: Gaussian, X: Tensor, rank: int) -> list[float]:
    """Errors on random points, as in the thesis, different for each seed."""
    return [_error(way(kernel, X, rank, seed), kernel, X, seed) for seed in range(SEEDS)]


def _error(U: Tensor, kernel: Gaussian, X: Tensor, seed: int) -> float:
    chosen = torch.randperm(len(X), generator=Generator().manual_seed(seed))[:CHECKED].to(X.device)
    K, rows = kernel(X[chosen].double()), U[chosen].double()
    left, whole = (torch.linalg.eigvalsh(matrix).abs().max() for matrix in (K - rows @ rows.T, K))
    return float(left / whole)
