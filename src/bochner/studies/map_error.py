"""Kernel error against the number of features, for every map, on real data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor
from tqdm import tqdm

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Polynomial, SparseGaussian, Stationary

PROTOCOL = (
    "relative Frobenius error ||Z Z' - K|| / ||K|| of the kernel matrix on 500 heldout images of scikit-learn's "
    "digits (64 inputs, standardised; landmarks from the other 1,297; median bandwidth), mean over seeds"
)


@dataclass(frozen=True)
class Row:
    """The error of one map at one size, over seeds."""

    family: str
    map: str
    kernel: str
    num_features: int
    error: float
    spread: float


@dataclass(frozen=True)
class _Case:
    family: str
    map: str
    kernel: Kernel
    make: Callable[[int, Generator], FeatureMap]


def run(
    *, sizes: Sequence[int] = (64, 128, 256, 512, 1024), seeds: Iterable[int] = range(3), progress: bool = True
) -> list[Row]:
    """Measure every map at every size; ensembles and Nystrom maps take as many landmarks as features."""
    train, heldout = _digits()
    cases = _cases(train)
    rows = []
    exact = {id(case): case.kernel(heldout) for case in cases}
    bar = tqdm([(case, size) for case in cases for size in sizes], disable=not progress, unit="map")
    for case, size in bar:
        bar.set_description(f"{case.map:<28} D={size:<5}")
        K = exact[id(case)]
        errors = torch.stack([_error(case.make(size, Generator().manual_seed(seed)), heldout, K) for seed in seeds])
        rows.append(
            Row(
                case.family, case.map, _name(case.kernel), size, float(errors.mean()), float(errors.std(unbiased=False))
            )
        )
    return rows


def table(rows: Sequence[Row]) -> str:
    """One line a map, one column a size."""
    sizes = sorted({row.num_features for row in rows})
    lines = [f"{'kernel':<16} {'map':<28}" + "".join(f"{f'D={size}':>10}" for size in sizes)]
    for kernel, name in dict.fromkeys((row.kernel, row.map) for row in rows):
        errors = {row.num_features: row.error for row in rows if (row.kernel, row.map) == (kernel, name)}
        lines.append(f"{kernel:<16} {name:<28}" + "".join(f"{errors[size]:>10.4f}" for size in sizes))
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Error against D, one panel a family, with the 1 / sqrt(D) line that independent features follow."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    families = list(dict.fromkeys(row.family for row in rows))
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), sharex=True, sharey=True, constrained_layout=True)
    for axis, family in zip(axes.flat, families, strict=True):
        mine = [row for row in rows if row.family == family]
        for name in dict.fromkeys(row.map for row in mine):
            points = [row for row in mine if row.map == name]
            axis.errorbar(
                [row.num_features for row in points],
                [row.error for row in points],
                yerr=[row.spread for row in points],
                marker="o",
                markersize=4,
                capsize=2,
                label=name,
            )
        sizes = sorted({row.num_features for row in mine})
        start = max(row.error for row in mine if row.num_features == sizes[0])
        slope = [start * (sizes[0] / size) ** 0.5 for size in sizes]
        axis.plot(sizes, slope, color="gray", linestyle=":", label="1/sqrt(D)")
        axis.set(title=family, xscale="log", yscale="log", xlabel="features D", ylabel="relative kernel error")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _digits() -> tuple[Tensor, Tensor]:
    X = torch.as_tensor(load_digits().data, dtype=torch.float32)
    X = (X - X.mean(dim=0)) / X.std(dim=0).clamp_min(1e-6)
    X = X[torch.randperm(len(X), generator=Generator().manual_seed(0))]
    return X[500:], X[:500]


def _cases(train: Tensor) -> list[_Case]:
    def suited(kernel: Stationary) -> Stationary:
        return kernel.with_bandwidth("median", train)

    d = train.shape[1]
    gaussian, laplacian, sparse = suited(Gaussian()), suited(Laplacian()), suited(SparseGaussian(subset_size=5))

    def fourier(family: str, name: str, kernel: Kernel, projection: str, form: str = "paired") -> _Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return FourierMap.draw(
                kernel, num_inputs=d, num_features=size, projection=projection, form=form, generator=generator
            )

        return _Case(family, name, kernel, make)

    def nystrom(rule: str) -> _Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return NystromMap.fit(gaussian, train, num_landmarks=size, landmarks=rule, generator=generator)

        return _Case("Nystrom", f"nystrom {rule}", gaussian, make)

    def ensemble(size: int, generator: Generator) -> FeatureMap:
        return EnsembleNystromMap.fit(gaussian, train, num_landmarks=size, num_experts=4, generator=generator)

    def arc_cosine(depth: int) -> _Case:
        kernel = ArcCosine(order=1, depth=depth)

        def make(size: int, generator: Generator) -> FeatureMap:
            return ArcCosineMap.draw(kernel, num_inputs=d, num_features=size, generator=generator)

        return _Case("other kernels", f"arc-cosine, {depth} layer{'s' * (depth > 1)}", kernel, make)

    polynomial = Polynomial(degree=2, scale=d**-0.5)

    def sketch(size: int, generator: Generator) -> FeatureMap:
        return TensorSketchMap.draw(polynomial, num_inputs=d, num_features=size, generator=generator)

    dense, structured, other = "Fourier, dense", "Fourier, structured", "other kernels"
    return [
        fourier(dense, "iid, cosine", gaussian, "iid", "cosine"),
        fourier(dense, "iid, paired", gaussian, "iid"),
        fourier(dense, "orthogonal", gaussian, "orthogonal"),
        fourier(dense, "sobol", gaussian, "sobol"),
        *[fourier(structured, f"hadamard, chain of {n}", gaussian, f"hadamard{n}") for n in (1, 2, 3)],
        fourier(structured, "fastfood", gaussian, "fastfood"),
        fourier(structured, "circulant", gaussian, "circulant"),
        *[nystrom(rule) for rule in ("uniform", "kmeans", "leverage", "pivoted-cholesky")],
        _Case("Nystrom", "nystrom, 4 experts", gaussian, ensemble),
        fourier(other, "laplacian, iid", laplacian, "iid"),
        fourier(other, "sparse gaussian", sparse, "sparse"),
        *[arc_cosine(depth) for depth in (1, 2, 3)],
        _Case(other, "tensor sketch", polynomial, sketch),
    ]


def _error(z: FeatureMap, X: Tensor, K: Tensor) -> Tensor:
    return (z.approximate(X, X) - K).norm() / K.norm()


def _name(kernel: Kernel) -> str:
    return {"ArcCosine": "arc-cosine", "SparseGaussian": "sparse gaussian"}.get(
        type(kernel).__name__, type(kernel).__name__.lower()
    )
