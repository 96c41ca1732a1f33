"""Large numbers of features: structured and sparse projections compared with a dense matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Generator, Tensor, nn

from benchmarks.data import Sizes, points
from benchmarks.measure import Run, interleaved
from benchmarks.report import Row
from bochner.features import FourierMap
from bochner.kernels import Gaussian, SparseGaussian, Stationary
from bochner.ops import row_tiles

DENSE = "iid"
STRUCTURED = {
    "hadamard1": "One Hadamard transform of signed inputs.",
    "hadamard2": "Two transforms, signs before each.",
    "hadamard3": "Three transforms: the closest to a uniform rotation.",
    "fastfood": "Two transforms with a permutation between them.",
    "circulant": "Shifts of one Gaussian vector, by Fourier transforms.",
}


def structured_rows(sizes: Sizes) -> Iterator[Row]:
    for inputs, count, target in sizes.wide:
        X = torch.from_numpy(points(count, inputs))
        kernel = Gaussian().with_bandwidth("median", X)
        maps = {name: _draw(kernel, inputs, sizes.wide_features, name, "cosine") for name in [DENSE, *STRUCTURED]}
        out = _pages(count, sizes.wide_features)
        table = f"Structured projections, d = {inputs:,}, {sizes.wide_features:,} features"
        times = interleaved({name: _projection(z, X, out) for name, z in maps.items()}, sizes.repeats)
        for name, note in STRUCTURED.items():
            yield Row(table, f"{name}: projection", DENSE, "seconds", times[name], times[DENSE], note, target=target)
        times = interleaved({name: _map(z, X, out) for name, z in maps.items()}, sizes.repeats)
        for name in STRUCTURED:
            note = "The same and its cosines, which cost all alike."
            yield Row(table, f"{name}: map", DENSE, "seconds", times[name], times[DENSE], note)
        stored = {name: [float(stored_bytes(z))] for name, z in maps.items()}
        for name in STRUCTURED:
            yield Row(table, f"{name}: parameters", DENSE, "bytes", stored[name], stored[DENSE], "Phases included.")


def sparse_rows(sizes: Sizes) -> Iterator[Row]:
    X = torch.from_numpy(points(sizes.sparse_points, sizes.inputs))
    kernel = SparseGaussian(subset_size=5).with_bandwidth("median", X)
    table = f"Sparse Gaussian, 5 of {sizes.inputs} inputs, {sizes.wide_features:,} features"
    peer = f"{DENSE}, same kernel"
    out = _pages(sizes.sparse_points, sizes.wide_features)
    for form in ["paired", "cosine"]:
        dense = _draw(kernel, sizes.inputs, sizes.wide_features, DENSE, form)
        sparse = _draw(kernel, sizes.inputs, sizes.wide_features, "sparse", form)
        times = interleaved({"dense": _map(dense, X, out), "sparse": _map(sparse, X, out)}, sizes.repeats)
        note = {"paired": "The default form: half the projections.", "cosine": "One projection per feature."}[form]
        yield Row(table, f"map, {form}", peer, "seconds", times["sparse"], times["dense"], note, target=2.0)
        if form == "paired":
            stored = [float(stored_bytes(sparse))], [float(stored_bytes(dense))]
            note = "5 places and 5 values a frequency."
            yield Row(table, "parameters", peer, "bytes", *stored, note, target=0.03)
        else:
            runs = {"dense": _projection(dense, X, out), "sparse": _projection(sparse, X, out)}
            times = interleaved(runs, sizes.repeats)
            note = "Without the cosines."
            yield Row(table, "projection", peer, "seconds", times["sparse"], times["dense"], note)


def stored_bytes(module: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


def _draw(kernel: Stationary, inputs: int, features: int, projection: str, form: str) -> FourierMap:
    generator = Generator().manual_seed(0)
    return FourierMap.draw(
        kernel, num_inputs=inputs, num_features=features, projection=projection, form=form, generator=generator
    )


def _pages(rows: int, columns: int) -> Tensor:
    """An output array allocated by NumPy; the warm-up touches its pages."""
    return torch.from_numpy(np.empty((rows, columns), dtype=np.float32))


def _map(z: FourierMap, X: Tensor, out: Tensor) -> Run:
    return lambda: z.write(X, out)


def _projection(z: FourierMap, X: Tensor, out: Tensor) -> Run:
    """The projection alone, in the tiles of the map."""

    def run() -> None:
        P = z.projection.num_outputs
        for tile in row_tiles(len(X), row_elements=P, tile_elements=z.projection.tile_elements):
            z.projection.write(X[tile], out[tile, :P])

    return torch.no_grad()(run)
