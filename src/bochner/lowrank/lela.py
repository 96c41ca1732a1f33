"""LELA, leveraged element low-rank approximation of any matrix from a sample of its entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks import uniform_sample
from bochner.features.projections import frozen
from bochner.lowrank.als import OVERSAMPLING, POWER_ROUNDS, sampled_error, solve_rows
from bochner.lowrank.sampling import Entries, Samples
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.storage import Storable

EntryOracle = Callable[[Tensor, Tensor], Tensor]
"""entries(i, j): the entries [q] at row and column indices [q]."""
Report = Callable[[int, float], None]
"""report(round, error): round 0 is the start; the error is relative, over the sampled entries."""

# Entries evaluated at once: 24 MiB of two int64 indices and a float64 value each.
ENTRY_ELEMENTS = TILE_ELEMENTS // 4
# Random rows and columns on whose submatrix the rounds are compared.
CHECK_POINTS = 256


class TwoSidedFactor(Storable):
    """M ~ U V^T for a matrix of any shape: left U [n, r], right V [m, r].

    >>> factor = TwoSidedFactor(torch.ones(3, 1), torch.tensor([[1.0], [2.0]]))
    >>> factor.entries(torch.tensor([0, 2]), torch.tensor([0, 1]))
    tensor([1., 2.])
    """

    def __init__(self, left: Tensor, right: Tensor) -> None:
        super().__init__()
        checks.inputs("right", right, width=checks.inputs("left", left).shape[1])
        self.left, self.right = frozen(checks.finite("left", left)), frozen(checks.finite("right", right))

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def num_parameters(self) -> int:
        return self.left.numel() + self.right.numel()

    def entries(self, rows: Tensor, columns: Tensor) -> Tensor:
        """(U V^T)_ij [q] for indices [q] each."""
        return (self.left[rows] * self.right[columns]).sum(dim=1)

    def matmul(self, V: Tensor) -> Tensor:
        """U V^T times a matrix [m, c], as [n, c]."""
        return self.left @ (self.right.T @ V)


def fit_lela(
    entries: EntryOracle,
    *,
    num_rows: int,
    num_columns: int,
    rank: int,
    generator: Generator,
    num_samples: int | None = None,
    rounds: int = 10,
    alpha: float = 1e-3,
    report: Report | None = None,
) -> TwoSidedFactor:
    """M ~ U V^T for a matrix M [n, m] given by an oracle `entries`. Entries are sampled with probability

        q_ij = min(1, s (||M_i||^2 + ||M^j||^2) / 2 (n + m) ||M||_F^2 + s |M_ij| / 2 sum |M|),    s = `num_samples`,

    and U and V alternately minimize the sum of (M_ij - u_i . v_j)^2 / q_ij over the sample, from the truncated SVD of
    the matrix of M_ij / q_ij. A small penalty `alpha`, relative to the weight of a whole row, keeps a row with few
    samples near its previous value. s is r (n + m) log(n + m) when None; `report` is called after each of the `rounds`.
    The result is the round, or the start, with the least spectral error on the submatrix of 256 random rows and
    columns: if M has no good approximation of this rank (the identity), later rounds fit only the sample.
    Two passes over the matrix, O(nm) entries that are not stored; a round costs O(s r^2 + (n + m) r^3), memory is
    O(s + (n + m) r). Source: Bhojanapalli, Jain & Sanghavi 2015, without its splitting of the sample by rounds.

    >>> def entries(i, j):  # a matrix of rank 2
    ...     return torch.cos(i * 0.1 - j * 0.2)
    >>> factor = fit_lela(entries, num_rows=100, num_columns=80, rank=2, generator=Generator().manual_seed(0))
    >>> i, j = torch.arange(80), torch.arange(80)
    >>> bool((factor.entries(i, j) - entries(i, j)).abs().max() < 1e-3)
    True
    """
    n, m = checks.positive_int("num_rows", num_rows), checks.positive_int("num_columns", num_columns)
    if checks.positive_int("rank", rank) > min(n, m):
        raise ValueError(f"rank must be at most the smaller side of the matrix, {min(n, m)}, got {rank}.")
    checks.nonnegative_int("rounds", rounds)
    checks.positive_float("alpha", alpha)
    count = math.ceil(rank * (n + m) * math.log(n + m)) if num_samples is None else num_samples
    by_rows, by_columns = _sample(entries, n, m, checks.positive_int("num_samples", count), generator)
    left, right = _sparse_svd(by_rows, rank, generator)
    check_error = _check_error(entries, n, m, generator)
    best, least = (left, right), check_error(left, right)
    if report is not None:
        report(0, sampled_error(by_rows, left, right))
    for number in range(1, rounds + 1):
        left, right = _fit_side(by_rows, left, right, alpha)
        right, left = _fit_side(by_columns, right, left, alpha)
        if report is not None:
            report(number, sampled_error(by_rows, left, right))
        error = check_error(left, right)
        if error < least:
            best, least = (left, right), error
    return TwoSidedFactor(*best)


def _check_error(entries: EntryOracle, n: int, m: int, generator: Generator) -> Callable[[Tensor, Tensor], float]:
    """The spectral error of U V^T on the submatrix of random rows and columns, where it is exact."""
    rows, columns = (uniform_sample(size, min(size, CHECK_POINTS), generator=generator).cpu() for size in (n, m))
    matrix = _submatrix(entries, rows, columns)
    return lambda left, right: float(torch.linalg.matrix_norm(matrix - left[rows] @ right[columns].T, ord=2))


def _fit_side(entries: Entries, moving: Tensor, fixed: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    """The least-squares `moving` for the range of `fixed`, and an orthonormal basis of that range."""
    Q, R = torch.linalg.qr(fixed)
    return solve_rows(entries, Q, moving @ R.T, alpha=alpha), Q


# -- the sample ------------------------------------------------------------------------------------------------


def _sample(entries: EntryOracle, n: int, m: int, count: int, generator: Generator) -> tuple[Entries, Entries]:
    """The same sampled entries, by rows and by columns."""
    rows_squared, columns_squared, total = _norms(entries, n, m)
    frobenius = float(rows_squared.sum())
    if frobenius == 0:
        raise ValueError("entries must not all be 0.")
    drawn = []
    for rows, block in _blocks(entries, n, m):
        chance = (rows_squared[rows][:, None] + columns_squared) / ((n + m) * frobenius) + block.abs().double() / total
        chance = (chance * (count / 2)).clamp_max_(1)
        coins = torch.rand(chance.shape, generator=generator, device=generator.device, dtype=torch.float64)
        i, j = (coins.to(chance.device) < chance).nonzero(as_tuple=True)
        drawn.append((rows[i], j, block[i, j], 1 / chance[i, j]))
    i, j, values, weights = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    return _entries(n, m, i, j, values, weights), _entries(m, n, j, i, values, weights)


def _norms(entries: EntryOracle, n: int, m: int) -> tuple[Tensor, Tensor, float]:
    """Squared norms of the rows [n] and columns [m], and the sum of absolute values."""
    rows_squared, columns_squared, total = [], torch.zeros(m, dtype=torch.float64), 0.0
    for _, block in _blocks(entries, n, m):
        squares = checks.finite("entries", block).double().square()
        rows_squared.append(squares.sum(dim=1))
        columns_squared = columns_squared.to(squares) + squares.sum(dim=0)
        total += float(block.abs().sum(dtype=torch.float64))
    return torch.cat(rows_squared), columns_squared, total


def _blocks(entries: EntryOracle, n: int, m: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The matrix in tiles of rows: their indices [k], and the block [k, m]."""
    for tile in row_tiles(n, row_elements=m, tile_elements=ENTRY_ELEMENTS):
        rows = torch.arange(tile.start, tile.stop)
        yield rows, _submatrix(entries, rows, torch.arange(m))


def _submatrix(entries: EntryOracle, rows: Tensor, columns: Tensor) -> Tensor:
    """M[rows][:, columns]."""
    values = entries(rows.repeat_interleave(len(columns)), columns.repeat(len(rows)))
    return values.reshape(len(rows), len(columns))


def _entries(n: int, m: int, rows: Tensor, columns: Tensor, values: Tensor, weights: Tensor) -> Entries:
    """Entries of an [n, m] matrix, row by row."""
    order = (rows * m + columns).argsort()
    offsets = torch.zeros(n + 1, dtype=torch.long, device=rows.device)
    offsets[1:] = torch.bincount(rows, minlength=n).cumsum(0)
    none = values.new_zeros(0)
    blocks = torch.arange(n, device=rows.device)[:, None]
    samples = Samples(m, blocks, offsets, columns[order], weights[order], offsets[:0], none)
    return Entries(samples, values[order][:, None], values.new_empty(n, 0), none)


def _sparse_svd(entries: Entries, rank: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Left [n, r] and right [m, r] factors of the r largest singular triples of the entries M_ij / q_ij."""
    samples = entries.samples
    n, m = len(samples.blocks), samples.num_columns
    rows = torch.repeat_interleave(samples.blocks[:, 0], samples.offsets.diff())
    scaled = entries.values[:, 0] * samples.weights.to(entries.values)
    S = torch.sparse_coo_tensor(torch.stack([rows, samples.columns]), scaled, (n, m), check_invariants=True)
    width = min(n, m, rank + OVERSAMPLING)
    Q = torch.randn(m, width, generator=generator, device=generator.device, dtype=torch.float64).to(scaled)
    for _ in range(POWER_ROUNDS):
        Q = torch.linalg.qr(S.T @ torch.linalg.qr(S @ Q).Q).Q
    left, values, right = torch.linalg.svd(S @ Q, full_matrices=False)
    return left[:, :rank] * values[:rank], Q @ right[:rank].T
