"""Nystrom maps against scikit-learn's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.kernel_approximation import Nystroem

from benchmarks.data import Array, Sizes, gamma, kernel_error, median_bandwidth, points
from benchmarks.measure import Run, interleaved
from benchmarks.report import Row
from bochner import NystromFeatures

PEER = "Nystroem"
RULES = {
    "uniform": "The peer's rule; the small eigenproblem in float64.",
    "kmeans": "Ten rounds of Lloyd's algorithm.",
    "leverage": "Recursive ridge leverage scores.",
    "pivoted-cholesky": "Random pivots, in float64.",
}


def fit_rows(sizes: Sizes) -> Iterator[Row]:
    X, _, bandwidth = _data(sizes)
    runs: dict[str, Run] = {PEER: lambda: _peer(X, bandwidth, sizes.landmarks)}
    for rule in RULES:
        runs[rule] = lambda rule=rule: _ours(X, bandwidth, sizes.landmarks, rule)  # type: ignore[misc]
    times = interleaved(runs, sizes.repeats)
    table = f"Nystrom fit, {sizes.landmarks:,} of {sizes.points:,} points"
    for rule, note in RULES.items():
        target = 1.0 if rule == "uniform" else None
        yield Row(table, rule, PEER, "seconds", times[rule], times[PEER], note, target=target)


def error_rows(sizes: Sizes) -> Iterator[Row]:
    X, heldout, bandwidth = _data(sizes)
    seeds = range(sizes.seeds)
    theirs = [_error(_peer(X, bandwidth, sizes.landmarks, seed=s), heldout, bandwidth) for s in seeds]
    table = f"Nystrom: relative kernel error on {sizes.heldout:,} heldout points"
    for rule in RULES:
        ours = [_error(_ours(X, bandwidth, sizes.landmarks, rule, seed=s), heldout, bandwidth) for s in seeds]
        yield Row(table, rule, PEER, "error", ours, theirs, f"{sizes.landmarks:,} landmarks, as many features.")


def _data(sizes: Sizes) -> tuple[Array, Array, float]:
    X = points(sizes.points + sizes.heldout, sizes.nystrom_inputs)
    return X[: sizes.points], X[sizes.points :], median_bandwidth(X[: sizes.points])


def _peer(X: Array, bandwidth: float, landmarks: int, *, seed: int = 0) -> Nystroem:
    return Nystroem(gamma=gamma(bandwidth), n_components=landmarks, random_state=seed).fit(X)


def _ours(X: Array, bandwidth: float, landmarks: int, rule: str, *, seed: int = 0) -> NystromFeatures:
    features = NystromFeatures(
        bandwidth=bandwidth, num_landmarks=landmarks, landmarks=rule, device="cpu", random_state=seed
    )
    return features.fit(X)


def _error(features: Any, X: Array, bandwidth: float) -> float:
    return kernel_error(features.transform(X), X, bandwidth)
