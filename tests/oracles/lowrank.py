"""Low-rank approximations by their formulas: whole float64 matrices in NumPy, nothing shared with the package."""

from __future__ import annotations

from typing import Any

import numpy as np


def best_of_rank(M: np.ndarray, rank: int) -> np.ndarray:
    """The nearest matrix of that rank to a symmetric positive semi-definite M."""
    values, vectors = np.linalg.eigh(M)
    return (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T


def nystrom(C: np.ndarray, W: np.ndarray, rank: int, truncation: str) -> np.ndarray:
    """C W^+ C^T, of which either W or the whole is cut to `rank`."""
    if truncation == "landmarks":
        return C @ np.linalg.pinv(best_of_rank(W, rank), rcond=1e-12) @ C.T
    return best_of_rank(C @ np.linalg.pinv(W, rcond=1e-12, hermitian=True) @ C.T, rank)


def root(factor: Any) -> np.ndarray:
    """U, row by row."""
    if type(factor).__name__ == "DenseFactor":
        return factor.root.double().numpy()
    links = factor.features.links.double().numpy()
    pairs = zip(factor.basis.double().numpy(), factor.clusters.numpy(), strict=True)
    return np.stack([row @ links[cluster] for row, cluster in pairs])


def solve(U: np.ndarray, alpha: float, y: np.ndarray) -> np.ndarray:
    return np.linalg.solve(U @ U.T + alpha * np.eye(len(U)), y)


def logdet(U: np.ndarray, alpha: float) -> float:
    return float(np.linalg.slogdet(U @ U.T + alpha * np.eye(len(U)))[1])


def condition_number(U: np.ndarray) -> float:
    values = np.linalg.svd(U, compute_uv=False)
    return float((values[0] / values[-1]) ** 2)


def spectral_error(K: np.ndarray, U: np.ndarray) -> float:
    return float(np.linalg.norm(K - U @ U.T, 2))


def frobenius_error(K: np.ndarray, U: np.ndarray) -> float:
    return float(np.sqrt(sum((K[i, j] - U[i] @ U[j]) ** 2 for i in range(len(K)) for j in range(len(K)))))


def stable_rank(K: np.ndarray) -> float:
    values = np.linalg.eigvalsh(K)
    return float((values**2).sum() / values[-1] ** 2)


def coherence(U: np.ndarray) -> float:
    Q = np.linalg.svd(U, full_matrices=False)[0]
    return float(np.sqrt(len(U) / U.shape[1]) * max(np.linalg.norm(row) for row in Q))
