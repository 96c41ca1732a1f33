"""A kernel whose metric is learned from the rows, before anything else is fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Generator, Tensor, nn

from bochner.adaptation.metric import learn_metric
from bochner.data import ArraySource
from bochner.data.batches import in_order
from bochner.data.blocks import Source, sample_rows
from bochner.features import FeatureMap
from bochner.kernels import Kernel, Stationary
from bochner.models import LandmarkModel, LogitAverage
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.models.losses import LOSSES
from bochner.search.memory import METRIC_ROWS
from bochner.solvers import (
    fit_exact_ridge,
    fit_landmark_logistic,
    fit_landmark_ridge,
    fit_ridge,
    fit_ridge_path,
    fit_saga,
)
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import Record, train

SOLVERS = ["auto", "sgd", "ridge", "landmarks", "newton", "saga"]
# Up to so many rows all of them become landmarks: the exact kernel machine, in seconds.
EXACT_ROWS = 2048
# Up to so many features the normal equations of least squares cost less than epochs of SGD.
NORMAL_FEATURES = 8192
# Ridges that are tried on heldout rows, as multiples of k(x, x) / n.
RIDGES = [10.0**power for power in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 1)]
EXACT_RIDGES = RIDGES[::2]
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Task:
    """Rows to learn from, rows to judge by, both together, and what the targets are.

    `num_classes` is None for numbers; `mean` [t] of the targets, one-hot for classes.
    """

    rows: Source
    validation_data: Source
    everything: Source
    num_classes: int | None
    mean: Tensor

    @property
    def num_rows(self) -> int:
        return sum(self.everything.shard_sizes)

    @property
    def loss(self) -> str:
        """The loss of solvers that have a choice."""
        return loss_for(self.num_classes)


def loss_for(num_classes: int | None) -> str:
    if num_classes is None:
        return "squared"
    return "logistic" if num_classes == 2 else "softmax"


def choose_solver(solver: str, task: Task, *, num_features: int) -> str:
    """What "auto" stands for.

    Up to 2,048 rows: the exact kernel machine, "newton" for classes and "landmarks" for numbers. Beyond: "sgd" for
    classes; for numbers "ridge" up to 8,192 features, where one pass of normal equations costs less than epochs, and
    "sgd" above.
    """
    if solver == "newton" and task.num_classes is None:
        raise ValueError("solver must not be 'newton' for regression, which has no logistic loss; use 'landmarks'.")
    if solver != "auto":
        return solver
    if task.num_rows <= EXACT_ROWS:
        return "landmarks" if task.num_classes is None else "newton"
    return "ridge" if task.num_classes is None and num_features <= NORMAL_FEATURES else "sgd"


def fit_by_sgd(
    task: Task,
    maps: Sequence[FeatureMap],
    recipe: SGDSettings,
    *,
    rank: int | None,
    generator: Generator,
    folder: Path | None,
    verbose: bool | None,
) -> tuple[nn.Module, list[Record]]:
    """The papers' loop on each map; several maps are blocks of features trained apart and averaged in the logits."""
    models: list[nn.Module] = []
    history: list[Record] = []
    for number, z in enumerate(maps):
        offset = LOSSES[task.loss].offset(task.mean)
        model = FeatureModel(z, start_head(z, len(offset), offset, rank, generator)).to(task.mean.device)
        place = folder if folder is None or len(maps) == 1 else folder / f"block{number}"
        records = train(model, task.rows, task.validation_data, recipe, checkpoint_dir=place, verbose=verbose)
        history += [{"block": number, **record} for record in records] if len(maps) > 1 else records
        models.append(model)
    return models[0] if len(models) == 1 else LogitAverage(models), history


def fit_by_ridge(task: Task, z: FeatureMap, ridge: float | None) -> nn.Module:
    """Normal equations; without a ridge, the one of least heldout loss along the path."""
    if ridge is not None:
        return FeatureModel(z, fit_ridge(z, task.everything, ridge=ridge, num_classes=task.num_classes))
    ridges = [factor / task.num_rows for factor in RIDGES]
    heads = fit_ridge_path(z, task.rows, ridges=ridges, num_classes=task.num_classes)
    return min((FeatureModel(z, head) for head in heads), key=lambda model: heldout_loss(model, task, "squared"))


def fit_on_landmarks(
    task: Task,
    kernel: Kernel,
    *,
    newton: bool,
    num_landmarks: int,
    ridge: float | None,
    memory: int,
    generator: Generator,
) -> nn.Module:
    """On landmarks drawn uniformly from the rows: logistic or softmax regression by Newton steps, or least squares."""
    method: Callable[..., LandmarkModel] = fit_landmark_logistic if newton else fit_least_squares

    def fit(rows: Source, ridge: float | None) -> LandmarkModel:
        landmarks = sample_rows(rows, num_landmarks, generator=generator).X
        return method(kernel, landmarks, rows, ridge=ridge, num_classes=task.num_classes, memory_budget=memory)

    loss = task.loss if newton else "squared"
    return fit(task.everything, _exact_ridge(task, fit, loss) if ridge is None else ridge)


def fit_least_squares(
    kernel: Kernel,
    landmarks: Tensor,
    rows: Source,
    *,
    ridge: float | None,
    num_classes: int | None,
    memory_budget: int,
) -> LandmarkModel:
    """By preconditioned conjugate gradients, or by one factorisation where the landmarks are all of the rows."""
    if len(landmarks) == sum(rows.shard_sizes):
        return fit_exact_ridge(kernel, rows, ridge=ridge, num_classes=num_classes)
    return fit_landmark_ridge(
        kernel, landmarks, rows, ridge=ridge, num_classes=num_classes, memory_budget=memory_budget
    )


def fit_by_saga(task: Task, z: FeatureMap, *, ridge: float | None, max_epochs: int, generator: Generator) -> nn.Module:
    """The convex problem to its minimum; the default ridge is 1 / n, scikit-learn's C = 1."""
    ridge = 1 / task.num_rows if ridge is None else ridge
    head = fit_saga(
        z,
        task.everything,
        loss=task.loss,
        ridge=ridge,
        num_classes=task.num_classes,
        max_epochs=max_epochs,
        generator=generator,
    )
    return FeatureModel(z, head)


def heldout_loss(model: nn.Module, task: Task, loss: str) -> float:
    """The weighted mean loss over the heldout rows; squared errors of classes are those of one-hot rows."""
    total = weights = 0.0
    with torch.no_grad():
        for block in in_order(task.validation_data, batch_rows=ROWS_AT_ONCE):
            y = block.y
            if loss == "squared" and task.num_classes is not None:
                y = nn.functional.one_hot(y, task.num_classes)
            losses = LOSSES[loss].value(model(block.X), y)
            weight = torch.ones_like(losses) if block.weight is None else block.weight.to(losses)
            total, weights = total + float(losses @ weight), weights + float(weight.sum())
    return total / max(weights, torch.finfo(torch.float32).tiny)


def _exact_ridge(task: Task, fit: Callable[[Source, float | None], nn.Module], loss: str) -> float | None:
    """For few rows, the ridge of least heldout loss; for many, None: the solver's own rule."""
    if task.num_rows > EXACT_ROWS:
        return None
    ridges = [factor / task.num_rows for factor in EXACT_RIDGES]
    losses = [heldout_loss(fit(task.rows, ridge), task, loss) for ridge in ridges]
    return ridges[losses.index(min(losses))]


def start_head(
    z: FeatureMap, num_outputs: int, bias: Tensor | None, rank: int | None, generator: Generator
) -> LinearHead | BottleneckHead:
    """Weights at 0, or Glorot's for a bottleneck, as in the papers; the bias as given, or 0."""
    sizes = {"num_features": z.num_features, "num_outputs": num_outputs}
    if rank is None:
        return LinearHead.zeros(**sizes, bias=bias, dtype=z.dtype)
    return BottleneckHead.glorot(**sizes, rank=rank, generator=generator, bias=bias, dtype=z.dtype)


def bias_of(model: nn.Module) -> Tensor:
    """The last thing that is added: it says where a model is, and in which dtype."""
    part = model.models[0] if isinstance(model, LogitAverage) else model
    bias = part.head.bias if isinstance(part, FeatureModel) else part.bias
    assert isinstance(bias, Tensor)
    return bias


def rescale(model: nn.Module, mean: Tensor, std: Tensor) -> None:
    """Turn f into std f + mean, for outputs [t], inside the model."""
    with torch.no_grad():
        for part in model.models if isinstance(model, LogitAverage) else [model]:
            if isinstance(part, LandmarkModel):
                part.coefficients.mul_(std.to(part.coefficients))
                part.bias.copy_(part.bias * std.to(part.bias) + mean.to(part.bias))
                continue
            assert isinstance(part, FeatureModel)
            head = part.head
            last = head.second if isinstance(head, BottleneckHead) else head.weights
            last.mul_(std.to(last)[:, None])
            head.bias.copy_(head.bias * std.to(head.bias) + mean.to(head.bias))


def adapted_kernel(
    kernel: Kernel, task: Task, *, rounds: int, num_landmarks: int, memory: int, generator: Generator
) -> Stationary:
    """`kernel` under the metric of least heldout loss; least squares on random landmarks is what metrics come from."""
    if not isinstance(kernel, Stationary):
        raise ValueError(f"adapt='agop' needs a kernel with a metric, such as Gaussian or Laplacian, got {kernel!r}.")
    rows = task.rows
    if sum(rows.shard_sizes) > METRIC_ROWS:
        rows = ArraySource(*sample_rows(rows, METRIC_ROWS, generator=generator))
    landmarks = sample_rows(rows, num_landmarks, generator=generator).X

    def fit(kernel: Stationary) -> nn.Module:
        return fit_least_squares(
            kernel, landmarks, rows, ridge=None, num_classes=task.num_classes, memory_budget=memory
        )

    def judge(model: nn.Module) -> float:
        return heldout_loss(model, task, "squared")

    tried = learn_metric(kernel, rows, fit, judge, rounds=rounds, generator=generator)
    return min(tried, key=lambda each: each.loss).kernel
