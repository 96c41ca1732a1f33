"""Random and adapted bases: the data sets, maps, cells and measurements of Alber et al. 2017."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.adaptation import BasisSettings, alignment, fit_basis
from bochner.adaptation.basis import kernel_error
from bochner.data import ArraySource
from bochner.data.blocks import Block
from bochner.features import ArcCosineMap, FeatureMap, FourierMap
from bochner.kernels import ArcCosine, Gaussian, Laplacian, SparseGaussian
from bochner.models.heads import FeatureModel, Head, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.studies import costs
from bochner.studies.results_file import Result
from bochner.studies.study import Size
from bochner.studies.workers import Context

BASES = {"random": None, "unsupervised": "kernel", "supervised": "alignment", "discriminative": "loss"}
EFFORTS = {
    "smoke": BasisSettings(batches=30, validation_batches=5, max_epochs=2),
    "small": BasisSettings(batches=300, validation_batches=30, max_epochs=4),
    "paper": BasisSettings(),
}
# Transfers keep Adam's default rate, 1e-3 on standard normal G with W = G / sigma, whose median size is 0.6745; the
# rates of `BasisSettings` are relative to that size.
TRANSFER_RATE = 1e-3 / 0.6745
HEAD_EPOCHS = {"smoke": 3, "small": 10, "paper": 100}
ERROR_ROWS, ERROR_BLOCKS = 1_000, 5


@dataclass(frozen=True)
class Cell:
    """One measurement; `basis` is one of `BASES`, `effort` one of `EFFORTS`; a transfer has two tasks."""

    data: str
    kernel: str
    basis: str
    num_features: int
    effort: str
    seed: int
    transfer: bool = False


# -- which cells -----------------------------------------------------------------------------------------------

MULTIPLES = (0.35, 0.5, 0.7)  # bandwidths tried besides that of the rule
FIGURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "figure 1": ("gaussian", "gaussian cosine", "arccos1"),
        "figure 2": ("gaussian",),
        "figure 3": ("arccos1", "arccos2", "arccos3"),
        "figure 4": ("gaussian cosine", "hadamard1", "hadamard2", "hadamard3"),
        "other kernels": ("laplacian", "sparse gaussian"),
        "other bandwidths": tuple(f"gaussian x{multiple}" for multiple in MULTIPLES),
    }
)
TRANSFER = "figure 2"
TRANSFER_SET, TRANSFER_SPLITS = "mnist", 5  # halves of the classes vary more than draws of a basis do


class Grid(NamedTuple):
    """The data sets, numbers of features and trials of a figure, and how long each cell is trained."""

    sets: tuple[str, ...]
    num_features: tuple[int, ...]
    seeds: tuple[int, ...]
    effort: str


_SETS = ("mnist", "covtype")
SMOKE = Grid(("satimage",), (10, 30), (0,), "smoke")  # of figures 1 and 4
SMALL = MappingProxyType(
    {
        "figure 1": Grid(_SETS, (30, 300), (0, 1, 2), "small"),
        "figure 2": Grid(("mnist",), (300,), tuple(range(TRANSFER_SPLITS)), "small"),
        "figure 3": Grid(("mnist",), (300,), (0, 1, 2), "small"),
        "figure 4": Grid(("mnist",), (300,), (0, 1, 2), "small"),
    }
)
SMALL_OTHERS = Grid(("covtype",), (300,), (0,), "small")
PAPER = Grid(_SETS, (10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000), (0, 1, 2), "paper")
PAPER_TRANSFER = Grid((TRANSFER_SET,), (300, 1_000, 3_000, 10_000), tuple(range(TRANSFER_SPLITS)), "paper")


def cells_of(
    figure: str,
    size: Size,
    *,
    sets: Sequence[str] | None = None,
    num_features: Sequence[int] | None = None,
    effort: str | None = None,
) -> list[Cell]:
    """The cells of one figure, small maps first; the arguments replace the values of the size.

    >>> len(cells_of("figure 1", "smoke", sets=["mnist"]))  # 2 numbers of features, 3 kernels, 4 bases
    24
    """
    checks.one_of("figure", figure, FIGURES)
    if size == "smoke" and sets is None and figure not in ("figure 1", "figure 4"):
        return []
    paper = PAPER_TRANSFER if figure == TRANSFER else PAPER
    grid = {"smoke": SMOKE, "small": SMALL.get(figure, SMALL_OTHERS), "paper": paper}[size]
    for name in sets or ():
        checks.one_of("sets", name, FILES)
    if effort is not None:
        checks.one_of("effort", effort, EFFORTS)
    transfer = figure == TRANSFER
    seeds = range(TRANSFER_SPLITS) if transfer and len(grid.seeds) > 1 else grid.seeds
    return [
        Cell(data, kernel, basis, count, effort or grid.effort, seed, transfer)
        for count, data, kernel, basis, seed in product(
            num_features or grid.num_features, sets or grid.sets, FIGURES[figure], BASES, seeds
        )
        if not transfer or data == TRANSFER_SET
    ]


# -- data sets -------------------------------------------------------------------------------------------------

HELDOUT = {"mnist": 10_000, "covtype": 8_000, "ijcnn1": 5_000, "a9a": 3_560, "satimage": 500}
FILES = {
    "mnist": "mnist.npz", "covtype": "covtype_sample.npz", "ijcnn1": "ijcnn1.npz", "a9a": "a9a.npz",
    "satimage": "satimage_scale.npz",
}  # fmt: skip
TEST_SHARE = 0.2  # if the file has no test part
SPLIT_SEED = 0  # all trials use the same parts
NUM_HALF = 5  # classes of a transfer task
_ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")


class Parts(NamedTuple):
    """Rows of a data set, centred and scaled to [-1, 1] per input; classes 0 .. C - 1."""

    train: Block
    heldout: Block
    test: Block

    @property
    def num_classes(self) -> int:
        return int(self.train.y.max()) + 1


def load(name: str, data_dir: Path, *, device: str = "cpu") -> Parts:
    """A data set by its name in `FILES`; if the file has no test part, a fifth of the rows is used."""
    checks.one_of("sets", name, FILES)
    with np.load(data_dir / FILES[name]) as file:
        arrays = {key: torch.as_tensor(file[key]) for key in file.files if key in _ARRAYS}
    if "X_test" not in arrays:
        arrays = _with_test(arrays["X"], arrays["y"])
    _, y = torch.cat([arrays["y_train"], arrays["y_test"]]).unique(return_inverse=True)
    num_train = len(arrays["y_train"])
    X_train, X_test = _scaled(arrays["X_train"].float(), arrays["X_test"].float())
    order = torch.randperm(num_train, generator=Generator().manual_seed(SPLIT_SEED))
    heldout, rows = order.split([HELDOUT[name], num_train - HELDOUT[name]])
    blocks = (Block(X_train[rows], y[rows]), Block(X_train[heldout], y[heldout]), Block(X_test, y[num_train:]))
    return Parts(*(Block(X.to(device), y.to(device)) for X, y, _ in blocks))


def halves(parts: Parts, *, seed: int) -> tuple[Parts, Parts]:
    """Two tasks: five classes drawn at random, and the others, each numbered from 0."""
    order = torch.randperm(parts.num_classes, generator=Generator().manual_seed(seed))
    return _restricted(parts, order[:NUM_HALF]), _restricted(parts, order[NUM_HALF:])


def _with_test(X: Tensor, y: Tensor) -> dict[str, Tensor]:
    order = torch.randperm(len(X), generator=Generator().manual_seed(SPLIT_SEED + 1))
    test, rows = order.split([num_test := round(TEST_SHARE * len(X)), len(X) - num_test])
    return {"X_train": X[rows], "y_train": y[rows], "X_test": X[test], "y_test": y[test]}


def _scaled(rows: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    mean = rows.mean(dim=0)
    largest = (rows - mean).abs().max(dim=0).values
    largest = torch.where(largest > 0, largest, 1.0)
    return (rows - mean) / largest, (test - mean) / largest


def _restricted(parts: Parts, classes: Tensor) -> Parts:
    kept = classes.sort().values.to(parts.train.y.device)

    def restrict(block: Block) -> Block:
        rows = torch.isin(block.y, kept)
        return Block(block.X[rows], torch.searchsorted(kept, block.y[rows]))

    return Parts(*map(restrict, parts))


# -- maps ------------------------------------------------------------------------------------------------------

NEIGHBOUR, NEIGHBOUR_POINTS = 50, 1000
Draw = Callable[[Tensor, int, Generator], FeatureMap]


def neighbour_bandwidth(X: Tensor, *, generator: Generator) -> float:
    """The mean distance to the 50th nearest neighbour among 1,000 points: the rule of Yu et al. 2016, used by Alber.

    >>> round(neighbour_bandwidth(torch.arange(1001.0)[:, None] / 10, generator=Generator().manual_seed(0)), 1)
    2.6
    """
    points = X[torch.randperm(len(X), generator=generator)[:NEIGHBOUR_POINTS].to(X.device)]
    distances = torch.cdist(points, points)
    return float(distances.kthvalue(min(NEIGHBOUR + 1, len(points)), dim=1).values.mean())


def draw(name: str, X: Tensor, num_features: int, *, generator: Generator) -> FeatureMap:
    """A random basis for rows X, with D features; arc-cosine maps have D / depth in every layer."""
    return MAPS[name](X, num_features, generator)


def _gaussian(projection: str, form: str, *, multiple: float = 1.0) -> Draw:
    """`multiple` is the bandwidth relative to that of the rule."""

    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        kernel = Gaussian(bandwidth=multiple * neighbour_bandwidth(X, generator=generator))
        sizes: dict[str, Any] = {"num_inputs": X.shape[1], "num_features": num_features}
        return FourierMap.draw(kernel, **sizes, projection=projection, form=form, generator=generator)

    return make


def _median(kernel: Laplacian | SparseGaussian) -> Draw:
    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        scaled = kernel.with_bandwidth("median", X, generator=generator)
        sizes: dict[str, Any] = {"num_inputs": X.shape[1], "num_features": num_features}
        return FourierMap.draw(scaled, **sizes, form="cosine", generator=generator)

    return make


def _arc_cosine(depth: int) -> Draw:
    def make(X: Tensor, num_features: int, generator: Generator) -> FeatureMap:
        sizes: dict[str, Any] = {"num_inputs": X.shape[1], "num_features": max(1, num_features // depth)}
        return ArcCosineMap.draw(ArcCosine(depth=depth), **sizes, generator=generator)

    return make


MAPS: dict[str, Draw] = {
    "gaussian": _gaussian("orthogonal", "paired"),
    "gaussian cosine": _gaussian("orthogonal", "cosine"),
    **{f"gaussian x{multiple}": _gaussian("orthogonal", "cosine", multiple=multiple) for multiple in MULTIPLES},
    **{f"arccos{depth}": _arc_cosine(depth) for depth in (1, 2, 3)},
    **{f"hadamard{chain}": _gaussian(f"hadamard{chain}", "cosine") for chain in (1, 2, 3)},
    "laplacian": _median(Laplacian()),
    "sparse gaussian": _median(SparseGaussian()),
}


# -- measurement -----------------------------------------------------------------------------------------------


def prepare(context: Context) -> Callable[[Cell], Result]:
    """The function that measures a cell; it keeps the last data set in memory."""
    loaded = lru_cache(maxsize=1)(lambda name: load(name, context.data_dir, device=context.device))
    return lambda cell: measure(loaded(cell.data), cell)


def operations(cell: Cell) -> float:
    """Operations of `measure`: the steps of adaptation, then the epochs of a head, on both tasks of a transfer."""
    rows, d, outputs = costs.SHAPES[cell.data]
    settings, D, depth = EFFORTS[cell.effort], cell.num_features, int(cell.kernel[-1]) if "arccos" in cell.kernel else 1
    layers = 2 * (depth - 1) * (D / depth) ** 2  # layers of a row beyond the first
    total = costs.CELL + costs.training(
        rows, d, D, outputs, epochs=costs.STOPPED * HEAD_EPOCHS[cell.effort], per_row=layers
    )
    if BASES[cell.basis] is not None:
        size = settings.batch_size
        epochs = min(settings.max_epochs, 50)  # early stopping ends adaptation earlier
        steps = epochs * (rows / size if cell.basis == "discriminative" else settings.batches or 10_000)
        total += 3 * steps * (costs.features(size, d, D) + size * layers + 2 * size**2 * D)
    return total


def measure(parts: Parts, cell: Cell) -> Result:
    """Kernel error and alignment on test rows, accuracies, epochs and seconds of adaptation."""
    first, second = halves(parts, seed=cell.seed) if cell.transfer else (parts, None)
    start = time.perf_counter()
    z, head, epochs = _basis(cell, first)
    seconds = time.perf_counter() - start
    fitted = _fit_head(cell, z, first) if head is None or second is not None else None
    head = head or (fitted and fitted.head)
    assert head is not None
    result = {
        "kernel_error": _kernel_error(z, first.test),
        "alignment": alignment(z, ArraySource(*first.test), num_blocks=10),
        "heldout_accuracy": _accuracy(z, head, first.heldout),
        "accuracy": _accuracy(z, head, first.test),
        "epochs": epochs,
        "seconds": seconds,
    }
    if second is not None:
        assert fitted is not None
        other = _fit_head(cell, z, second, rate=fitted.rate)  # nothing is chosen on task 2
        result["transfer_accuracy"] = _accuracy(z, other.head, second.test)
    return result


def _basis(cell: Cell, parts: Parts) -> tuple[FeatureMap, Head | None, int]:
    generator = Generator().manual_seed(cell.seed)
    z = draw(cell.kernel, parts.train.X, cell.num_features, generator=generator).to(parts.train.X.device)
    objective = BASES[cell.basis]
    if objective is None:
        return z, None, 0
    plan = replace(EFFORTS[cell.effort], seed=cell.seed)
    if cell.transfer:
        plan = replace(plan, learning_rate=TRANSFER_RATE, decay=1.0)
    if objective == "loss":
        plan = replace(plan, batches=None, validation_batches=None)  # an epoch is a pass over the rows
    rows, validation_data = ArraySource(*parts.train), ArraySource(*parts.heldout)
    adapted = fit_basis(z, rows, objective=objective, validation_data=validation_data, settings=plan, verbose=None)
    return adapted.feature_map, adapted.head, len(adapted.history) - 1


class FittedHead(NamedTuple):
    """A head, and the initial learning rate of its training."""

    head: Head
    rate: float


def _fit_head(cell: Cell, z: FeatureMap, parts: Parts, *, rate: float | None = None) -> FittedHead:
    """Softmax regression on a fixed basis, by the same procedure for every basis; without `rate` it is chosen on
    heldout."""
    head = LinearHead.zeros(num_features=z.num_features, num_outputs=parts.num_classes).to(parts.train.X.device)
    settings = SGDSettings(
        learning_rate="auto" if rate is None else rate,
        preconditioner_rank="auto",
        max_epochs=HEAD_EPOCHS[cell.effort],
        seed=cell.seed,
    )
    model, rows = FeatureModel(z, head), (ArraySource(*parts.train), ArraySource(*parts.heldout))
    history = train(model, *rows, settings, verbose=None)
    return FittedHead(head, float(history[0]["rate"]))


def _accuracy(z: FeatureMap, head: Head, rows: Block) -> float:
    return 1 - evaluate(FeatureModel(z, head), ArraySource(*rows), loss="softmax").summary()["err"]


def _kernel_error(z: FeatureMap, rows: Block) -> float:
    blocks = [X for X in rows.X[: ERROR_BLOCKS * ERROR_ROWS].split(ERROR_ROWS) if len(X) > 1]
    with torch.no_grad():
        return float(torch.stack([kernel_error(z(X), z.kernel(X)) for X in blocks]).mean())
