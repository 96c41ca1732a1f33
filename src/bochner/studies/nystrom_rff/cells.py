"""One measurement: a set, a kernel, a map, a number of features, a seed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from bochner.data import ArraySource
from bochner.features import FeatureMap, FourierMap, NystromMap
from bochner.kernels import Gaussian, Kernel, kernel_named
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.studies.ledger import Result
from bochner.studies.nystrom_rff.errors import measure_errors
from bochner.studies.nystrom_rff.tasks import TASKS, Parts, loader
from bochner.studies.study import Where

RFF, NYSTROM, KMEANS = "rff", "nystrom", "k-means nystrom"
BATCH_SIZE = 250
BANDWIDTH_ROWS = 1000


@dataclass(frozen=True)
class Cell:
    """What is measured: errors on `pairs_of` heldout rows, then a model of at most `num_rows` rows and `epochs`.

    Without epochs there is no model.
    """

    data: str
    map: str
    num_features: int
    num_rows: int | None
    pairs_of: int
    epochs: int
    seed: int
    kernel: str = "gaussian"


def measuring(where: Where) -> Callable[[Cell], Result]:
    loaded = loader(where)
    return lambda cell: measure(cell, loaded(cell.data, cell.num_rows))


def measure(cell: Cell, parts: Parts) -> Result:
    """Kernel errors, stored numbers, and what a linear model on the features does on heldout rows."""
    start = time.perf_counter()
    z = make_map(cell, parts.train.X)
    result = measure_errors(z, parts.heldout.X[: cell.pairs_of]) | {"memory": memory(z)}
    if cell.epochs:
        result |= _performance(cell, z, parts)
    return result | {"seconds": time.perf_counter() - start}


def make_map(cell: Cell, X: Tensor) -> FeatureMap:
    kernel, generator = make_kernel(cell.data, cell.kernel, X), Generator().manual_seed(cell.seed)
    if cell.map == RFF:
        form = "cosine"  # the papers': its norms vary, those of the paired form do not
        projection = "auto" if cell.kernel == "sparse-gaussian" else "iid"
        draw = partial(FourierMap.draw, kernel, num_inputs=X.shape[1], num_features=cell.num_features)
        return draw(projection=projection, form=form, generator=generator).to(X.device)
    rule = "kmeans" if cell.map == KMEANS else "uniform"
    return NystromMap.fit(kernel, X, num_landmarks=cell.num_features, landmarks=rule, generator=generator)


def make_kernel(data: str, name: str, X: Tensor) -> Kernel:
    """The Gaussian with the set's own bandwidth, other kernels with the median rule's."""
    if name == "gaussian":
        return Gaussian(bandwidth=(2 * TASKS[data].gamma) ** -0.5)
    return kernel_named(name, num_inputs=X.shape[1]).with_bandwidth("median", X[:BANDWIDTH_ROWS])


def memory(z: FeatureMap) -> int:
    """Numbers that a map stores, by the papers' count: d D for Fourier features, d D + D^2 for Nystrom's."""
    D = z.num_features
    return z.num_inputs * D + (D * D if isinstance(z, NystromMap) else 0)


def _performance(cell: Cell, z: FeatureMap, parts: Parts) -> Result:
    """Preconditioned SGD to convergence, so that the features are compared and not how far a training came."""
    train_rows, heldout = (ArraySource(block.X, block.y) for block in (parts.train, parts.heldout))
    loss, metric = ("squared", "mse") if parts.num_classes is None else ("softmax", "ce")
    head = LinearHead.zeros(num_features=z.num_features, num_outputs=parts.num_classes or 1).to(parts.train.X.device)
    model = FeatureModel(z, head)
    recipe = SGDSettings(
        loss=loss,
        criterion=metric,
        preconditioner_rank="auto",
        batch_size=BATCH_SIZE,
        max_epochs=cell.epochs,
        seed=cell.seed,
    )
    with torch.no_grad():
        before = evaluate(model, heldout, loss=loss).summary()[metric]
    history = train(model, train_rows, heldout, recipe, verbose=False)
    scores = evaluate(model, heldout, loss=loss).summary()  # the last epoch may have been undone
    performance = scores["mse"] ** 0.5 if loss == "squared" else scores["err"]
    return {"performance": performance, "loss": scores[metric], "start_loss": before, "epochs_run": len(history)}
