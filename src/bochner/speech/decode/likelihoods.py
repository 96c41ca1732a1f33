"""From a classifier's posteriors to the likelihoods that an HMM wants."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner import checks

Frames = NDArray[np.float32]


def log_priors(labels: ArrayLike, *, num_pdfs: int, pseudo_count: float = 1.0) -> NDArray[np.float64]:
    """log p(s) by counting labels [N], each pdf `pseudo_count` times more, so that none has probability 0; [num_pdfs].

    >>> np.exp(log_priors([0, 0, 1], num_pdfs=3)).round(3).tolist()
    [0.5, 0.333, 0.167]
    """
    counts = np.bincount(np.asarray(labels).ravel(), minlength=checks.positive_int("num_pdfs", num_pdfs))
    if len(counts) > num_pdfs:
        raise ValueError(f"labels must be below num_pdfs={num_pdfs}, got {len(counts) - 1}.")
    smoothed = counts + checks.positive_float("pseudo_count", pseudo_count)
    return np.log(smoothed / smoothed.sum())


def scaled_likelihoods(log_posteriors: ArrayLike, log_priors: ArrayLike) -> Frames:
    """log p(x | s) + constant = log p(s | x) - log p(s), for posteriors [T, S] and priors [S].

    Source: Bourlard & Morgan 1994.

    >>> np.exp(scaled_likelihoods(np.log([[0.5, 0.5]]), np.log([0.8, 0.2]))).round(3)
    array([[0.625, 2.5  ]], dtype=float32)
    """
    posteriors, priors = np.asarray(log_posteriors), np.asarray(log_priors)
    if posteriors.ndim != 2 or priors.shape != posteriors.shape[1:]:
        raise ValueError(
            f"log_posteriors must be [T, S] and log_priors [S], got {posteriors.shape} and {priors.shape}."
        )
    return (posteriors - priors).astype(np.float32)
