"""Ensemble Nystrom factors."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.features import EnsembleNystromMap, NystromMap
from bochner.kernels import Kernel
from bochner.lowrank.factor import DenseFactor
from bochner.lowrank.inputs import check_below, check_problem
from bochner.lowrank.nystrom import best_of_rank

# Landmarks of all experts per column of U, unless told otherwise.
LANDMARKS_PER_COLUMN = 4


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
    """K ~ sum_e mu_e K_e with Nystrom approximations K_e from `num_landmarks` / `num_experts` landmarks each, cut back
    to its best rank r.

    An ensemble is one Nystrom map with a block diagonal normalization, so the cut is that of `fit_nystrom`. Its small
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
        most = min(LANDMARKS_PER_COLUMN * rank, len(X))
        num_landmarks = most - most % num_experts
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
    """Each of them by itself, at the landmarks of all: fitted weights may exceed K where no expert does."""
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
