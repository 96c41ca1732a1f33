"""Kernels one pair at a time, in float64 from the formulas, independent of the library."""

import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import sqrtm
from scipy.special import gamma, kv

Pair = Callable[[np.ndarray, np.ndarray], float]


def matrix(k: Pair, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.array([[k(x, y) for y in Y] for x in X])


def gaussian(bandwidth: float) -> Pair:
    return lambda x, y: math.exp(-sum((x - y) ** 2) / (2 * bandwidth**2))


def laplacian(bandwidth: float) -> Pair:
    return lambda x, y: math.exp(-sum(abs(x - y)) / bandwidth)


def power_exponential(exponent: float, norm: float, bandwidth: float) -> Pair:
    def k(x: np.ndarray, y: np.ndarray) -> float:
        return math.exp(-((sum(abs(x - y) ** norm) ** (1 / norm) / bandwidth) ** exponent))

    return k


def cauchy(bandwidth: float) -> Pair:
    return lambda x, y: math.prod(1 / (1 + ((a - b) / bandwidth) ** 2) for a, b in zip(x, y, strict=True))


def matern(smoothness: float, bandwidth: float) -> Pair:
    """2^(1 - nu) / Gamma(nu) t^nu K_nu(t), the formula for any nu."""

    def k(x: np.ndarray, y: np.ndarray) -> float:
        t = math.sqrt(2 * smoothness * sum((x - y) ** 2)) / bandwidth
        if t == 0:
            return 1.0
        return 2 ** (1 - smoothness) / gamma(smoothness) * t**smoothness * kv(smoothness, t)

    return k


def sparse_gaussian(subset_size: int, bandwidth: float) -> Pair:
    """The mean over all subsets, by enumeration."""

    def k(x: np.ndarray, y: np.ndarray) -> float:
        subsets = list(itertools.combinations(range(len(x)), subset_size))
        return sum(gaussian(bandwidth)(x[list(F)], y[list(F)]) for F in subsets) / len(subsets)

    return k


def polynomial(degree: int, offset: float) -> Pair:
    return lambda x, y: (sum(x * y) + offset) ** degree


def arc_cosine(order: int, depth: int = 1) -> Pair:
    def k(x: np.ndarray, y: np.ndarray) -> float:
        xy, xx, yy = sum(x * y), sum(x * x), sum(y * y)
        for _ in range(depth):
            xy, xx, yy = (_arc_cosine_layer(order, *values) for values in ((xy, xx, yy), (xx, xx, xx), (yy, yy, yy)))
        return xy

    return k


def _arc_cosine_layer(order: int, xy: float, xx: float, yy: float) -> float:
    length = math.sqrt(xx) * math.sqrt(yy)
    if length == 0 and order > 0:
        return 0.0
    # the arc cosine of a rounded 1 would lose half the digits of the diagonal
    theta = 0.0 if xy == xx == yy else math.acos(max(-1.0, min(1.0, xy / length)))
    sine, cosine = math.sin(theta), math.cos(theta)
    J = {
        0: math.pi - theta,
        1: sine + (math.pi - theta) * cosine,
        2: 3 * sine * cosine + (math.pi - theta) * (1 + 2 * cosine**2),
    }
    return length**order * J[order] / math.pi


def scaled(k: Pair, scale: ArrayLike) -> Pair:
    s = np.asarray(scale)
    return lambda x, y: k(s * x, s * y)


def with_metric(k: Pair, metric: ArrayLike) -> Pair:
    root = np.real(sqrtm(np.asarray(metric)))
    return lambda x, y: k(root @ x, root @ y)


def weighted_sum(*parts: tuple[float, Pair]) -> Pair:
    return lambda x, y: sum(weight * k(x, y) for weight, k in parts)


def product(*parts: Pair) -> Pair:
    return lambda x, y: math.prod(k(x, y) for k in parts)
