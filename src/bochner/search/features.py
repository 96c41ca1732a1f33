"""Choosing the features: drawn once, selected over many rounds, or adapted by gradients."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor

from bochner.adaptation.basis import Plan, fit_basis
from bochner.adaptation.fobos import select_by_fobos
from bochner.adaptation.selection import Selection, chance_survival, input_weights, select_features
from bochner.data.blocks import num_rows, sample_rows, seeded
from bochner.features import ArcCosineMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import ArcCosine, Kernel, Laplacian, Polynomial, Spectral
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead, draw_blocks
from bochner.models.losses import LOSSES
from bochner.search.plan import BASES, KernelPlan, Task, stored
from bochner.solvers.learning_rate import find_rate

logger = logging.getLogger(__name__)

# From this many inputs a chain of Hadamard transforms takes a fraction of a dense product; its bias is far below the
# error of random features.
STRUCTURED_INPUTS = 256
MAX_SELECTION_ROWS = 1_000_000  # rows of one round in the papers
# An adapted basis takes at most 1,024 steps of 256 rows, about the cost of the epochs of the head afterwards. The rates
# are those of `bochner.adaptation.basis` for 64 rows, times the root of four.
BASIS = Plan(
    batch_size=256, learning_rate=6e-3, head_rate=0.2, batches=128, heldout_batches=32, patience=2, max_epochs=8
)


def choose_features(
    kernel: Kernel, plan: KernelPlan, task: Task, *, verbose: bool | None, group: Any
) -> tuple[list[FeatureMap], dict[str, list[float]]]:
    """The maps of a plan, one for each block of features, and facts about them.

    Facts are survival rates and weights of the inputs after a selection, and the objective on validation rows, epoch
    by epoch, of an adapted basis.
    """
    rows = task.train.read(0).X[:0].cpu()  # width and dtype
    if needs_landmarks(kernel):
        generator = seeded(task.seed, "landmarks")
        rows = sample_rows(task.all_rows, plan.n_components, generator=generator).X.cpu()

    def draw(num_features: int, generator: Generator) -> FeatureMap:
        projection = plan.params.projection
        drawn = draw_map(kernel, rows, num_features=num_features, projection=projection, generator=generator)
        return drawn.to(task.device)

    def make_head(num_features: int, generator: Generator) -> Head:
        bias = LOSSES[task.loss].offset(task.mean)
        return start_head(num_features, task.dtype, bias, plan.params.rank, generator).to(task.device)

    generator = seeded(task.seed, "features")
    if plan.selection is not None:
        selected, facts = stored(
            plan, task, "selection", lambda: _select(draw, make_head, kernel, plan, task, verbose, group)
        )
        return [selected], facts
    if plan.basis is not None:
        adapted, facts = stored(
            plan,
            task,
            "basis",
            lambda: _adapt(draw(plan.n_components, generator), make_head, plan.basis or "", task, verbose),
        )
        return [adapted], facts
    maps = draw_blocks(draw, num_features=plan.n_components, num_blocks=plan.params.num_blocks, generator=generator)
    return maps, {}


def _select(
    draw: Any, make_head: Any, kernel: Kernel, plan: KernelPlan, task: Task, verbose: bool | None, group: Any
) -> tuple[FourierMap, dict[str, list[float]]]:
    """Rounds of plain SGD as in the papers, at the rate that is best for features as they are first drawn."""
    assert plan.selection is not None
    first = draw(plan.n_components, seeded(task.seed, "features"))
    if not isinstance(first, FourierMap):
        raise ValueError(f"selection needs Fourier features, which {kernel!r} does not have.")
    settings = plan.params.sgd_settings(
        task.loss,
        alpha=plan.alpha or 0.0,
        num_rows=num_rows(task.all_rows),
        seed=task.seed,
        optimizer="sgd",
        learning_rate="auto",
        preconditioner_rank=0,
        average=False,
    )
    model = FeatureModel(first, make_head(plan.n_components, seeded(task.seed, "head"))).to(task.device)
    rate = find_rate(model, task.train, task.validation_data, settings, group=group)
    rows = plan.selection.rows_per_round or min(num_rows(task.train), MAX_SELECTION_ROWS)
    rounds, settings = plan.selection.rounds, replace(settings, learning_rate=rate)
    logger.info("selection: %d rounds of %s rows at the learning rate %.3g", rounds, f"{rows:,}", rate)
    shared: dict[str, Any] = {
        "num_features": plan.n_components,
        "generator": seeded(task.seed, "features"),
        "verbose": verbose,
        "group": group,
    }
    selection: Selection
    if plan.selection.method == "fobos":
        num_drawn = plan.n_components * (rounds + 1) // 2
        num_drawn += num_drawn % 2  # pairs of cosines and sines
        selection = select_by_fobos(draw, make_head, task.train, settings, num_drawn=num_drawn, num_rows=rows, **shared)
        return selection.feature_map, _input_weights(selection, kernel)
    selection = select_features(draw, make_head, task.train, settings, rounds=rounds, rows_per_round=rows, **shared)
    facts = {"survival": selection.survival().tolist(), "chance": chance_survival(rounds).tolist()}
    return selection.feature_map, {**facts, **_input_weights(selection, kernel)}


def _input_weights(selection: Selection, kernel: Kernel) -> dict[str, list[float]]:
    """Relative weights of the inputs; heavy-tailed frequencies without their largest entries, as in the papers."""
    weights = input_weights(selection.feature_map, drop_largest=isinstance(kernel, Laplacian))
    return {"input_weights": weights.tolist()}


def _adapt(
    z: FeatureMap, make_head: Any, method: str, task: Task, verbose: bool | None
) -> tuple[FeatureMap, dict[str, list[float]]]:
    """The random map `z` moved towards the objective of `method`, never worse than `z` on validation rows.

    The head that "dab" trains with the map is discarded: heads are trained afterwards on all rows, for every basis.
    Source: Alber et al. 2017, Section 3.2.
    """
    objective = BASES[method]
    basis = fit_basis(
        z,
        task.train,
        objective=objective,
        validation_data=task.validation_data,
        head=make_head(z.num_features, seeded(task.seed, "head")) if objective == "loss" else None,
        plan=replace(BASIS, loss=task.loss, seed=task.seed),
        verbose=verbose,
    )
    values = [record["heldout"] for record in basis.history]
    logger.info("basis: %s %.4g -> %.4g in %d epochs", objective, values[0], min(values), len(values) - 1)
    return basis.feature_map, {"adapted": values}


def draw_map(
    kernel: Kernel,
    X: Tensor,
    *,
    num_features: int,
    projection: str,
    generator: Generator,
) -> FeatureMap:
    """The map that suits the kernel: Fourier for spectral ones, their own for arc-cosine and polynomial, else Nystrom.

    X [n, d] are rows to take landmarks from; only their width and dtype matter to the other maps.
    """
    shared: dict[str, Any] = {
        "num_inputs": X.shape[1],
        "num_features": num_features,
        "generator": generator,
        "dtype": X.dtype,
    }
    if isinstance(kernel, Spectral) and kernel.spectral:
        if projection == "auto" and kernel.isotropic and X.shape[1] >= STRUCTURED_INPUTS:
            projection = "hadamard3"
        form = "cosine" if num_features % 2 else "paired"  # pairs of a cosine and a sine
        return FourierMap.draw(kernel, projection=projection, form=form, **shared)
    if isinstance(kernel, ArcCosine):
        return ArcCosineMap.draw(kernel, **shared)
    if isinstance(kernel, Polynomial):
        return TensorSketchMap.draw(kernel, **shared)
    return NystromMap.fit(kernel, X, num_landmarks=min(num_features, len(X)), generator=generator)


def needs_landmarks(kernel: Kernel) -> bool:
    """Whether the features of a kernel are Nystrom features."""
    return not kernel.spectral and not isinstance(kernel, ArcCosine | Polynomial)


def start_head(num_features: int, dtype: torch.dtype, bias: Tensor, rank: int | None, generator: Generator) -> Head:
    """Weights at 0, or Glorot's for a bottleneck, as in the papers; the bias as given."""
    if rank is None:
        return LinearHead.zeros(num_features=num_features, num_outputs=len(bias), bias=bias, dtype=dtype)
    return BottleneckHead.glorot(
        num_features=num_features, num_outputs=len(bias), rank=rank, generator=generator, bias=bias, dtype=dtype
    )
