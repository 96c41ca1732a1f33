"""One measurement: a set, a kernel, a basis, a number of features, a trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Generator

from bochner.adaptation import Plan, alignment, fit_basis
from bochner.adaptation.basis import kernel_error
from bochner.data import ArraySource
from bochner.data.blocks import Block
from bochner.features import FeatureMap
from bochner.models.heads import FeatureModel, Head, LinearHead
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.studies.adapted_bases.maps import draw
from bochner.studies.adapted_bases.sets import Parts, halves, load
from bochner.studies.ledger import Result
from bochner.studies.study import Where

BASES = {"random": None, "unsupervised": "kernel", "supervised": "alignment", "discriminative": "loss"}
EFFORTS = {
    "smoke": Plan(batches=30, heldout_batches=5, max_epochs=2),
    "small": Plan(batches=1_000, heldout_batches=100, max_epochs=10),
    "paper": Plan(),
}
HEAD_EPOCHS = {"smoke": 3, "small": 20, "paper": 100}
ERROR_ROWS, ERROR_BLOCKS = 1_000, 5


@dataclass(frozen=True)
class Cell:
    """What is measured; `basis` is one of `BASES`, `effort` one of `EFFORTS`; a transfer has two tasks."""

    data: str
    kernel: str
    basis: str
    num_features: int
    effort: str
    seed: int
    transfer: bool = False


def measuring(where: Where) -> Callable[[Cell], Result]:
    """`measure` for many cells, with the last set kept in memory."""
    loaded = lru_cache(maxsize=1)(lambda name: load(name, where.data_dir, device=where.device))
    return lambda cell: measure_on(loaded(cell.data), cell)


def measure(cell: Cell, data_dir: Path, *, device: str = "cpu") -> Result:
    return measuring(Where(data_dir, device))(cell)


def measure_on(parts: Parts, cell: Cell) -> Result:
    """Kernel error and alignment on test rows, accuracies, epochs and seconds of adaptation."""
    first, second = halves(parts, seed=cell.seed) if cell.transfer else (parts, None)
    start = time.perf_counter()
    z, head, epochs = _basis(cell, first)
    seconds = time.perf_counter() - start
    head = head or _fit_head(cell, z, first)
    result = {
        "kernel_error": _kernel_error(z, first.test),
        "alignment": alignment(z, ArraySource(*first.test), num_blocks=10),
        "heldout_accuracy": _accuracy(z, head, first.heldout),
        "accuracy": _accuracy(z, head, first.test),
        "epochs": epochs,
        "seconds": seconds,
    }
    if second is not None:
        result["transfer_accuracy"] = _accuracy(z, _fit_head(cell, z, second), second.test)
    return result


def _basis(cell: Cell, parts: Parts) -> tuple[FeatureMap, Head | None, int]:
    generator = Generator().manual_seed(cell.seed)
    z = draw(cell.kernel, parts.train.X, cell.num_features, generator=generator).to(parts.train.X.device)
    objective = BASES[cell.basis]
    if objective is None:
        return z, None, 0
    plan = replace(EFFORTS[cell.effort], seed=cell.seed)
    if objective == "loss":
        plan = replace(plan, batches=None, heldout_batches=None)  # an epoch is a pass over the rows
    found = fit_basis(
        z,
        ArraySource(*parts.train),
        objective=objective,
        validation_data=ArraySource(*parts.heldout),
        plan=plan,
        verbose=None,
    )
    return found.feature_map, found.head, len(found.history) - 1


def _fit_head(cell: Cell, z: FeatureMap, parts: Parts) -> Head:
    """Softmax regression on a basis that stays as it is, in the same way for every basis."""
    head = LinearHead.zeros(num_features=z.num_features, num_outputs=parts.num_classes).to(parts.train.X.device)
    recipe = SGDSettings(preconditioner_rank="auto", max_epochs=HEAD_EPOCHS[cell.effort], seed=cell.seed)
    train(FeatureModel(z, head), ArraySource(*parts.train), ArraySource(*parts.heldout), recipe, verbose=None)
    return head


def _accuracy(z: FeatureMap, head: Head, rows: Block) -> float:
    return 1 - evaluate(FeatureModel(z, head), ArraySource(*rows), loss="softmax").summary()["err"]


def _kernel_error(z: FeatureMap, rows: Block) -> float:
    blocks = [X for X in rows.X[: ERROR_BLOCKS * ERROR_ROWS].split(ERROR_ROWS) if len(X) > 1]
    with torch.no_grad():
        return float(torch.stack([kernel_error(z(X), z.kernel(X)) for X in blocks]).mean())
