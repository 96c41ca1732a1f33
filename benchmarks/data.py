"""Points to measure on, and settings common to all figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics.pairwise import rbf_kernel

from bochner.kernels import Gaussian

Array = NDArray[np.float32]

CLUSTERS = 20


@dataclass(frozen=True)
class Sizes:
    """The sizes of the figures; the defaults are those of the published pages."""

    points: int = 20_000
    inputs: int = 440
    features: int = 8192
    block_rows: int = 2048
    heldout: int = 2000
    wide_features: int = 65_536
    wide: tuple[tuple[int, int, float], ...] = ((1024, 2048, 3.0), (4096, 512, 8.0))  # inputs, points, target
    sparse_points: int = 2048
    nystrom_inputs: int = 50
    landmarks: int = 1000
    seeds: int = 3
    repeats: int = 9
    ceiling: int = 4096


QUICK = Sizes(
    points=1500,
    inputs=24,
    features=2048,
    block_rows=250,
    heldout=200,
    wide_features=512,
    wide=((32, 16, 3.0), (64, 16, 8.0)),
    sparse_points=16,
    nystrom_inputs=8,
    landmarks=40,
    seeds=2,
    repeats=2,
    ceiling=128,
)


def points(count: int, inputs: int) -> Array:
    """Clusters of uneven size whose inner variance falls from input to input; float32 [count, inputs], always the same.

    Cluster j has a share in proportion to 1 / j, so that rare ones exist; input i has standard deviation i^-1/4.
    """
    rng = np.random.default_rng(0)
    shares = 1 / np.arange(1, CLUSTERS + 1)
    labels = rng.choice(CLUSTERS, size=count, p=shares / shares.sum())
    deviations = np.arange(1, inputs + 1) ** -0.25
    centers = rng.standard_normal((CLUSTERS, inputs))
    noise = rng.standard_normal((count, inputs), dtype=np.float32)
    return (centers[labels] + deviations * noise).astype(np.float32)


def median_bandwidth(X: Array) -> float:
    return Gaussian().with_bandwidth("median", torch.from_numpy(X)).bandwidth


def gamma(bandwidth: float) -> float:
    """scikit-learn's gamma for a bandwidth: exp(-gamma ||x - y||^2)."""
    return 0.5 / bandwidth**2


def kernel_error(Z: Array, X: Array, bandwidth: float) -> float:
    """||Z Z^T - K||_F / ||K||_F for features Z [n, D] of X [n, d], with K by scikit-learn in float64."""
    K = rbf_kernel(X.astype(np.float64), gamma=gamma(bandwidth))
    W = Z.astype(np.float64)
    return float(np.linalg.norm(W @ W.T - K) / np.linalg.norm(K))
