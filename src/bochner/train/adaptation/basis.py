"""Bases adapted to data: the kernel's own (UAB), the classes' (SAB), or a classifier's (DAB)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Generator

from bochner import checks
from bochner.data.blocks import Source
from bochner.data.sample import sample_rows
from bochner.data.sources import classes_of, split
from bochner.features import FeatureMap
from bochner.learn.heads import Head, LinearHead
from bochner.train.adaptation.loop import Fit, minimise
from bochner.train.adaptation.objectives import (
    OBJECTIVES,
    Objective,
    alignment_objective,
    kernel_objective,
    loss_objective,
)
from bochner.train.adaptation.patience import Patience
from bochner.train.adaptation.plan import Plan
from bochner.train.adaptation.streams import heldout_batches, training_epochs
from bochner.train.loop import Record, Writer

HELDOUT_FRACTION = 0.1
RATE_ROWS = 64  # rows that say how large features are

Map = TypeVar("Map", bound=FeatureMap)


class Basis(NamedTuple, Generic[Map]):
    """An adapted map, the head that was trained with it (objective "loss" only), and one record an epoch."""

    feature_map: Map
    head: Head | None
    history: list[Record]


def adapt(
    feature_map: Map,
    source: Source,
    *,
    objective: str = "kernel",
    heldout: Source | None = None,
    plan: Plan | None = None,
    progress: bool | None = True,
    writers: Sequence[Writer] = (),
) -> Map:
    """A map of the same type whose parameters minimise an objective over the rows of `source`:

        "kernel"     (k(x, x') - z(x) . z(x'))^2 / 2 over pairs of rows; needs no targets        (UAB)
        "alignment"  1 - alignment of z . z' with k_Y, 1 for equal classes and 0 for others      (SAB)
        "loss"       the loss of a linear head on z, trained together with the map               (DAB)

    The given map (RB) is where it starts and is left as it was. What changes: the frequencies of dense Fourier maps
    (phases too), the non-zero values of sparse ones, the weights of all layers of arc-cosine maps, the diagonals of
    structured ones. Early stopping reads `heldout`, or a tenth of the rows if none is given; the result is never worse
    there than the start. Row weights count in "loss" alone.
    A step on n rows costs three times the map's features, O(n^2 D) for the n^2 pairs, and no memory beyond the batch.
    Source: Alber et al. 2017, Section 3.2.

    >>> from bochner.data.sources import ArraySource
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.train.adaptation import alignment
    >>> X = torch.randn(1000, 2, generator=Generator().manual_seed(0))
    >>> rows = ArraySource(X, (X.norm(dim=1) > 1).long())
    >>> z = FourierMap.draw(
    ...     Gaussian(bandwidth=2.0), num_inputs=2, num_features=16, generator=Generator().manual_seed(0)
    ... )
    >>> plan = Plan(batches=200, heldout_batches=20, max_epochs=5)
    >>> adapted = adapt(z, rows, objective="alignment", plan=plan, progress=False)
    >>> type(adapted).__name__, alignment(adapted, rows) > alignment(z, rows) + 0.05
    ('FourierMap', True)
    """
    return fit_basis(
        feature_map, source, objective=objective, heldout=heldout, plan=plan, progress=progress, writers=writers
    ).feature_map


def fit_basis(
    feature_map: Map,
    source: Source,
    *,
    objective: str = "kernel",
    heldout: Source | None = None,
    head: Head | None = None,
    plan: Plan | None = None,
    progress: bool | None = True,
    writers: Sequence[Writer] = (),
) -> Basis[Map]:
    """What `adapt` does, with the history and, for objective "loss", the head that belongs to the map.

    `head` is where that head starts (zeros unless given); it is left as it was.
    """
    checks.one_of("objective", objective, OBJECTIVES)
    if head is not None and objective != "loss":
        raise ValueError(f"head must be None with objective={objective!r}, which trains none; use objective='loss'.")
    if not feature_map.adaptable():
        raise ValueError(
            f"feature_map must have parameters to adapt, {feature_map!r} has none; use a FourierMap or an "
            "ArcCosineMap of order 1 or 2."
        )
    plan = plan or Plan()
    if heldout is None:
        source, heldout = split(source, HELDOUT_FRACTION, seed=plan.seed)
    if objective == "loss":
        head = _empty_head(feature_map, source, plan) if head is None else copy.deepcopy(head)
    return _fit(copy.deepcopy(feature_map), source, heldout, objective, head, plan, progress, writers)


def _fit(
    feature_map: Map,
    source: Source,
    heldout: Source,
    objective: str,
    head: Head | None,
    plan: Plan,
    progress: bool | None,
    writers: Sequence[Writer],
) -> Basis[Map]:
    """Change map and head in place."""
    changed = {name: feature_map.get_parameter(name).requires_grad_(True) for name in feature_map.adaptable()}
    rates = {name: plan.learning_rate * float(p.detach().abs().median()) for name, p in changed.items()}
    if head is not None:
        rates |= _head_rates(feature_map, head, source, plan)
        changed |= {f"head.{name}": p.requires_grad_(True) for name, p in head.named_parameters()}
    fit = Fit(
        feature_map,
        dict(changed),
        rates,
        _objective(objective, feature_map, head, plan),
        training_epochs(source, plan, whole=objective == "loss"),
        partial(heldout_batches, heldout, plan, whole=objective == "loss"),
    )
    history = minimise(
        fit,
        patience=Patience(plan.patience_for(feature_map)),
        decay=plan.decay,
        max_epochs=plan.max_epochs,
        progress=progress,
        writers=writers,
    )
    return Basis(feature_map.requires_grad_(False), head, history)


def _objective(name: str, feature_map: FeatureMap, head: Head | None, plan: Plan) -> Objective:
    if head is not None:
        return loss_objective(head, plan.loss)
    return kernel_objective(feature_map.kernel) if name == "kernel" else alignment_objective()


def _empty_head(feature_map: FeatureMap, source: Source, plan: Plan) -> LinearHead:
    match plan.loss:
        case "softmax":
            outputs = int(classes_of(source).max()) + 1
        case "logistic":
            outputs = 1
        case _:
            outputs = source.read(0).y[0].numel()
    like = next(feature_map.parameters())
    head = LinearHead.zeros(num_features=feature_map.num_features, num_outputs=outputs, dtype=like.dtype)
    return head.to(like.device)


def _head_rates(feature_map: FeatureMap, head: Head, source: Source, plan: Plan) -> dict[str, float]:
    """Adam moves each weight by its rate and so a score by up to rate ||z||_1: the rate that makes it `head_rate`."""
    like = next(feature_map.parameters())
    rows = sample_rows(source, RATE_ROWS, generator=Generator().manual_seed(plan.seed)).X
    with torch.no_grad():
        size = float(feature_map(rows.to(like)).norm(p=1, dim=1).mean())
    return {f"head.{name}": plan.head_rate / (size if p.ndim > 1 else 1.0) for name, p in head.named_parameters()}
