"""Nystrom factors: K seen from landmarks, cut back to a fixed rank."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import NystromMap, choose_landmarks
from bochner.kernels import Kernel
from bochner.lowrank.factor import DenseFactor
from bochner.lowrank.inputs import check_below, check_definite, check_problem, kernel_matrix

# Landmarks per column of U, unless told otherwise: at rank 50, 4 left german.numer 14 % above the optimum, 8 leave
# 0.1 %.
LANDMARKS_PER_COLUMN = 8
TILE_ROWS = 4096
TRUNCATIONS = ["factor", "landmarks"]


def fit_nystrom(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    num_landmarks: int | None = None,
    landmarks: str = "pivoted-cholesky",
    truncation: str = "factor",
    generator: Generator,
) -> DenseFactor:
    """With C = k(X, L) [n, m] and W = k(L, L) = P S P^T on m landmarks, K ~ C W^+ C^T = F F^T, F = C P S^{-1/2} [n, m],
    cut back to rank r:

        truncation "factor":     U = F V_r, V_r the r main right singular vectors of F: the best rank r of F F^T;
        truncation "landmarks":  U = C P_r S_r^{-1/2}, the r largest eigenpairs of W: the standard Nystrom method.

    `num_landmarks` m is 8 r (at most n) when None. `landmarks` is one of the rules of `choose_landmarks`: random pivots
    find points that are far from all others, which uniform ones and k-means centres miss. F is never held: two passes
    over the rows of C, O(n m (d + m)) time, O(n r + m^2) memory (the pivots themselves take O(n m)). Directions of W
    lost in the rounding of X's dtype are dropped, so duplicated points do no harm. transform(points) is U itself.
    Sources: Williams & Seeger 2001; Zhang, Tsang & Kwok 2008; Tropp et al. 2017 for cutting the factor.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> factor = fit_nystrom(Gaussian(bandwidth=2.0), X, rank=10, generator=Generator().manual_seed(0))
    >>> factor.root.shape, torch.allclose(factor.transform(X), factor.root)
    (torch.Size([200, 10]), True)
    """
    check_problem(kernel, X, rank)
    checks.one_of("truncation", truncation, TRUNCATIONS)
    m = min(len(X), LANDMARKS_PER_COLUMN * rank) if num_landmarks is None else num_landmarks
    if checks.positive_int("num_landmarks", m) < rank:
        raise ValueError(f"num_landmarks must be at least the rank, {rank}, got {m}.")
    chosen = _landmarks(landmarks, kernel, X, m, generator)
    if truncation == "landmarks":
        features = landmark_map(kernel, chosen, rank)
        factor = DenseFactor(root_of(features, X), features)
    else:
        factor = best_of_rank(landmark_map(kernel, chosen, m), X, rank)
    check_below(kernel, X, factor.root)
    return factor


def _landmarks(rule: str, kernel: Kernel, X: Tensor, count: int, generator: Generator) -> Tensor:
    try:
        return choose_landmarks(rule, kernel, X, count, generator=generator)
    # a rule that factors parts of K met one that has no factor
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on these points.") from error


def landmark_map(kernel: Kernel, landmarks: Tensor, count: int) -> NystromMap:
    """z(x) = S_D^{-1/2} P_D^T k(L, x) with the D = `count` largest eigenpairs of k(L, L), found in float64."""
    values, vectors = torch.linalg.eigh(kernel_matrix(kernel, landmarks))
    check_definite(kernel, values)
    values, vectors = values.flip(0)[:count], vectors.flip(1)[:, :count]
    rounding = max(torch.finfo(landmarks.dtype).eps, len(landmarks) * torch.finfo(values.dtype).eps)
    roots = torch.where(values > values[0] * rounding, values, torch.inf).rsqrt()
    return NystromMap(kernel, landmarks, (vectors * roots).to(landmarks.dtype).contiguous())


def best_of_rank(features: NystromMap, X: Tensor, rank: int) -> DenseFactor:
    """The factor of the best rank-r approximation of F F^T, F = z(X) [n, m], with the map that makes it: z(x) V_r.

    V_r are the main eigenvectors of F^T F, summed over tiles of rows in float64. O(n m (d + m) + m^3).
    """
    gram = torch.zeros(features.num_features, features.num_features, dtype=torch.float64, device=X.device)
    for _, block in features.stream(X, rows=TILE_ROWS):
        gram += (block.T @ block).double()
    checks.finite("k(X, landmarks)", gram)
    main = torch.linalg.eigh(gram).eigenvectors.flip(1)[:, :rank]
    normalization = (features.normalization.double() @ main).to(X.dtype).contiguous()
    cut = NystromMap(features.kernel, features.landmarks, normalization)
    return DenseFactor(root_of(cut, X), cut)


def root_of(features: NystromMap, X: Tensor) -> Tensor:
    """z(X) [n, r], in tiles that bound k(X, L) and not only z(X): there are more landmarks than features."""
    root = X.new_empty(len(X), features.num_features)
    for tile, block in features.stream(X, rows=TILE_ROWS):
        root[tile] = block
    return root
