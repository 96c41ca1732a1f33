"""MEKA, memory efficient kernel approximation: low rank within clusters, small links between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features import FeatureMap, NystromMap
from bochner.features.landmarks import kmeans_centers, uniform_sample
from bochner.features.projections import frozen
from bochner.kernels import Kernel
from bochner.lowrank.factor import Factor, check_problem
from bochner.lowrank.nystrom import fit_nystrom
from bochner.ops import TILE_ELEMENTS, row_tiles, squared_distances

KMEANS_ROUNDS = 100
ALGORITHMS = ["default", "thesis"]
# Landmarks of each cluster per column of its basis, and points of each cluster per column to fit a link on.
LANDMARKS_PER_COLUMN = 4
SAMPLES_PER_COLUMN = 4
# The weighted rows of a sample have singular values around 1. A direction with a smaller one is not determined by the
# sample: its link is set to 0. Over 20 seeds on cadata the smallest was 0.4.
MIN_SINGULAR_VALUE = 0.1


class ClusterMap(FeatureMap):
    """z(x) = A_c^T z_c(x) with c the cluster whose centre is nearest to x.

    centers [c, d]; experts z_1 .. z_c with q features each; links A [c, q, r].
    """

    def __init__(self, centers: Tensor, experts: Sequence[NystromMap], links: Tensor) -> None:
        super().__init__()
        checks.inputs("centers", centers)
        shape = (len(centers), experts[0].num_features if experts else 0)
        if links.ndim != 3 or links.shape[:2] != shape or len(experts) != len(centers):
            raise ValueError(f"links must have shape ({shape[0]}, {shape[1]}, r), got {tuple(links.shape)}.")
        self.centers, self.links = frozen(centers), frozen(links)
        self.experts = nn.ModuleList(experts)
        self.kernel = experts[0].kernel
        self.num_inputs, self.num_features = centers.shape[1], links.shape[2]

    def _features(self, X: Tensor) -> Tensor:
        clusters = nearest(X, self.centers)
        members = [(clusters == c).nonzero().squeeze(1) for c in range(len(self.centers))]
        parts = [expert(X[m]) @ link for expert, m, link in zip(self.experts, members, self.links, strict=True)]
        return torch.cat(parts)[torch.cat(members).argsort()]


class BlockFactor(Factor):
    """U = B A with B block diagonal: K_st ~ B_s A_s A_t^T B_t^T for clusters s and t.

    basis [n, q]: the row of each point in the basis of its cluster; clusters [n]: the index of that cluster. The links
    A [c, q, r] are those of `features`. n q + (c q)^2 parameters and O(n q + c q r) per product for r <= c q columns.
    """

    features: ClusterMap

    def __init__(self, basis: Tensor, clusters: Tensor, features: ClusterMap) -> None:
        super().__init__()
        if not isinstance(features, ClusterMap):
            raise TypeError(f"features must be a ClusterMap, got {features!r}.")
        checks.finite("basis", checks.inputs("basis", basis, width=features.links.shape[1]))
        if clusters.shape != (len(basis),) or not 0 <= int(clusters.min()) <= int(clusters.max()) < len(features.links):
            raise ValueError(f"clusters must hold one index below {len(features.links)} per point.")
        self.features = features
        self.basis = frozen(basis)
        self.register_buffer("clusters", clusters)
        self.clusters: Tensor

    @property
    def num_parameters(self) -> int:
        return self.basis.numel() + (self.features.links.shape[0] * self.features.links.shape[1]) ** 2

    def rows(self, index: Tensor) -> Tensor:
        return self._scatter(self.features.links, index.to(self.clusters.device))

    def expand(self, V: Tensor) -> Tensor:
        return self._scatter(self.features.links @ V, torch.arange(self.num_points, device=V.device))

    def project(self, V: Tensor) -> Tensor:
        parts = []
        for c, link in enumerate(self.features.links):
            members = self.clusters == c
            parts.append(link.T @ (self.basis[members].T @ V[members]))
        return torch.stack(parts).sum(dim=0)

    def _scatter(self, blocks: Tensor, index: Tensor) -> Tensor:
        """basis_i blocks[cluster of i] for every i in `index`; blocks [c, q, w], as [len(index), w]."""
        result = self.basis.new_empty(len(index), blocks.shape[2])
        for c, block in enumerate(blocks):
            members = self.clusters[index] == c
            result[members] = self.basis[index[members]] @ block
        return result


def nearest(X: Tensor, centers: Tensor) -> Tensor:
    """The index [n] of the centre nearest to each row of X [n, d]."""
    clusters = torch.empty(len(X), dtype=torch.long, device=X.device)
    for tile in row_tiles(len(X), row_elements=len(centers), tile_elements=TILE_ELEMENTS):
        clusters[tile] = squared_distances(X[tile], centers).argmin(dim=1)
    return clusters


class Block(NamedTuple):
    """One cluster: orthonormal basis Q [n_c, q] with K_cc ~ Q diag(values) Q^T, and the map to rows of Q."""

    members: Tensor  # [n_c] indices of its points
    basis: Tensor  # [n_c, q] in float64
    values: Tensor  # [q]
    features: NystromMap


def fit_meka(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    num_clusters: int,
    threshold: float = 0.0,
    landmarks: str | None = None,
    algorithm: str = "default",
    generator: Generator,
) -> BlockFactor:
    """MEKA: k-means gives c clusters; within a cluster K_cc ~ Q_c L_c Q_c^T of rank q = rank / c by `fit_nystrom` with
    4 q landmarks; between clusters K_st ~ Q_s L_st Q_t^T with the least-squares L_st on about 4 q sampled points I, J:

        L_st = (W_s Q_s[I])^+ W_s k(X_s[I], X_t[J]) W_t ((W_t Q_t[J])^+)^T,    W = diag(1 / sqrt(p_i)).

    Points are sampled with probabilities p_i that are half uniform and half proportional to the leverage ||q_i||^2, so
    that W Q[I] has singular values around 1: a point that alone spans a direction is always in the sample. `algorithm`
    "thesis" is the published method: standard Nystrom blocks (truncation "landmarks"), uniform samples and W = I. A
    sample that misses such a point then makes Q[I] nearly singular, and the error unbounded.

    `landmarks` is a rule of `choose_landmarks`; None is "pivoted-cholesky", which includes isolated points that
    "kmeans" may miss; for the thesis it is "uniform". A link is zero, not fitted, if k(s, t) / sqrt(k(s, s) k(t, t)) at
    the centres is below `threshold`: 0 fits all links, more than 1 none. Fitted links can make L [c q, c q] indefinite;
    its negative eigenvalues are set to 0, which gives the positive semi-definite matrix nearest to Q L Q^T. A cluster
    with fewer than q points has a smaller basis.
    n q + (c q)^2 parameters for rank c q. O(n q (d + q) + (c q)^2 (d + c q)) time.
    Sources: Si, Hsieh & Dhillon 2014; Bhardwaj 2015, 2.4.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> factor = fit_meka(Gaussian(bandwidth=2.0), X, rank=24, num_clusters=3, generator=Generator().manual_seed(0))
    >>> factor.root.shape, factor.num_parameters
    (torch.Size([200, 24]), 2176)
    """
    check_problem(kernel, X, rank)
    checks.nonnegative_float("threshold", threshold)
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    if rank % checks.positive_int("num_clusters", num_clusters):
        raise ValueError(f"rank must be a multiple of num_clusters, {num_clusters}, got {rank}.")
    q = rank // num_clusters
    centers = kmeans_centers(X, num_clusters, generator=generator, rounds=KMEANS_ROUNDS)
    clusters = nearest(X, centers)
    literal = algorithm == "thesis"
    options = {
        "landmarks": landmarks or ("uniform" if literal else "pivoted-cholesky"),
        "truncation": "landmarks" if literal else "factor",
    }
    blocks = [_fit_block(kernel, X, clusters == c, q, generator, options) for c in range(num_clusters)]
    sample = _uniform_rows if literal else _leverage_rows
    samples = [sample(block.basis, generator) for block in blocks]
    links = link_root(_fit_links(kernel, X, centers, blocks, samples, threshold))
    basis = X.new_zeros(len(X), q)
    for block in blocks:
        basis[block.members] = block.basis.to(X.dtype)
    features = ClusterMap(centers, [block.features for block in blocks], links.reshape(num_clusters, q, -1).to(X.dtype))
    return BlockFactor(basis, clusters, features)


def _fit_block(
    kernel: Kernel, X: Tensor, mask: Tensor, q: int, generator: Generator, options: Mapping[str, str]
) -> Block:
    """A Nystrom factor U = Q S P^T of the cluster as orthonormal columns Q and a map z(x) P S^{-1}, padded with zeros
    if the cluster has fewer than q points or its kernel matrix a lower rank."""
    members = mask.nonzero().squeeze(1)
    if len(members) == 0:
        return _empty_block(kernel, X, members, q)
    rank, m = (min(count, len(members)) for count in (q, LANDMARKS_PER_COLUMN * q))
    factor = fit_nystrom(kernel, X[members], rank=rank, num_landmarks=m, generator=generator, **options)
    Q, S, Pt = torch.linalg.svd(factor.root.double(), full_matrices=False)
    kept = S[0] * torch.finfo(X.dtype).eps * len(S) < S
    scale = torch.where(kept, S, torch.inf).reciprocal()
    nystrom = factor.features
    assert isinstance(nystrom, NystromMap)
    normalization = _padded(nystrom.normalization.double() @ (Pt.T * scale), q).to(X.dtype)
    features = NystromMap(kernel, nystrom.landmarks, normalization.contiguous())
    return Block(members, _padded(Q * kept, q), _padded((S * kept).square()[None], q)[0], features)


def _empty_block(kernel: Kernel, X: Tensor, members: Tensor, q: int) -> Block:
    """The block of a centre without points, which k-means on a sample can produce."""
    features = NystromMap(kernel, X[:1], X.new_zeros(1, q))
    return Block(members, X.new_zeros(0, q).double(), X.new_zeros(q).double(), features)


def _padded(columns: Tensor, count: int) -> Tensor:
    return torch.nn.functional.pad(columns, (0, count - columns.shape[1]))


class Rows(NamedTuple):
    """Sampled points I of a cluster, and P [q, I] with P k(X[I], y) the least-squares coefficients in the basis."""

    chosen: Tensor
    inverse: Tensor


def _fit_links(
    kernel: Kernel, X: Tensor, centers: Tensor, blocks: Sequence[Block], samples: Sequence[Rows], threshold: float
) -> Tensor:
    """The lower half of L [c q, c q]: the values of each block on the diagonal, the fitted links off it."""
    q = blocks[0].basis.shape[1]
    L = torch.block_diag(*(torch.diag(block.values) for block in blocks))
    amplitudes = kernel.diagonal(centers)
    closeness = kernel(centers) * torch.outer(amplitudes, amplitudes).rsqrt()
    points = [X[block.members[rows.chosen]].double() for block, rows in zip(blocks, samples, strict=True)]
    for s in range(len(blocks)):
        for t in range(s):
            if float(closeness[s, t]) < threshold:
                continue
            link = samples[s].inverse @ kernel(points[s], points[t]) @ samples[t].inverse.T
            L[s * q : (s + 1) * q, t * q : (t + 1) * q] = link
    return checks.finite("k(X, X)", L)


def _leverage_rows(Q: Tensor, generator: Generator) -> Rows:
    """About 4 q rows of Q [n, q], by leverage and uniformly, and their weighted pseudo-inverse.

    A row is in the sample with probability p_i = min(1, 4 q (l_i / sum(l) + 1 / n) / 2), l_i = ||q_i||^2. With weights
    1 / p_i the mean of Q[I]^T W^2 Q[I] is Q^T Q = I, and rows of leverage 1/2 or more are certain. Source: Drineas,
    Mahoney & Muthukrishnan 2006.
    """
    n, q = Q.shape
    leverages = Q.square().sum(dim=1)
    shares = leverages / leverages.sum().clamp_min(torch.finfo(Q.dtype).tiny) + 1 / max(1, n)
    probabilities = (SAMPLES_PER_COLUMN * q / 2 * shares).clamp_max(1)
    coins = torch.rand(n, generator=generator, device=generator.device, dtype=Q.dtype).to(Q.device)
    chosen = (coins < probabilities).nonzero().squeeze(1)
    weights = probabilities[chosen].rsqrt()
    inverse = torch.linalg.pinv(weights[:, None] * Q[chosen], atol=MIN_SINGULAR_VALUE, rtol=0.0)
    return Rows(chosen, inverse * weights)


def _uniform_rows(Q: Tensor, generator: Generator) -> Rows:
    """Up to 4 q uniform rows of Q [n, q] and their pseudo-inverse."""
    chosen = uniform_sample(len(Q), min(len(Q), SAMPLES_PER_COLUMN * Q.shape[1]), generator=generator).to(Q.device)
    return Rows(chosen, torch.linalg.pinv(Q[chosen], rtol=1e-8))


def link_root(L: Tensor) -> Tensor:
    """A [c q, c q] with A A^T the positive semi-definite part of a symmetric L, given by its lower half."""
    values, vectors = torch.linalg.eigh(L, UPLO="L")
    # row-major, as in a loaded factor: the rounding of a product depends on the layout
    return (vectors * values.clamp_min(0).sqrt()).contiguous()
