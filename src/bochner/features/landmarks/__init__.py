"""Landmarks: the points on which a Nystrom map stands."""

from __future__ import annotations

from torch import Generator, Tensor

from bochner import checks
from bochner.features.landmarks.kmeans import kmeans_centers
from bochner.features.landmarks.leverage import leverage_sample
from bochner.features.landmarks.pivots import pivoted_cholesky
from bochner.features.landmarks.sampling import uniform_sample
from bochner.kernels import Kernel

__all__ = [
    "LANDMARK_RULES",
    "choose_landmarks",
    "kmeans_centers",
    "leverage_sample",
    "pivoted_cholesky",
    "uniform_sample",
]

LANDMARK_RULES = ["uniform", "kmeans", "leverage", "pivoted-cholesky"]


def choose_landmarks(rule: str, kernel: Kernel, X: Tensor, num_landmarks: int, *, generator: Generator) -> Tensor:
    """`num_landmarks` points [m, d] for X [n, d]:

    "uniform" points of X, "kmeans" centres, or points of X by ridge "leverage" scores or by random pivots of a
    "pivoted-cholesky" factorisation of k(X, X).
    """
    checks.one_of("landmarks", rule, LANDMARK_RULES)
    checks.positive_int("num_landmarks", num_landmarks)
    checks.inputs("X", X)
    if num_landmarks > len(X):
        raise ValueError(f"num_landmarks must be at most the number of points, {len(X)}, got {num_landmarks}.")
    match rule:
        case "uniform":
            return X[uniform_sample(len(X), num_landmarks, generator=generator).to(X.device)]
        case "kmeans":
            return kmeans_centers(X, num_landmarks, generator=generator)
        case "leverage":
            return X[leverage_sample(kernel, X, num_landmarks, generator=generator)]
        case _:
            return X[pivoted_cholesky(kernel, X, num_landmarks, generator=generator).pivots]
