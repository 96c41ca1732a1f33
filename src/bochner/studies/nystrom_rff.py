"""Nystrom maps and random Fourier features: the cells and measurements of May 2018, chapter 6."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import torch
from torch import Generator, Tensor

from bochner.data import ArraySource
from bochner.features import FeatureMap, FourierMap, NystromMap
from bochner.kernels import Gaussian, Kernel, kernel_named
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.studies import costs
from bochner.studies.nystrom_rff_data import TASKS, Parts, loader
from bochner.studies.results_file import Result
from bochner.studies.study import Size
from bochner.studies.workers import Context

RFF, NYSTROM, KMEANS = "rff", "nystrom", "k-means nystrom"
BATCH_SIZE = 250
BANDWIDTH_ROWS = 1000


@dataclass(frozen=True)
class Cell:
    """Errors on all pairs of `pairs_of` heldout rows; with `epochs` also a model fitted to at most `num_rows` rows."""

    data: str
    map: str
    num_features: int
    num_rows: int | None
    pairs_of: int
    epochs: int
    seed: int
    kernel: str = "gaussian"


def prepare(context: Context) -> Callable[[Cell], Result]:
    loaded = loader(context)
    return lambda cell: measure(cell, loaded(cell.data, cell.num_rows))


def measure(cell: Cell, parts: Parts) -> Result:
    """Kernel errors, the numbers that the map stores, and the heldout error of a linear model on its features."""
    start = time.perf_counter()
    z = make_map(cell, parts.train.X)
    result = measure_errors(z, parts.heldout.X[: cell.pairs_of]) | {"memory": memory(z)}
    if cell.epochs:
        result |= _performance(cell, z, parts)
    return result | {"seconds": time.perf_counter() - start}


def make_map(cell: Cell, X: Tensor) -> FeatureMap:
    kernel, generator = make_kernel(cell.data, cell.kernel, X), Generator().manual_seed(cell.seed)
    if cell.map == RFF:
        form = "cosine"  # the papers' form, whose norms vary, unlike those of the paired form
        projection = "auto" if cell.kernel == "sparse-gaussian" else "iid"
        draw = partial(FourierMap.draw, kernel, num_inputs=X.shape[1], num_features=cell.num_features)
        return draw(projection=projection, form=form, generator=generator).to(X.device)
    rule = "kmeans" if cell.map == KMEANS else "uniform"
    return NystromMap.fit(kernel, X, num_landmarks=cell.num_features, landmarks=rule, generator=generator)


def make_kernel(data: str, name: str, X: Tensor) -> Kernel:
    """The Gaussian kernel with the bandwidth of the set, other kernels with that of the median rule."""
    if name == "gaussian":
        return Gaussian(bandwidth=(2 * TASKS[data].gamma) ** -0.5)
    return kernel_named(name, num_inputs=X.shape[1]).with_bandwidth("median", X[:BANDWIDTH_ROWS])


def memory(z: FeatureMap) -> int:
    """Numbers that a map stores, by the papers' count: d D for Fourier features, d D + D^2 for Nystrom's."""
    D = z.num_features
    return z.num_inputs * D + (D * D if isinstance(z, NystromMap) else 0)


def _performance(cell: Cell, z: FeatureMap, parts: Parts) -> Result:
    """Preconditioned SGD to convergence, so that features are compared and not the progress of training."""
    train_rows, heldout = (ArraySource(block.X, block.y) for block in (parts.train, parts.heldout))
    loss, criterion = ("squared", "mse") if parts.num_classes is None else ("softmax", "ce")
    head = LinearHead.zeros(num_features=z.num_features, num_outputs=parts.num_classes or 1).to(parts.train.X.device)
    model = FeatureModel(z, head)
    settings = SGDSettings(
        loss=loss, criterion=criterion, preconditioner_rank="auto", batch_size=BATCH_SIZE, max_epochs=cell.epochs,
        seed=cell.seed,
    )  # fmt: skip
    with torch.no_grad():
        before = evaluate(model, heldout, loss=loss).summary()[criterion]
    history = train(model, train_rows, heldout, settings, verbose=False)
    scores = evaluate(model, heldout, loss=loss).summary()  # the last epoch may have been reverted
    performance = scores["mse"] ** 0.5 if loss == "squared" else scores["err"]
    return {"performance": performance, "loss": scores[criterion], "start_loss": before, "epochs_run": len(history)}


def operations(cell: Cell) -> float:
    """Operations of `measure`: the map, its errors on pairs, and the epochs of a model."""
    rows, d, outputs = costs.SHAPES[cell.data]
    N, D, P = min(rows, cell.num_rows or rows), cell.num_features, cell.pairs_of
    total = costs.CELL + 4 * P**2 * (D + d) + costs.features(P, d, D)
    per_row = 0.0
    if cell.map != RFF:
        total += costs.eigenvalues(D) + (costs.kmeans(N, d, D) if cell.map == KMEANS else 0)
        per_row = 2.0 * D**2
    return total + costs.training(N, d, D, outputs, epochs=cell.epochs, per_row=per_row)


# -- kernel errors ----------------------------------------------------------------------------------------------

LARGE = 0.25  # kernel values of at least this size are large
POWERS = (2.5, 3.5, 5.5)
OUTLIER = 0.035
ERROR_EDGES = torch.linspace(-0.105, 0.105, 22, dtype=torch.float64)  # bins of 0.01, one of them centred at 0
NORM_EDGES = torch.linspace(0.0, 2.0, 41, dtype=torch.float64)


def measure_errors(z: FeatureMap, X: Tensor) -> Result:
    """Over all pairs of different rows of X [P, d]; bias is the mean error, so that mse = bias^2 + variance.

    Powers are means of |error|^r. Histograms are shares of the pairs; the outermost bins include everything beyond
    them. None if there is no such pair. O(P^2 (d + D)), P^2 numbers.
    """
    K, Z = z.kernel(X.double()), z(X).double()
    rows, columns = torch.triu_indices(len(X), len(X), offset=1)
    values = K[rows, columns]
    errors = values - (Z @ Z.T)[rows, columns]
    kinds = {"": errors, "small_": errors[values < LARGE], "large_": errors[values >= LARGE]}
    norms = Z.square().sum(dim=1)
    result: Result = {"num_pairs": len(errors), "large_share": float((values >= LARGE).double().mean())}
    for kind, part in kinds.items():
        result |= {kind + name: value for name, value in _moments(part).items()}
    result |= {f"power_{power}": float(errors.abs().pow(power).mean()) for power in POWERS}
    result |= {f"{kind}histogram": _shares(kinds[kind], ERROR_EDGES) for kind in ("small_", "large_")}
    return result | {
        "norm": float(norms.mean()),
        "norm_spread": float(norms.std(unbiased=False)),
        "norm_max": float(norms.max()),
        "norm_histogram": _shares(norms, NORM_EDGES),
    }


def _moments(errors: Tensor) -> Result:
    if not len(errors):
        return dict.fromkeys(("mse", "bias", "variance", "outliers"))
    return {
        "mse": float(errors.square().mean()),
        "bias": float(errors.mean()),
        "variance": float(errors.var(unbiased=False)),
        "outliers": float((errors > OUTLIER).double().mean()),
    }


def _shares(values: Tensor, edges: Tensor) -> list[float] | None:
    if not len(values):
        return None
    inside = values.clamp(float(edges[0]), float(edges[-1]))
    return (torch.histogram(inside.cpu(), edges).hist / len(values)).tolist()


# -- which cells ------------------------------------------------------------------------------------------------

ALL_SETS = ("a9a", "covtype", "cpu", "house", "mnist", "timit")
KERNELS = ("gaussian", "laplacian", "sparse-gaussian")


@dataclass(frozen=True)
class Grid:
    """Sets, rows and features of each kind; `seeds` up to `few_above` features, one seed above.

    Additional seeds, `draws`, measure errors only: a map without a model is cheap, and bias needs several draws.
    `effect_sets` and `effect_features` are those of the other kernels.
    """

    sets: tuple[str, ...]
    num_rows: int | None
    pairs_of: int
    epochs: int
    landmarks: tuple[int, ...]
    features: tuple[int, ...]
    seeds: tuple[int, ...]
    draws: tuple[int, ...]
    few_above: Mapping[str, int]
    effect_sets: tuple[str, ...]
    effect_features: tuple[int, ...]


GRIDS: Mapping[Size, Grid] = MappingProxyType(
    {
        "smoke": Grid(
            ("digits", "a9a", "cpu"), 1_000, 300, 8, (32, 64, 128), (32, 64, 128, 256, 512), (0,), (0, 1, 2), {},
            ("digits", "a9a"), (32, 64, 128, 256),
        ),
        "small": Grid(
            ALL_SETS, 5_000, 1_000, 20, (125, 250, 500, 1_000),
            (125, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000), (0, 1, 2), (0, 1, 2),
            {},
            ("covtype", "mnist", "timit"), (250, 500, 1_000, 2_000, 4_000),
        ),
        "paper": Grid(
            ALL_SETS, None, 5_000, 100, (1_250, 2_500, 5_000, 10_000, 20_000),
            (1_250, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 800_000,
             1_600_000), tuple(range(10)), (0, 1, 2),
            {RFF: 20_000, NYSTROM: 2_500, KMEANS: 2_500},
            ("covtype", "covtype, all rows", "mnist", "timit"), (5_000, 10_000, 25_000, 50_000, 100_000),
        ),
    }
)  # fmt: skip


def cells(size: Size) -> list[Cell]:
    """The Gaussian kernel with all three maps, small ones first.

    >>> smoke = cells("smoke")
    >>> len(smoke), sum(cell.epochs > 0 for cell in smoke)  # 3 sets, 3 draws of 5 + 3 maps and 3 by k-means
    (81, 33)
    """
    grid, all_cells = GRIDS[size], []
    for name in grid.sets:
        for kind, counts in ((RFF, grid.features), (NYSTROM, grid.landmarks), (KMEANS, grid.landmarks)):
            for count in counts:
                seeds = grid.seeds if count <= grid.few_above.get(kind, count) else grid.seeds[:1]
                all_cells += [_cell(grid, name, kind, count, seed) for seed in seeds]
                drawn = () if kind == KMEANS else [seed for seed in grid.draws if seed not in seeds]
                all_cells += [replace(_cell(grid, name, kind, count, seed), epochs=0) for seed in drawn]
    return all_cells


def effect_cells(size: Size) -> list[Cell]:
    """Fourier features of three kernels, with up to three seeds."""
    grid = GRIDS[size]
    return [
        _cell(grid, name, RFF, count, seed, kernel)
        for name in grid.effect_sets for kernel in KERNELS for count in grid.effect_features for seed in grid.seeds[:3]
    ]  # fmt: skip


def _cell(grid: Grid, name: str, kind: str, count: int, seed: int, kernel: str = "gaussian") -> Cell:
    return Cell(name, kind, count, grid.num_rows, grid.pairs_of, grid.epochs, seed, kernel)
