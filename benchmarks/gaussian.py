"""The Gaussian map through scikit-learn's interface, against scikit-learn's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.kernel_approximation import RBFSampler

from benchmarks.data import Array, Sizes, gamma, kernel_error, median_bandwidth, points
from benchmarks.measure import Run, interleaved, peak_memory
from benchmarks.report import Row
from bochner import FourierFeatures

PEER = "RBFSampler"
CASES: dict[str, tuple[dict[str, Any], float | None, str]] = {
    "default": ({}, 1.5, "Orthogonal; pairs of cosine and sine need half the projections."),
    "form='cosine'": ({"form": "cosine"}, None, "The peer's formula: the same large product, so no target."),
    "projection='hadamard3'": (
        {"projection": "hadamard3"},
        1.5,
        "Pairs; no large product, inputs padded to a power of two.",
    ),
}
PROJECTIONS = {
    "iid": "The peer's frequencies, in pairs.",
    "orthogonal": "The default.",
    "sobol": "Low-discrepancy points.",
    "hadamard1": "Cheapest; not quite unbiased.",
    "hadamard2": "Close to orthogonal.",
    "hadamard3": "As good as orthogonal, without its matrix.",
    "fastfood": "Unbiased; dependent rows cost some variance.",
    "circulant": "Unbiased; dependent rows cost some variance.",
}


def transform_rows(sizes: Sizes) -> Iterator[Row]:
    X = points(sizes.points, sizes.inputs)
    bandwidth = median_bandwidth(X)
    runs: dict[str, Run] = {PEER: _transform(_peer(X, bandwidth, sizes.features), X)}
    for case, (options, _, _) in CASES.items():
        runs[case] = _transform(_ours(X, bandwidth, sizes.features, **options), X)
    times = interleaved(runs, sizes.repeats)
    product = 2 * sizes.points * sizes.inputs * sizes.features
    flops = {"default": product / 2, "form='cosine'": product}
    table = f"Gaussian map, {sizes.points:,} x {sizes.inputs} to {sizes.features:,} features"
    for case, (_, target, note) in CASES.items():
        yield Row(table, case, PEER, "seconds", times[case], times[PEER], note, target=target, flops=flops.get(case))


def memory_rows(sizes: Sizes) -> Iterator[Row]:
    theirs = [float(peak_memory(prepare_peer, sizes))]
    whole = [float(peak_memory(prepare_whole, sizes))]
    streamed = [float(peak_memory(prepare_stream, sizes))]
    table = "Gaussian map: memory beyond inputs and model"
    yield Row(table, "transform", PEER, "bytes", whole, theirs, "All features at once, and one tile of angles.")
    note = f"Blocks of {sizes.block_rows:,} rows, summed as they come."
    yield Row(table, "stream", PEER, "bytes", streamed, theirs, note, target=0.5)


def prepare_peer(sizes: Sizes) -> Run:
    X = points(sizes.points, sizes.inputs)
    return _transform(_peer(X, median_bandwidth(X), sizes.features), X)


def prepare_whole(sizes: Sizes) -> Run:
    X = points(sizes.points, sizes.inputs)
    return _transform(_ours(X, median_bandwidth(X), sizes.features), X)


def prepare_stream(sizes: Sizes) -> Run:
    X = points(sizes.points, sizes.inputs)
    features = _ours(X, median_bandwidth(X), sizes.features)

    def run() -> object:
        return sum(block.sum(axis=0) for block in features.stream(X, rows=sizes.block_rows))

    return run


def error_rows(sizes: Sizes) -> Iterator[Row]:
    """Errors of every projection at the peer's number of features."""
    X = points(sizes.heldout, sizes.inputs)
    bandwidth = median_bandwidth(X)
    seeds = range(sizes.seeds)
    theirs = [_error(_peer(X, bandwidth, sizes.features, seed=s), X, bandwidth) for s in seeds]
    table = f"Gaussian map: relative kernel error on {sizes.heldout:,} points, {sizes.features:,} features"
    for projection, note in PROJECTIONS.items():
        ours = [_error(_ours(X, bandwidth, sizes.features, seed=s, projection=projection), X, bandwidth) for s in seeds]
        yield Row(table, projection, PEER, "error", ours, theirs, note)


def _peer(X: Array, bandwidth: float, features: int, *, seed: int = 0) -> RBFSampler:
    return RBFSampler(gamma=gamma(bandwidth), n_components=features, random_state=seed).fit(X)


def _ours(X: Array, bandwidth: float, features: int, *, seed: int = 0, **options: Any) -> FourierFeatures:
    z = FourierFeatures(bandwidth=bandwidth, n_components=features, device="cpu", random_state=seed, **options)
    return z.fit(X)


def _transform(features: Any, X: Array) -> Run:
    return lambda: features.transform(X)


def _error(features: Any, X: Array, bandwidth: float) -> float:
    return kernel_error(features.transform(X), X, bandwidth)
