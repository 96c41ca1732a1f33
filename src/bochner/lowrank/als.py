"""Alternating least squares on a sample of the entries of the kernel matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import LANDMARK_RULES
from bochner.features.landmarks import uniform_sample
from bochner.kernels import Kernel
from bochner.lowrank.errors import spectral_norm
from bochner.lowrank.factor import DenseFactor, check_definite, check_problem, extend, kernel_matrix
from bochner.lowrank.nystrom import fit_nystrom
from bochner.lowrank.sampling import (
    Entries,
    Samples,
    Tile,
    default_num_samples,
    default_scheme,
    evaluate,
    sample_entries,
)
from bochner.ops import TILE_ELEMENTS, row_tiles

STARTS = ["random", *LANDMARK_RULES, "sparse-svd"]
# Subspace iterations and additional vectors for the start "sparse-svd", which needs few digits.
POWER_ROUNDS = 10
OVERSAMPLING = 10
# The power to which the weights 1 / probability are raised.
WEIGHTINGS = {"importance": 1.0, "root": 0.5, "equal": 0.0}
ALGORITHMS = ["default", "thesis"]
# Penalties when `alpha` is None. The thesis does not state its own: its error of 1.3e-6 on cpusmall needs one below
# 1e-6 (at 0.01 the error is 0.012); the errors on german and satimage are the same from 0.01 down.
ALPHAS = {"default": 0.5, "thesis": 1e-8}
THESIS_LANDMARKS_PER_COLUMN = 4
# Rounds are compared on all points, or on this many random ones, as in the thesis's tables. On 500 of german's 1,000
# points a round that is worse than the start can look better. A Ritz value is exact to about the square of the
# tolerance.
CHECK_POINTS = 1000
CHECK_TOLERANCE = 1e-4
DEFINITE_POINTS = 500  # the first of these, for the check for negative eigenvalues, which computes all of them


class Round(NamedTuple):
    """The result of a round; round 0 is the start."""

    number: int
    spectral_error: float  # ||K - U U^T|| in the spectral norm, on up to 1,000 random points
    sampled_error: float  # ||K - U U^T|| / ||K|| in the Frobenius norm, over the sampled entries
    symmetry_gap: float  # ||U V^T - V U^T|| / ||U V^T|| in the Frobenius norm, for the V of this round


Report = Callable[[Round], None]


def fit_als(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    generator: Generator,
    sampling: str | None = None,
    num_samples: int | None = None,
    block_size: int | None = None,
    weighting: str = "equal",
    start: str | None = None,
    rounds: int = 3,
    alpha: float | None = None,
    tolerance: float = 0.0,
    algorithm: str = "default",
    num_anchors: int | None = None,
    report: Report | None = None,
) -> DenseFactor:
    """K ~ U U^T from a sample of K's entries, by rounds of U <- (U + V) / 2 with

        V = argmin sum over the sample of w_ij (K_ij - u_i . v_j)^2 + alpha * W sum_j (v_j - u_j)^T L (v_j - u_j).

    U is rotated so that U^T U = L is diagonal. W is the mean weight of K's entries: at `alpha` = 1 the penalty and the
    samples weigh equally; None is 0.5. Rounds end after `rounds`, or when the spectral error, on all points or 1,000
    random ones, falls by no more than the fraction `tolerance`; the U with the smallest error there is returned, which
    may be the start.

    `algorithm` "thesis" is Algorithm 2 as printed: a start from 4 r landmarks by the standard Nystrom method (k-means
    centres if `start` is None), the penalty alpha sum_j ||v_j||^2 toward zero (None is 1e-8), all `rounds`, and the U
    of the last one, whether or not it is better; in float64, since its problems are not well conditioned.

    `sampling`, `num_samples` and `block_size` are those of `sample_entries`: when None, r n log n entries,
    uniform+clustering+diagonal from rank 50 on, otherwise uniform. `start` is the first U, as in `first_root`, None
    "pivoted-cholesky"; "random" and "sparse-svd" are far from K and need alpha = 0.05. `weighting` gives the weights w:
    1 / probability ("importance"), its root ("root") or 1 ("equal"). `report` is called with each `Round`. New points
    are mapped by `extend`, with `num_anchors`.
    For m samples in blocks of g: O(m (r + r^2 / g^2) + n (r^2 + r^3 / g)) per round, O(n r + m) memory; O(m d) once.
    Source: Bhardwaj 2015, Algorithm 2; docs/lowrank.md lists the differences and their reasons.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(300, 3, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> log = []
    >>> factor = fit_als(Gaussian(bandwidth=2.0), X, rank=10, generator=Generator().manual_seed(0), report=log.append)
    >>> factor.root.shape, log[1].sampled_error < log[0].sampled_error
    (torch.Size([300, 10]), True)
    """
    check_problem(kernel, X, rank)
    checks.one_of("weighting", weighting, WEIGHTINGS)
    checks.nonnegative_int("rounds", rounds)
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    literal, dtype = algorithm == "thesis", X.dtype
    alpha = ALPHAS[algorithm] if alpha is None else checks.positive_float("alpha", alpha)
    checks.nonnegative_float("tolerance", tolerance)
    X = X.double() if literal else X
    samples = sample_entries(
        kernel,
        X,
        scheme=default_scheme(rank) if sampling is None else sampling,
        num_samples=default_num_samples(len(X), rank) if num_samples is None else num_samples,
        block_size=block_size,
        generator=generator,
    )
    entries = evaluate(kernel, X, samples)
    make_start = thesis_root if literal else first_root
    start = start or ("kmeans" if literal else "pivoted-cholesky")
    root = make_start(start, kernel, X, entries, rank=rank, generator=generator)
    entries = entries._replace(samples=samples.tempered(WEIGHTINGS[weighting]))
    check_error = _check_error(kernel, X, generator)
    best, least = root, check_error(root)
    if report is not None:
        report(Round(0, least, sampled_error(entries, root, root), 0.0))
    take_round = _thesis_round if literal else _proximal_round
    for number in range(1, rounds + 1):
        root, symmetry_gap = take_round(entries, root, alpha)
        error, previous = check_error(root), least
        if report is not None:
            report(Round(number, error, sampled_error(entries, root, root), symmetry_gap))
        best, least = (root, error) if literal or error < least else (best, least)
        if not literal and error > (1 - tolerance) * previous:
            break
    X, best = X.to(dtype), best.to(dtype)
    return DenseFactor(best, extend(kernel, X, best, generator=generator, num_anchors=num_anchors))


def _proximal_round(entries: Entries, root: Tensor, alpha: float) -> tuple[Tensor, float]:
    """(U + V) / 2 with the penalty toward U, in coordinates with orthonormal columns; and the symmetry gap."""
    Q, values = _orthonormal(root)
    Y = solve_rows(entries, Q, Q * values, alpha=alpha * entries.samples.mean_weight)
    return _average(Q, values, Y), _symmetry_gap(Q, Y)


def _thesis_round(entries: Entries, root: Tensor, alpha: float) -> tuple[Tensor, float]:
    """(U + V) / 2 with the penalty alpha ||V||^2; and the symmetry gap."""
    V = solve_rows(entries, root, torch.zeros_like(root), alpha=alpha)
    Q, R = torch.linalg.qr(root)
    return (root + V) / 2, _symmetry_gap(Q, V @ R.T)


def _check_error(kernel: Kernel, X: Tensor, generator: Generator) -> Callable[[Tensor], float]:
    """The spectral error of a root on all points, or on random ones."""
    chosen = uniform_sample(len(X), min(len(X), CHECK_POINTS), generator=generator).to(X.device)
    matrix = kernel_matrix(kernel, X[chosen])
    some = matrix[:DEFINITE_POINTS, :DEFINITE_POINTS]
    check_definite(kernel, torch.linalg.eigvalsh(some))  # a start without landmarks does not evaluate K

    def error(root: Tensor) -> float:
        rows = root[chosen].double()
        return spectral_norm(
            lambda V: matrix @ V - rows @ (rows.T @ V), matrix, generator=generator, tolerance=CHECK_TOLERANCE
        ).value

    return error


def _orthonormal(root: Tensor) -> tuple[Tensor, Tensor]:
    """Q [n, r] and values [r] with U U^T = Q diag(values) Q^T."""
    Q, R = torch.linalg.qr(root)
    left, singular, _ = torch.linalg.svd(R)
    return Q @ left, singular.square()


def _average(Q: Tensor, values: Tensor, Y: Tensor) -> Tensor:
    """(U + V) / 2 with U = Q values^{1/2} and V = Y values^{-1/2}; columns of V are 0 where those of U vanish."""
    roots = values.sqrt()
    floor = roots[0] * torch.finfo(roots.dtype).eps * len(Q)
    return (Q * roots + Y / torch.where(roots > floor, roots, torch.inf)) / 2


def _symmetry_gap(Q: Tensor, Y: Tensor) -> float:
    """||Q Y^T - Y Q^T|| / ||Q Y^T||, where U V^T = Q Y^T; through Y = Q A + R, R orthogonal to Q, nothing cancels."""
    A = Q.T @ Y
    square = (A - A.T).square().sum() + 2 * (Y - Q @ A).square().sum()
    return float((square / Y.square().sum()).sqrt())


# -- starts -----------------------------------------------------------------------------------------------------------


def first_root(start: str, kernel: Kernel, X: Tensor, entries: Entries, *, rank: int, generator: Generator) -> Tensor:
    """The first U [n, r], for X [n, d]:

    "random"          Normal(0, k(x, x) / r) entries: U U^T has K's diagonal on average
    landmark rule     "uniform", "kmeans", "leverage" or "pivoted-cholesky": `fit_nystrom` on 8 r such landmarks,
                      truncated to its best rank r; random pivots include isolated points
    "sparse-svd"      the r largest eigenpairs of the sampled entries divided by their probabilities, 0 elsewhere
    """
    checks.one_of("start", start, STARTS)
    match start:
        case "random":
            sizes = (kernel.diagonal(X) / rank).sqrt()
            return sizes[:, None] * _normals(len(X), rank, generator).to(X)
        case "sparse-svd":
            return _sparse_svd(entries, rank, _normals(len(X), min(len(X), rank + OVERSAMPLING), generator).to(X))
        case _:
            return fit_nystrom(kernel, X, rank=rank, landmarks=start, generator=generator).root


def thesis_root(start: str, kernel: Kernel, X: Tensor, entries: Entries, *, rank: int, generator: Generator) -> Tensor:
    """The first U [n, r] of the thesis's Section 3.5: "random" entries are uniform on [0, 1], and Nystrom factors keep
    the r largest eigenpairs of k(L, L) on 4 r landmarks L; "sparse-svd" is that of `first_root`."""
    checks.one_of("start", start, STARTS)
    match start:
        case "random":
            return torch.rand(len(X), rank, generator=generator, device=generator.device, dtype=torch.float64).to(X)
        case "sparse-svd":
            return first_root(start, kernel, X, entries, rank=rank, generator=generator)
        case _:
            m = min(len(X), THESIS_LANDMARKS_PER_COLUMN * rank)
            options = {"num_landmarks": m, "landmarks": start, "truncation": "landmarks"}
            return fit_nystrom(kernel, X, rank=rank, generator=generator, **options).root  # type: ignore[arg-type]


def _sparse_svd(entries: Entries, rank: int, Q: Tensor) -> Tensor:
    Q = torch.linalg.qr(Q).Q
    for _ in range(POWER_ROUNDS):
        Q = torch.linalg.qr(multiply(entries, Q)).Q
    small = Q.T @ multiply(entries, Q)
    values, vectors = torch.linalg.eigh((small + small.T) / 2)
    return Q @ (vectors[:, -rank:] * values[-rank:].clamp_min(0).sqrt())


def _normals(rows: int, columns: int, generator: Generator) -> Tensor:
    return torch.randn(rows, columns, generator=generator, device=generator.device, dtype=torch.float64)


# -- least squares on sampled entries ---------------------------------------------------------------------------------


def solve_rows(entries: Entries, Q: Tensor, prior: Tensor, *, alpha: float) -> Tensor:
    """Y [n, r], row by row y_j = argmin sum_i w_ij (K_ij - q_i . y_j)^2 + alpha ||y_j - prior_j||^2 over the entries.

    Q [n, r] should have orthonormal columns: with weights 1 / probability every Gram matrix is then the identity on
    average, and well conditioned. All rows have the columns of the centers, whose Gram matrix and product are computed
    once; each block adds its own columns; the diagonal entry of a row is a rank-one correction.
    O(p r (g + r / g) + n r^2 + B r^3 + n c r) for p sampled columns in B blocks of g rows, and c centers, if the Gram
    matrices of all blocks, B r^2, take no more memory than the entries; otherwise p r (g + r) for the first term.
    """
    samples, known = entries.samples, Q[entries.samples.centers]
    common = _with_diagonal(known.T @ known, alpha)
    targets = _extended(torch.addmm(prior, entries.center_columns, known, beta=alpha))
    inputs, Y = _extended(Q), _extended(torch.empty_like(prior))
    shared = block_grams(samples, inputs) if worth_sharing(samples, Q.shape[1]) else None
    for tile, columns in _gathered(entries, inputs):
        rows, values = samples.blocks[tile.blocks], _weighted_values(entries, tile)
        grams = _grams(tile, columns) if shared is None else shared.of_tile(tile)
        products = _take(targets, rows).mT + columns.mT @ values
        Y[rows] = _solve_tile(entries, inputs, common + grams, products, rows).mT
    if len(known):  # all entries of their rows are known
        right = Q.T @ entries.center_columns + alpha * prior[samples.centers].T
        Y[samples.centers] = torch.linalg.solve(_with_diagonal(Q.T @ Q, alpha), right).T
    return Y[:-1]


def _solve_tile(entries: Entries, inputs: Tensor, grams: Tensor, products: Tensor, rows: Tensor) -> Tensor:
    """[T, r, g] from Gram matrices [T, r, r], right-hand sides [T, r, g], and the diagonal entry of each of `rows`."""
    L = torch.linalg.cholesky(grams)
    Y = torch.cholesky_solve(products, L)
    if len(entries.diagonal) == 0:
        return Y
    # (H + d q q^T) y = b + d K_jj q, by the Sherman-Morrison formula
    parts = entries.samples.diagonal.to(inputs), entries.diagonal
    weight, value = (_take(_extended(part[:, None]), rows).mT for part in parts)
    own = _take(inputs, rows).mT
    spread = torch.cholesky_solve(own, L)
    missing = value - (own * Y).sum(dim=1, keepdim=True)
    return Y + spread * (weight * missing / (1 + weight * (own * spread).sum(dim=1, keepdim=True)))


def multiply(entries: Entries, Q: Tensor) -> Tensor:
    """S Q [n, r], S the symmetric matrix of weighted entries, 0 elsewhere: its mean is K Q."""
    samples = entries.samples
    result = entries.center_columns @ Q[samples.centers]
    if len(entries.diagonal):
        result += (samples.diagonal.to(Q) * entries.diagonal)[:, None] * Q
    result = _extended(result)
    for tile, columns in _gathered(entries, _extended(Q)):
        result[samples.blocks[tile.blocks]] += _weighted_values(entries, tile).mT @ columns
    result[samples.centers] = entries.center_columns.T @ Q
    return result[:-1]


def sampled_error(entries: Entries, left: Tensor, right: Tensor) -> float:
    """||K - A B^T||_F / ||K||_F over the sampled entries, each counted once, for A [n, r] and B [m, r]."""
    samples = entries.samples
    error, total = _center_squares(entries, left, right)
    if len(entries.diagonal):
        alone = (samples.diagonal == 1).to(left)
        error += _square((entries.diagonal - (left * right).sum(dim=1)) * alone)
        total += _square(entries.diagonal * alone)
    extended = _extended(left)
    for tile, columns in _gathered(entries, _extended(right)):
        rows = samples.blocks[tile.blocks]
        is_entry = ((tile.columns < len(right))[..., None] & (rows < len(left))[:, None]).to(left)
        values = _take(entries.values, tile.places) * is_entry
        total += _square(values)  # at padded places the product is 0 as well
        error += _square(torch.baddbmm(values, columns, _take(extended, rows).mT, alpha=-1))
    return float((error / total) ** 0.5) if total > 0 else 0.0


def _center_squares(entries: Entries, left: Tensor, right: Tensor) -> tuple[float, float]:
    """The squared error and norm over the rows and columns of the centers.

    Rows mirror columns, so columns count twice and the square of both is subtracted once.
    """
    centers, error, total = entries.samples.centers, 0.0, 0.0
    tiles = row_tiles(len(left), row_elements=max(1, len(centers)), tile_elements=TILE_ELEMENTS)
    parts: list[tuple[slice | Tensor, int]] = [*((tile, 2) for tile in tiles), (centers, -1)]
    for rows, count in parts:
        values = entries.center_columns[rows]
        total += count * _square(values)
        error += count * _square(torch.addmm(values, left[rows], right[centers].T, alpha=-1))
    return error, total


def _gathered(entries: Entries, extended: Tensor) -> Iterator[tuple[Tile, Tensor]]:
    """For every tile the rows of Q [n, r] at its columns, [T, s, r]; `extended` is Q with a row of zeros."""
    r, g = extended.shape[1], entries.values.shape[1]
    for tile in entries.samples.tiles(column_elements=2 * (r + g), block_elements=r * (3 * r + 4 * g)):
        yield tile, _take(extended, tile.columns)


def _weighted_values(entries: Entries, tile: Tile) -> Tensor:
    """Entries times weights, [T, s, g]; padded places hold arbitrary values."""
    return _take(entries.values, tile.places).mul_(tile.weights.to(entries.values)[..., None])


def _grams(tile: Tile, columns: Tensor) -> Tensor:
    """sum_i w_i q_i q_i^T [T, r, r] over the columns of each block."""
    return (columns * tile.weights.to(columns)[..., None]).mT @ columns


def _extended(M: Tensor) -> Tensor:
    """M with a row of zeros appended, for the padding index."""
    return torch.cat([M, M.new_zeros(1, M.shape[1])])


def _take(M: Tensor, index: Tensor) -> Tensor:
    """M[index] for index [T, s], as a copy [T, s, columns]; several times faster than indexing."""
    return M.index_select(0, index.flatten()).reshape(*index.shape, M.shape[1])


def _with_diagonal(gram: Tensor, alpha: float) -> Tensor:
    gram.diagonal().add_(alpha)
    return gram


def _square(values: Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2


# -- Gram matrices of blocks ------------------------------------------------------------------------------------------


class BlockGrams(NamedTuple):
    """q_i q_i^T summed over the points of each block, computed once for all blocks that sample it.

    If blocks of g rows sample whole blocks of columns, the Gram matrix of a row is a weighted sum of these: a pair of
    blocks costs O(r^2) instead of O(g r^2).
    """

    own: Tensor  # [B + 1, r^2]; the last one, for padding, is zero
    block_of: Tensor  # [n + 1], the block of each point; B for centers and padding
    block_size: int

    def of_tile(self, tile: Tile) -> Tensor:
        """sum_i w_i q_i q_i^T over the columns of each block of the tile, [T, r, r]."""
        g, side = self.block_size, round(self.own.shape[1] ** 0.5)
        if not tile.columns.numel():  # an embedding bag does not accept blocks without columns
            return self.own.new_zeros(len(tile.columns), side, side)
        sampled, weights = self.block_of[tile.columns[:, ::g]], tile.weights[:, ::g].to(self.own)
        sums = torch.nn.functional.embedding_bag(sampled, self.own, per_sample_weights=weights, mode="sum")
        return sums.reshape(-1, side, side)


def worth_sharing(samples: Samples, rank: int) -> bool:
    """Whether the Gram matrices of the blocks take no more memory than the sampled entries."""
    num_blocks, g = samples.blocks.shape
    return g > 1 and num_blocks * rank**2 <= g * len(samples.columns)


def block_grams(samples: Samples, extended: Tensor) -> BlockGrams:
    """The Gram matrices for `extended` [n + 1, r], Q with a row of zeros. O(n r^2) time, O(n r^2 / g) memory."""
    num_blocks, g = samples.blocks.shape
    own = extended.new_zeros(num_blocks + 1, extended.shape[1] ** 2)
    for a, points in enumerate(samples.blocks):
        Q = extended[points]
        own[a] = (Q.T @ Q).flatten()
    block_of = torch.full((samples.num_columns + 1,), num_blocks, device=own.device)
    block_of[samples.blocks] = torch.arange(num_blocks, device=own.device)[:, None].expand(num_blocks, g)
    block_of[-1] = num_blocks
    return BlockGrams(own, block_of, g)
