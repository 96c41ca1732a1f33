"""Factors from columns of K: Nystrom, ensembles of Nystrom approximations, pivoted Cholesky; and Fourier features."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import EnsembleNystromMap, FourierMap, NystromMap, choose_landmarks
from bochner.features.landmarks import pivoted_cholesky
from bochner.kernels import Kernel
from bochner.lowrank.factor import DenseFactor, check_below, check_definite, check_problem, kernel_matrix

# Default number of landmarks per column of U: at rank 50 on german.numer the spectral error exceeds the optimum by 14 %
# with 4 and by 0.1 % with 8.
LANDMARKS_PER_COLUMN = 8
ENSEMBLE_LANDMARKS_PER_COLUMN = 4  # of all experts together
TILE_ROWS = 4096  # rows of k(X, L) at once: 64 MiB in float64 for 2,048 landmarks
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
    """Nystrom factor: with C = k(X, L) [n, m] and W = k(L, L) = P S P^T on m landmarks L, K ~ C W^+ C^T = F F^T,
    F = C P S^{-1/2} [n, m], truncated to rank r:

        truncation "factor":     U = F V_r, V_r the r leading right singular vectors of F: the best rank r of F F^T;
        truncation "landmarks":  U = C P_r S_r^{-1/2}, the r largest eigenpairs of W: the standard Nystrom method.

    `num_landmarks` m is 8 r (at most n) when None. `landmarks` is a rule of `choose_landmarks`: random pivots include
    isolated points, which uniform points and k-means centres miss. F is never stored: two passes over the rows of C,
    O(n m (d + m)) time, O(n r + m^2) memory (choosing pivots takes O(n m)). Directions of W below the rounding of X's
    dtype are dropped, so duplicated points do no harm. transform(points) is U itself.
    Sources: Williams & Seeger 2001; Zhang, Tsang & Kwok 2008; Tropp et al. 2017 for truncating the factor.

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
    # the rule factorizes parts of K
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on these points.") from error


def landmark_map(kernel: Kernel, landmarks: Tensor, count: int) -> NystromMap:
    """z(x) = S_D^{-1/2} P_D^T k(L, x) with the D = `count` largest eigenpairs of k(L, L), computed in float64."""
    values, vectors = torch.linalg.eigh(kernel_matrix(kernel, landmarks))
    check_definite(kernel, values)
    values, vectors = values.flip(0)[:count], vectors.flip(1)[:, :count]
    rounding = max(torch.finfo(landmarks.dtype).eps, len(landmarks) * torch.finfo(values.dtype).eps)
    roots = torch.where(values > values[0] * rounding, values, torch.inf).rsqrt()
    return NystromMap(kernel, landmarks, (vectors * roots).to(landmarks.dtype).contiguous())


def best_of_rank(features: NystromMap, X: Tensor, rank: int) -> DenseFactor:
    """The factor of the best rank-r approximation of F F^T, F = z(X) [n, m], and its map z(x) V_r.

    V_r are the leading eigenvectors of F^T F, summed over tiles of rows in float64. O(n m (d + m) + m^3).
    """
    gram = torch.zeros(features.num_features, features.num_features, dtype=torch.float64, device=X.device)
    for _, block in features.stream(X, rows=TILE_ROWS):
        gram += (block.T @ block).double()
    checks.finite("k(X, landmarks)", gram)
    leading = torch.linalg.eigh(gram).eigenvectors.flip(1)[:, :rank]
    normalization = (features.normalization.double() @ leading).to(X.dtype).contiguous()
    truncated = NystromMap(features.kernel, features.landmarks, normalization)
    return DenseFactor(root_of(truncated, X), truncated)


def root_of(features: NystromMap, X: Tensor) -> Tensor:
    """z(X) [n, r], in tiles that bound k(X, L) and not only z(X): there are more landmarks than features."""
    root = X.new_empty(len(X), features.num_features)
    for tile, block in features.stream(X, rows=TILE_ROWS):
        root[tile] = block
    return root


def fit_ensemble(
    kernel: Kernel,
    X: Tensor,
    *,
    rank: int,
    num_landmarks: int | None = None,
    num_experts: int = 4,
    weighting: str = "uniform",
    landmarks: str = "uniform",
    generator: Generator,
) -> DenseFactor:
    """K ~ sum_e mu_e K_e with Nystrom approximations K_e from `num_landmarks` / `num_experts` landmarks each, truncated
    to its best rank r.

    An ensemble is a Nystrom map with a block diagonal normalization and is truncated as in `fit_nystrom`. Its small
    eigenproblems are e^2 times cheaper than those of one expert with all m landmarks, and its error is larger.
    `num_landmarks` m is 4 r when None, a multiple of e, at most n; `weighting` as in `EnsembleNystromMap.fit`.
    O(n m (d + m) + m^3). Source: Kumar, Mohri & Talwalkar 2009.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(200, 3, generator=Generator().manual_seed(0))
    >>> fit_ensemble(Gaussian(bandwidth=2.0), X, rank=10, generator=Generator().manual_seed(0)).root.shape
    torch.Size([200, 10])
    """
    check_problem(kernel, X, rank)
    checks.positive_int("num_experts", num_experts)
    if num_landmarks is None:
        max_landmarks = min(ENSEMBLE_LANDMARKS_PER_COLUMN * rank, len(X))
        num_landmarks = max_landmarks - max_landmarks % num_experts
    if checks.positive_int("num_landmarks", num_landmarks) < rank:
        raise ValueError(f"num_landmarks must be at least the rank, {rank}, got {num_landmarks}.")
    ensemble = EnsembleNystromMap.fit(
        kernel,
        X,
        num_landmarks=num_landmarks,
        num_experts=num_experts,
        weighting=weighting,
        landmarks=landmarks,
        generator=generator,
    )
    _check_experts(ensemble)
    return best_of_rank(_single(ensemble), X, rank)


def _check_experts(ensemble: EnsembleNystromMap) -> None:
    """Check each expert alone, at the landmarks of all: a weighted sum may exceed K although no expert does."""
    experts: list[NystromMap] = list(ensemble.experts)  # type: ignore[arg-type]
    landmarks = torch.cat([expert.landmarks for expert in experts])
    for expert in experts:
        check_below(ensemble.kernel, landmarks, expert(landmarks))


def _single(ensemble: EnsembleNystromMap) -> NystromMap:
    """z(x) = k(x, [L_1 .. L_e]) blockdiag(sqrt(mu_e) N_e): the same features from one map."""
    experts: list[NystromMap] = list(ensemble.experts)  # type: ignore[arg-type]
    blocks = [root * expert.normalization for root, expert in zip(ensemble.weights.sqrt(), experts, strict=True)]
    landmarks = torch.cat([expert.landmarks for expert in experts])
    return NystromMap(ensemble.kernel, landmarks, torch.block_diag(*blocks))


def fit_pivoted_cholesky(kernel: Kernel, X: Tensor, *, rank: int, generator: Generator) -> DenseFactor:
    """U [n, r], the partial Cholesky factor of K = k(X, X) with pivots drawn in proportion to the residual diagonal:
    exact on the rows of the pivots P, and E tr(K - U U^T) near the optimum for the rank.

    A new point has z(x) = U_P^{-1} k(P, x), U_P [r, r] lower triangular: transform(points) is U. If K has a lower rank
    (duplicated points, a huge bandwidth), the remaining columns are zero. Only r columns of K are evaluated, in
    float64: O(n r (d + r)) time, O(n r) memory. `fit_nystrom` truncates 8 r such pivots to rank r.
    Source: Chen et al. 2025; Epperly et al. 2024.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0), dtype=torch.float64)
    >>> factor = fit_pivoted_cholesky(Gaussian(), X, rank=30, generator=Generator().manual_seed(0))
    >>> bool((factor.diag() <= 1 + 1e-9).all()), bool(factor.diag().mean() > 0.99)
    (True, True)
    """
    check_problem(kernel, X, rank)
    pivots, root = pivoted_cholesky(kernel, X, rank, generator=generator)
    check_definite(kernel, torch.linalg.eigvalsh(kernel_matrix(kernel, X[pivots])))
    check_below(kernel, X, root)
    features = NystromMap(kernel, X[pivots], _inverse_transposed(root[pivots]).to(X.dtype).contiguous())
    return DenseFactor(root.to(X.dtype), features)


def _inverse_transposed(lower: Tensor) -> Tensor:
    """L^{-T} [r, r], with zeros beyond the last pivot."""
    used = int((lower.diagonal() > 0).sum())
    inverse = torch.zeros_like(lower)
    identity = torch.eye(used, dtype=lower.dtype, device=lower.device)
    inverse[:used, :used] = torch.linalg.solve_triangular(lower[:used, :used].T, identity, upper=True)
    return inverse


def fit_fourier(
    kernel: Kernel, X: Tensor, *, rank: int, projection: str = "auto", form: str = "auto", generator: Generator
) -> DenseFactor:
    """U = z(X) [n, r] with r random Fourier features of a spectral kernel: unbiased, E U U^T = K, and independent of
    the data.

    `projection` and `form` as in `FourierMap.draw`; form "auto" is "paired" for an even rank, else "cosine". The
    spectral error falls as n / sqrt(r), the largest of the methods at equal rank; the cost is the lowest, at most
    O(n r d).
    Source: Rahimi & Recht 2007; Bhardwaj 2015, 2.3.

    >>> import torch; from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0))
    >>> fit_fourier(Gaussian(), X, rank=10, generator=Generator().manual_seed(0)).diag().round(decimals=4).unique()
    tensor([1.])
    """
    check_problem(kernel, X, rank)
    if form == "auto":
        form = "cosine" if rank % 2 else "paired"
    features = FourierMap.draw(
        kernel,
        num_inputs=X.shape[1],
        num_features=rank,
        projection=projection,
        form=form,
        generator=generator,
        dtype=X.dtype,
    ).to(X.device)
    return DenseFactor(features(X), features)
