"""Feature maps by their formulas: dense float64 matrices, no fast transform, nothing shared with the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.linalg import circulant, hadamard, sqrtm


def features_oracle(z: Any, X: np.ndarray) -> np.ndarray:
    """z(X) recomputed from the map's stored numbers."""
    return ORACLES[type(z).__name__](z, X)


def projection_oracle(projection: Any) -> np.ndarray:
    """W [d, P] recomputed from the projection's stored numbers."""
    return PROJECTIONS[type(projection).__name__](projection)


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().double().numpy() if tensor.is_floating_point() else tensor.numpy()


def _prepared(kernel: Any, X: np.ndarray) -> np.ndarray:
    if kernel.metric is not None:
        return X @ np.real(sqrtm(_array(kernel.metric)))
    if kernel.scale is None:
        return X
    return X * (kernel.scale if isinstance(kernel.scale, float) else _array(kernel.scale))


def _fourier(z: Any, X: np.ndarray) -> np.ndarray:
    W = projection_oracle(z.projection)
    dense = type(z.projection).__name__ == "DenseProjection"  # whose weights hold scale and metric already
    angles = (X if dense else _prepared(z.kernel, X)) @ W
    a = z.kernel.amplitude
    if z.phases is None:
        return np.sqrt(2 * a / (2 * W.shape[1])) * np.hstack([np.cos(angles), np.sin(angles)])
    return np.sqrt(2 * a / W.shape[1]) * np.cos(angles + _array(z.phases))


def _arc_cosine(z: Any, X: np.ndarray) -> np.ndarray:
    for W in z.weights:
        Z = X @ _array(W)
        X = np.sqrt(2 / W.shape[1]) * np.where(Z > 0, np.where(Z > 0, Z, 0) ** z.kernel.order, 0)
    return X


def _tensor_sketch(z: Any, X: np.ndarray) -> np.ndarray:
    X = np.hstack([_prepared(z.kernel, X), np.full((len(X), 1), np.sqrt(z.kernel.offset))])
    D = z.num_features
    result = np.zeros((len(X), D))
    result[:, 0] = 1
    for places, signs in zip(_array(z.places), _array(z.signs), strict=True):
        sketch = np.zeros((len(X), D))
        for i, (place, sign) in enumerate(zip(places, signs, strict=True)):
            sketch[:, place] += sign * X[:, i]
        result = np.stack([sum(result[:, j] * sketch[:, (t - j) % D] for j in range(D)) for t in range(D)], axis=1)
    return result


def _nystrom(z: Any, X: np.ndarray) -> np.ndarray:
    K = z.kernel(torch.as_tensor(X), z.landmarks.double()).numpy()  # the kernel has an oracle of its own
    return K @ _array(z.normalization)


def _ensemble(z: Any, X: np.ndarray) -> np.ndarray:
    parts = zip(_array(z.weights), z.experts, strict=True)
    return np.hstack([np.sqrt(weight) * _nystrom(expert, X) for weight, expert in parts])


def _sparse(p: Any) -> np.ndarray:
    W = np.zeros((p.num_inputs, p.num_outputs))
    for column, (places, values) in enumerate(zip(_array(p.places), _array(p.values), strict=True)):
        for place, value in zip(places, values, strict=True):
            W[place, column] += value
    return W


def _hadamard(p: Any) -> np.ndarray:
    size = p.diagonals.shape[2]
    H = hadamard(size) / np.sqrt(size)
    blocks = []
    for block in range(p.diagonals.shape[1]):
        M = np.eye(size)
        for diagonal in _array(p.diagonals)[:, block]:
            M = H @ np.diag(diagonal) @ M
        blocks.append(M)
    rows = np.vstack(blocks)[: p.num_outputs, : p.num_inputs]
    return (_array(p.radii)[:, None] * rows).T


def _fastfood(p: Any) -> np.ndarray:
    size = p.signs.shape[1]
    H = hadamard(size)  # unnormalised, as Le et al. write it
    blocks = []
    for signs, order, normals in zip(_array(p.signs), _array(p.permutations), _array(p.normals), strict=True):
        V = H @ np.diag(normals) @ np.eye(size)[order] @ H @ np.diag(signs)
        blocks.append(V / np.linalg.norm(V, axis=1, keepdims=True))
    rows = np.vstack(blocks)[: p.num_outputs, : p.num_inputs]
    return (_array(p.radii)[:, None] * rows).T


def _circulant(p: Any) -> np.ndarray:
    pairs = zip(_array(p.normals), _array(p.signs), strict=True)
    rows = np.vstack([circulant(g / np.linalg.norm(g)) @ np.diag(signs) for g, signs in pairs])
    return (_array(p.radii)[:, None] * rows[: p.num_outputs]).T


ORACLES = {
    "FourierMap": _fourier,
    "ArcCosineMap": _arc_cosine,
    "TensorSketchMap": _tensor_sketch,
    "NystromMap": _nystrom,
    "EnsembleNystromMap": _ensemble,
}
PROJECTIONS = {
    "DenseProjection": lambda p: _array(p.frequencies),
    "SparseProjection": _sparse,
    "HadamardProjection": _hadamard,
    "FastfoodProjection": _fastfood,
    "CirculantProjection": _circulant,
}
