"""Sampling schemes for entries of a kernel matrix, and the sampled entries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import FourierMap
from bochner.features.landmarks import kmeans_centers
from bochner.kernels import Kernel
from bochner.ops import TILE_ELEMENTS, row_tiles, squared_distances

SAMPLING_SCHEMES = [
    "l1",
    "l2",
    "approximate-l2",
    "uniform",
    "uniform+diagonal",
    "clustering",
    "uniform+clustering",
    "uniform+clustering+diagonal",
]
# Points per block, whose rows share their sampled columns; fewer if there would be less than 64 blocks.
BLOCK_SIZE = 64
MIN_BLOCKS = 64
# Fourier features for estimates of the norms of K's columns.
NORM_FEATURES = 512


class Tile(NamedTuple):
    """Several blocks, with their lists of columns padded to equal length; weights and places are arbitrary at padded
    positions."""

    blocks: Tensor  # [T], indices of the blocks
    columns: Tensor  # [T, s]
    weights: Tensor  # [T, s]
    places: Tensor  # [T, s], positions in `Samples.columns`


class Samples(NamedTuple):
    """A set of entries of a matrix with `num_columns` columns, in three parts:

    in every row of block a, blocks[a] [g], the columns columns[offsets[a] : offsets[a + 1]] with their `weights`,
    1 / (probability of being sampled); all rows and columns of the `centers`, which are in no block; and the diagonal
    of a symmetric matrix, with the additional weight `diagonal`. The index `num_columns` denotes padding.
    """

    num_columns: int
    blocks: Tensor  # [B, g]
    offsets: Tensor  # [B + 1]
    columns: Tensor  # [p]
    weights: Tensor  # [p]
    centers: Tensor  # [c]
    diagonal: Tensor  # [n], or empty if the diagonal is sampled like other entries

    @property
    def num_entries(self) -> int:
        """The number of entries of a symmetric matrix in the set."""
        present = (self.blocks < self.num_columns).sum(dim=1)
        rows = torch.repeat_interleave(present, self.offsets.diff())
        sampled = int(rows[self.columns < self.num_columns].sum())
        c = len(self.centers)
        return sampled + 2 * c * self.num_columns - c * c + int((self.diagonal == 1).sum())

    @property
    def mean_weight(self) -> float:
        """The mean over all entries of the matrix, 0 outside the set: 1 if weights are 1 / probability."""
        n, c = self.num_columns, len(self.centers)
        present = (self.blocks < n).sum(dim=1).double()
        weights = torch.where(self.columns < n, self.weights, 0) * torch.repeat_interleave(present, self.offsets.diff())
        return (float(weights.sum()) + 2 * c * n - c * c + float(self.diagonal.sum())) / n**2

    def tempered(self, power: float) -> Samples:
        """The same entries with weights raised to `power`; a diagonal that is always sampled keeps weight 1."""
        sampled = 1 - self.diagonal
        diagonal = torch.where(sampled > 0, 1 - sampled**power, 1.0)
        return self._replace(weights=self.weights**power, diagonal=diagonal)

    def to(self, device: torch.device) -> Samples:
        return Samples(self.num_columns, *(part.to(device) for part in self[1:]))

    def tiles(self, *, column_elements: int, block_elements: int = 0) -> Iterator[Tile]:
        """All blocks, sorted by their number of columns to reduce padding; a tile has as many as fit into
        `TILE_ELEMENTS` numbers, given the numbers per column and per block."""
        counts, order = self.offsets.diff().sort(descending=True)
        lengths = counts.tolist()
        start = 0
        while start < len(lengths):
            fitting = max(1, TILE_ELEMENTS // max(1, lengths[start] * column_elements + block_elements))
            yield self._tile(order[start : start + fitting], lengths[start])
            start += fitting

    def _tile(self, blocks: Tensor, length: int) -> Tile:
        places = self.offsets[blocks][:, None] + torch.arange(length, device=blocks.device)
        is_column = places < self.offsets[blocks + 1][:, None]
        places = torch.where(is_column, places, 0)
        columns = torch.where(is_column, self.columns[places], self.num_columns)
        return Tile(blocks, columns, self.weights[places], places)


def join_pairs(
    num_columns: int,
    blocks: Tensor,
    rows: Tensor,
    columns: Tensor,
    weights: Tensor,
    *,
    centers: Tensor | None = None,
    diagonal: Tensor | None = None,
) -> Samples:
    """Samples from pairs of blocks, sorted by row: every point of blocks[columns] is a column of blocks[rows].

    >>> samples = join_pairs(3, torch.arange(3)[:, None], torch.tensor([0, 2]), torch.tensor([1, 2]), torch.ones(2))
    >>> samples.offsets.tolist(), samples.columns.tolist()
    ([0, 1, 1, 2], [1, 2])
    """
    g = blocks.shape[1]
    offsets = torch.zeros(len(blocks) + 1, dtype=torch.long)
    offsets[1:] = torch.bincount(rows, minlength=len(blocks)).cumsum(0) * g
    return Samples(
        num_columns,
        blocks,
        offsets,
        blocks[columns].flatten(),
        weights.repeat_interleave(g),
        torch.arange(0) if centers is None else centers,
        torch.zeros(0, dtype=torch.float64) if diagonal is None else diagonal,
    )


class Entries(NamedTuple):
    """`samples`, and the entries of the matrix there."""

    samples: Samples
    values: Tensor  # [p, g]: row by row of `samples.columns`, the values in the g rows of their block
    center_columns: Tensor  # [n, c]
    diagonal: Tensor  # [n], or empty as in the samples


def evaluate(kernel: Kernel, X: Tensor, samples: Samples) -> Entries:
    """k(X, X) at `samples` only, X [n, d]: O((samples + n c) d) time.

    Diagonal entries are exact, as in K itself.
    """
    diagonal = kernel.diagonal(X)
    extended = torch.cat([X, X[:1]])  # values at padded positions are never used
    exact = torch.cat([diagonal, diagonal[:1]])
    values = X.new_empty(len(samples.columns), samples.blocks.shape[1])
    write = _write_rows if samples.blocks.shape[1] == 1 else _write_blocks
    write(kernel, extended, exact, samples, values)
    center_columns = X.new_empty(len(X), len(samples.centers))
    if len(samples.centers):
        center_columns = kernel(X, X[samples.centers])
        center_columns[samples.centers, torch.arange(len(samples.centers))] = diagonal[samples.centers]
    for part in (values, center_columns, diagonal):
        checks.finite("k(X, X)", part)
    return Entries(samples, values, center_columns, diagonal if len(samples.diagonal) else diagonal[:0])


def _write_blocks(kernel: Kernel, X: Tensor, exact: Tensor, samples: Samples, values: Tensor) -> None:
    bounds = samples.offsets.tolist()
    for points, start, stop in zip(samples.blocks, bounds, bounds[1:], strict=False):
        if stop > start:
            columns = samples.columns[start:stop]
            values[start:stop] = torch.where(columns[:, None] == points, exact[points], kernel(X[columns], X[points]))


def _write_rows(kernel: Kernel, X: Tensor, exact: Tensor, samples: Samples, values: Tensor) -> None:
    """For blocks of one row: many small kernel matrices [1, s] at once."""
    for tile in samples.tiles(column_elements=4 * X.shape[1] + 4):
        rows = samples.blocks[tile.blocks]
        block = torch.vmap(kernel)(X[rows], X[tile.columns])[:, 0]
        block = torch.where(tile.columns == rows, exact[rows], block)
        is_column = tile.columns < samples.num_columns
        values[tile.places[is_column], 0] = block[is_column]


def sample_entries(
    kernel: Kernel, X: Tensor, *, scheme: str, num_samples: int, generator: Generator, block_size: int | None = None
) -> Samples:
    """About m = `num_samples` entries (i, j) of K = k(X, X), X [n, d], always together with (j, i):

    "l1"              with probability min(1, m |K_ij| / sum |K|)                                  O(n^2 d)
    "l2"              with q_ij = m (||K_i||^2 + ||K_j||^2) / 2 n ||K||_F^2                        O(n^2 d)
    "approximate-l2"  the same with ||K_i||^2 = z_i^T (sum_j z_j z_j^T) z_i, z Fourier features   O(n D (d + D))
    "uniform"         with equal probabilities
    "clustering"      the whole rows of the m / n points nearest to k-means centres of the standardized points
    "uniform+clustering"  m / 2 uniform entries, and the rows of m / 2n such points
    "...+diagonal"    the same and the diagonal

    The mirror images of whole rows are not counted in m, since they cost no kernel value. Uniform entries come in
    blocks of `block_size` x `block_size`: random points share their columns, while all entries are equally likely and
    each row has a uniform sample of columns. 1 draws single entries; None is 64, less below 4,096 points.
    Memory O(m). Source: Bhardwaj 2015, 3.4, where equation (3.4) lacks the factor n.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0))
    >>> samples = sample_entries(
    ...     Gaussian(), X, scheme="uniform+diagonal", num_samples=2000, generator=Generator().manual_seed(0)
    ... )
    >>> 1900 < samples.num_entries < 2300
    True
    """
    checks.one_of("scheme", scheme, SAMPLING_SCHEMES)
    n, m = len(X), checks.positive_int("num_samples", num_samples)
    if scheme == "l1":
        return _by_values(kernel, X, m, generator)
    if scheme in ("l2", "approximate-l2"):
        squares = _column_norms(kernel, X) if scheme == "l2" else _estimated_norms(kernel, X, generator)
        return _by_norms(squares, m, generator)
    parts = scheme.split("+")
    rows = m // n if scheme == "clustering" else m // (2 * n) if "clustering" in parts else 0
    centers = _central_points(X, min(n, max(1, rows)), generator) if "clustering" in parts else torch.arange(0)
    uniform = 0 if scheme == "clustering" else m // 2 if "clustering" in parts else m
    g = default_block_size(n) if block_size is None else checks.positive_int("block_size", block_size)
    return _uniform_blocks(n, centers.cpu(), uniform, g, "diagonal" in parts, generator).to(X.device)


def default_scheme(rank: int) -> str:
    """The choice of Bhardwaj 2015, from Tables 5.1 to 5.5."""
    return "uniform+clustering+diagonal" if rank >= 50 else "uniform"


def default_num_samples(num_points: int, rank: int) -> int:
    """r n log n, at most n^2."""
    return min(num_points**2, math.ceil(rank * num_points * math.log(max(num_points, 2))))


def default_block_size(num_points: int) -> int:
    return max(1, min(BLOCK_SIZE, num_points // MIN_BLOCKS))


# -- uniform blocks and whole rows -----------------------------------------------------------------------------


def _uniform_blocks(
    n: int, centers: Tensor, count: int, block_size: int, diagonal: bool, generator: Generator
) -> Samples:
    """About `count` uniform entries among the points other than centers, in blocks, and the rows of the centers."""
    others = torch.ones(n, dtype=torch.bool)
    others[centers] = False
    points = others.nonzero().squeeze(1)
    points = points[torch.randperm(len(points), generator=generator, device=generator.device).cpu()]
    num_blocks = math.ceil(len(points) / block_size)
    blocks = torch.full((num_blocks * block_size,), n)
    blocks[: len(points)] = points
    blocks = blocks.reshape(num_blocks, block_size)
    share = count / max(1, len(points)) ** 2
    rows, columns, weights = _uniform_pairs(num_blocks, share, generator)
    extra = _diagonal_weights(n, blocks, rows, columns, weights) if diagonal else torch.zeros(0, dtype=torch.float64)
    return join_pairs(n, blocks, rows, columns, weights, centers=centers, diagonal=extra)


def _uniform_pairs(size: int, share: float, generator: Generator) -> tuple[Tensor, Tensor, Tensor]:
    """A symmetric random set of pairs below `size`, each with probability `share`: rows, columns, weights.

    Pairs are drawn with replacement, as often as gives this share; (i, i), which has no mirror image, is less likely
    and has its own weight.
    """
    if share >= 1:
        codes = torch.arange(size * size)
        return codes // size, codes % size, torch.ones(size * size, dtype=torch.float64)
    if size == 0 or share <= 0:
        return torch.arange(0), torch.arange(0), torch.zeros(0, dtype=torch.float64)
    draws = max(1, round(math.log1p(-share) / math.log1p(-2 / size**2))) if size > 1 else 1
    pairs = torch.randint(size, (2, draws), generator=generator, device=generator.device).cpu()
    codes = torch.cat([pairs[0] * size + pairs[1], pairs[1] * size + pairs[0]]).unique()
    rows, columns = codes // size, codes % size
    single = torch.where(rows == columns, 1.0, 2.0).double() / size**2
    return rows, columns, 1 / _probability(single, draws)


def _probability(single: Tensor, draws: int) -> Tensor:
    """The probability of being drawn at least once in `draws` draws, each of probability `single`."""
    return -torch.expm1(draws * torch.log1p(-single.clamp_max(1 - 1e-16)))


def _diagonal_weights(n: int, blocks: Tensor, rows: Tensor, columns: Tensor, weights: Tensor) -> Tensor:
    """The missing part of the weight 1 of each (i, i); 0 for centers."""
    sampled = torch.zeros(len(blocks), dtype=torch.float64)
    own = rows == columns
    sampled[rows[own]] = weights[own]
    extra = torch.zeros(n + 1, dtype=torch.float64)
    extra[blocks] = (1 - sampled)[:, None].expand(blocks.shape)
    return extra[:n]


def _central_points(X: Tensor, count: int, generator: Generator) -> Tensor:
    """The distinct points nearest to `count` k-means centres of the standardized points.

    In float32, which suffices to choose points and takes half the time.
    """
    spread = X.std(dim=0, correction=0)
    scaled = ((X - X.mean(dim=0)) / torch.where(spread > 0, spread, 1)).float()
    centers = kmeans_centers(scaled, count, generator=generator)
    nearest = [
        squared_distances(centers[tile], scaled).argmin(dim=1)
        for tile in row_tiles(count, row_elements=len(X), tile_elements=TILE_ELEMENTS)
    ]
    return torch.cat(nearest).unique()


# -- entries by their size -------------------------------------------------------------------------------------


def _by_values(kernel: Kernel, X: Tensor, m: int, generator: Generator) -> Samples:
    """Each entry of the upper triangle independently; two passes over K, which is not stored."""
    rows = max(1, TILE_ELEMENTS // len(X))
    total = sum(float(block.abs().sum(dtype=torch.float64)) for _, block in kernel.blocks(X, X, rows=rows))
    drawn = []
    for tile, block in kernel.blocks(X, X, rows=rows):
        chance = (block.abs().double() * (m / max(total, 1e-300))).clamp_max(1).cpu().triu(tile.start)
        coins = torch.rand(chance.shape, generator=generator, device=generator.device, dtype=torch.float64).cpu()
        i, j = (coins < chance).nonzero(as_tuple=True)
        drawn.append((i + tile.start, j, 1 / chance[i, j]))
    i, j, weights = (torch.cat(parts) for parts in zip(*drawn, strict=True))
    return _mirrored(len(X), i, j, weights).to(X.device)


def _by_norms(squares: Tensor, m: int, generator: Generator) -> Samples:
    """q_ij = m (a_i + a_j) / 2 n sum(a) for a [n]: one index by its norm, the other uniform. O(m), not O(n^2)."""
    a, n = squares.double().cpu(), len(squares)
    a = a / a.sum()
    draws = max(1, m // 2)
    uniforms = torch.rand(draws, generator=generator, device=generator.device, dtype=torch.float64).cpu()
    i = torch.searchsorted(a.cumsum(0), uniforms).clamp_max(n - 1)
    j = torch.randint(n, (draws,), generator=generator, device=generator.device).cpu()
    codes = (torch.minimum(i, j) * n + torch.maximum(i, j)).unique()
    i, j = codes // n, codes % n
    single = torch.where(i == j, a[i], a[i] + a[j]) / n
    return _mirrored(n, i, j, 1 / _probability(single, draws)).to(squares.device)


def _mirrored(n: int, i: Tensor, j: Tensor, weights: Tensor) -> Samples:
    """Entries i <= j and their mirror images, in blocks of one row."""
    off = i != j
    rows, columns = torch.cat([i, j[off]]), torch.cat([j, i[off]])
    weights = torch.cat([weights, weights[off]])
    order = (rows * n + columns).argsort()
    return join_pairs(n, torch.arange(n)[:, None], rows[order], columns[order], weights[order])


def _column_norms(kernel: Kernel, X: Tensor) -> Tensor:
    """||K_i||^2 [n], by a pass over K."""
    rows = max(1, TILE_ELEMENTS // len(X))
    return torch.cat([block.double().square().sum(dim=1) for _, block in kernel.blocks(X, X, rows=rows)])


def _estimated_norms(kernel: Kernel, X: Tensor, generator: Generator) -> Tensor:
    """||K_i||^2 ~ sum_j (z_i . z_j)^2 = z_i^T (Z^T Z) z_i [n]."""
    if not kernel.spectral:
        raise ValueError(f"scheme='approximate-l2' needs a kernel with Fourier features, got {kernel!r}; use 'l2'.")
    z = FourierMap.draw(
        kernel, num_inputs=X.shape[1], num_features=NORM_FEATURES, generator=generator, dtype=X.dtype
    ).to(X.device)
    moments = X.new_zeros(NORM_FEATURES, NORM_FEATURES)
    for _, Z in z.stream(X):
        moments += Z.T @ Z
    return torch.cat([((Z @ moments) * Z).sum(dim=1).double() for _, Z in z.stream(X)])
