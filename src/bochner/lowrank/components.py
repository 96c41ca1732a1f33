"""Kernel principal components and spectral embeddings from a low-rank factor."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bochner import checks
from bochner.lowrank.factor import Factor
from bochner.lowrank.regression import centred, gram

# Points with a degree below this share of max k(x, x) are not represented by the factor: a degree includes k(x, x).
MIN_DEGREE = 0.01


class Components(NamedTuple):
    """The leading directions of centred features: the scores of a point are (z(x) - mean) directions. In float64."""

    values: Tensor  # [c], the eigenvalues of the centred kernel matrix, descending
    directions: Tensor  # [r, c], orthonormal
    mean: Tensor  # [r]


def principal_components(root: Tensor, *, n_components: int) -> Components:
    """The c leading eigenpairs of H U U^T H, H = I - 1 1^T / n, for U = `root` [n, r], from the [r, r] problem U^T H U.

    Scores (U - mean(U)) directions [n, c] have squared column norms `values`. Signs make the score of largest magnitude
    in each direction positive. O(n r^2 + r^3). Source: Schölkopf, Smola & Müller 1998.

    >>> U = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> principal_components(U, n_components=1).values
    tensor([18.], dtype=torch.float64)
    """
    if checks.positive_int("n_components", n_components) > checks.inputs("root", root).shape[1]:
        raise ValueError(f"n_components must be at most the rank, {root.shape[1]}, got {n_components}.")
    U, mean = centred(root.double())
    values, vectors = torch.linalg.eigh(gram(U))
    directions = vectors.flip(1)[:, :n_components]
    scores = U @ directions
    farthest = scores.gather(0, scores.abs().argmax(dim=0, keepdim=True))
    signs = torch.where(farthest < 0, -1.0, 1.0).to(U)
    return Components(values.flip(0)[:n_components].clamp_min(0), directions * signs, mean)


def spectral_embedding(factor: Factor, *, n_components: int) -> Tensor:
    """Compute D^{-1/2} (v_1, ..., v_c), of shape [n, c], in float64.

    The v_j are the leading eigenvectors of D^{-1/2} U U^T D^{-1/2} with degrees D = U U^T 1. Rows are constant on each
    of c groups that no edge connects.

    They come from the [r, r] problem B^T B = V S V^T, B = D^{-1/2} U, as B V S^{-1/2}: O(n r^2 + r^3), without the
    graph in memory. The diagonal of U U^T, an edge from each point to itself, is kept.
    Sources: Shi & Malik 2000; Fowlkes et al. 2004.

    >>> from torch import Generator; from bochner.kernels import Gaussian; from bochner.lowrank import truncate
    >>> X = torch.tensor([[0.0], [0.1], [9.0], [9.1]])
    >>> factor = truncate(Gaussian(), X, rank=4, generator=Generator().manual_seed(0))
    >>> embedding = spectral_embedding(factor, n_components=2)
    >>> torch.cdist(embedding, embedding).gt(0.1).int()
    tensor([[0, 0, 1, 1],
            [0, 0, 1, 1],
            [1, 1, 0, 0],
            [1, 1, 0, 0]], dtype=torch.int32)
    """
    if checks.positive_int("n_components", n_components) > factor.rank:
        raise ValueError(f"n_components must be at most the rank, {factor.rank}, got {n_components}.")
    scale = _degrees(factor).rsqrt()[:, None]
    B = scale * factor.root.double()
    values, V = torch.linalg.eigh(gram(B))
    values, V = values.flip(0)[:n_components], V.flip(1)[:, :n_components]
    roots = torch.where(values > values[0] * len(B) * torch.finfo(B.dtype).eps, values, torch.inf).sqrt()
    return scale * (B @ (V / roots))


def _degrees(factor: Factor) -> Tensor:
    """U U^T 1 [n]. With k >= 0 the exact degrees are at least k(x, x), so U misses a point with a degree near 0."""
    diagonal = factor.diag().double()
    degrees = factor.matmul(torch.ones_like(diagonal))
    missed = int((degrees < MIN_DEGREE * diagonal.max()).sum())
    if missed:
        raise ValueError(
            f"factor misses {missed} of {factor.num_points} points, whose degrees are near 0 or negative: raise the "
            "rank or the bandwidth, or use random pivots, which include isolated points."
        )
    return degrees
