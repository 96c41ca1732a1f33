"""Kernel error against the number of features, for every feature map, on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

import torch
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from bochner.features import ArcCosineMap, EnsembleNystromMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Polynomial, SparseGaussian, Stationary
from bochner.report import Page
from bochner.studies import costs
from bochner.studies.drawing import Curve, Panel, draw_panel
from bochner.studies.findings import Decision, Finding, by
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

PROTOCOL = (
    "relative Frobenius error ||Z Z' - K|| / ||K|| of the kernel matrix on 500 heldout images of scikit-learn's "
    "digits (64 inputs, standardised; landmarks from the other 1,297; median bandwidth), mean over seeds"
)


@dataclass(frozen=True)
class Case:
    """A map, and the function that draws it with any number of features."""

    family: str
    map: str
    kernel: Kernel
    make: Callable[[int, Generator], FeatureMap]


def digits() -> tuple[Tensor, Tensor]:
    """Standardised images to choose landmarks from, and 500 other images."""
    X = torch.as_tensor(load_digits().data, dtype=torch.float32)
    X = (X - X.mean(dim=0)) / X.std(dim=0).clamp_min(1e-6)
    X = X[torch.randperm(len(X), generator=Generator().manual_seed(0))]
    return X[500:], X[:500]


def cases(train: Tensor) -> list[Case]:
    """Every map, with bandwidths from the median rule."""

    def scaled(kernel: Stationary) -> Stationary:
        return kernel.with_bandwidth("median", train)

    d = train.shape[1]
    gaussian, laplacian, sparse = scaled(Gaussian()), scaled(Laplacian()), scaled(SparseGaussian(subset_size=5))

    def fourier(family: str, name: str, kernel: Kernel, projection: str, form: str = "paired") -> Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return FourierMap.draw(
                kernel, num_inputs=d, num_features=size, projection=projection, form=form, generator=generator
            )

        return Case(family, name, kernel, make)

    def nystrom(rule: str) -> Case:
        def make(size: int, generator: Generator) -> FeatureMap:
            return NystromMap.fit(gaussian, train, num_landmarks=size, landmarks=rule, generator=generator)

        return Case("Nystrom", f"nystrom {rule}", gaussian, make)

    def ensemble(size: int, generator: Generator) -> FeatureMap:
        return EnsembleNystromMap.fit(gaussian, train, num_landmarks=size, num_experts=4, generator=generator)

    def arc_cosine(depth: int) -> Case:
        kernel = ArcCosine(order=1, depth=depth)

        def make(size: int, generator: Generator) -> FeatureMap:
            return ArcCosineMap.draw(kernel, num_inputs=d, num_features=size, generator=generator)

        return Case("other kernels", f"arc-cosine, {depth} layer{'s' * (depth > 1)}", kernel, make)

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
        Case("Nystrom", "nystrom, 4 experts", gaussian, ensemble),
        fourier(other, "laplacian, iid", laplacian, "iid"),
        fourier(other, "sparse gaussian", sparse, "sparse"),
        *[arc_cosine(depth) for depth in (1, 2, 3)],
        Case(other, "tensor sketch", polynomial, sketch),
    ]


def relative_error(z: FeatureMap, X: Tensor, K: Tensor) -> Tensor:
    """||Z Z' - K|| / ||K||."""
    return (z.approximate(X, X) - K).norm() / K.norm()


def kernel_name(kernel: Kernel) -> str:
    return {"ArcCosine": "arc-cosine", "SparseGaussian": "sparse gaussian"}.get(
        type(kernel).__name__, type(kernel).__name__.lower()
    )


@dataclass(frozen=True)
class Cell:
    """A map of scikit-learn's digits."""

    map: str
    num_features: int
    seed: int


def cells(size: Size) -> list[Cell]:
    sizes, seeds = {
        "smoke": ((64, 256), range(1)),
        "small": ((64, 128, 256, 512, 1024), range(5)),
        "paper": ((64, 128, 256, 512, 1024), range(10)),
    }[size]
    names = [case.map for case in cases(digits()[0])]
    return [Cell(name, count, seed) for name in names for count in sizes for seed in seeds]


def prepare(context: Context) -> Callable[[Cell], Result]:
    """The digits are part of scikit-learn; no file is read."""
    train, heldout = (X.to(context.device) for X in digits())
    known = {case.map: case for case in cases(train)}

    @cache
    def exact(name: str) -> Tensor:
        return known[name].kernel(heldout)

    def measure(cell: Cell) -> Result:
        case = known[cell.map]
        z = case.make(cell.num_features, Generator().manual_seed(cell.seed)).to(context.device)
        error = float(relative_error(z, heldout, exact(cell.map)))
        return {"family": case.family, "kernel": kernel_name(case.kernel), "error": error}

    return measure


def show(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for (family,), members in by(rows, "family").items():
        curves = []
        for style, ((name,), group) in enumerate(by(members, "map").items()):
            sizes = sorted(
                (count, [row["error"] for row in seeds]) for (count,), seeds in by(group, "num_features").items()
            )
            points = [(count, fmean(errors), min(errors), max(errors)) for count, errors in sizes]
            curves.append(Curve(name, points, style))
        panel = Panel(family, "features D", "relative kernel error", curves)
        drawn.append((draw_panel(panel), f"{family}: mean over seeds, with minimum and maximum."))
    page.figures(drawn)
    body = [
        [*key, fmean(row["error"] for row in seeds), len(seeds)]
        for key, seeds in by(rows, "kernel", "map", "num_features").items()
    ]
    page.table(["kernel", "map", "D", "relative kernel error", "seeds"], body)


def orthogonal_is_lower(rows: Sequence[Row]) -> Decision | None:
    """Compare orthogonal and independent frequencies in the same form, at every number of features."""
    means = {key: fmean(row["error"] for row in seeds) for key, seeds in by(rows, "map", "num_features").items()}
    sizes = sorted(count for name, count in means if name == "orthogonal" and ("iid, paired", count) in means)
    if not sizes:
        return None
    lower = [count for count in sizes if means["orthogonal", count] < means["iid, paired", count]]
    return Decision(len(lower) == len(sizes), f"at {len(lower)} of {len(sizes)} numbers of features, on digits")


# fmt: off
STUDIES = (
    Study("map-error", "Kernel error of every feature map", "comparison of all maps of the papers", PROTOCOL,
          "map_error", Cell, cells, prepare, show, operations=lambda cell: costs.CELL + 1e6 * cell.num_features),
)
FINDINGS = (
    Finding("Orthogonal random features approximate the Gaussian kernel better than independent ones.",
            "Alber et al. 2017, Section 3", "map-error", orthogonal_is_lower),
)
