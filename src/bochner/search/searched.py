"""Plans with a preset: the rows of the search, the settings of the user, and the model on all rows."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.metrics import get_scorer
from torch import Tensor, nn

from bochner.data.blocks import Shards, concatenate, num_rows, read_shard, sample_rows, seeded
from bochner.kernels import KERNEL_ALIASES, Kernel
from bochner.kernels.stationary import MAX_BANDWIDTH, MIN_BANDWIDTH
from bochner.models.heads import LogitAverage
from bochner.models.inputs import InputTransform, TransformedModel
from bochner.models.intervals import Uncertainty
from bochner.search.automatic import (
    BRIER,
    GPU_ROWS,
    PRESETS,
    SQUARED,
    Criterion,
    Fixed,
    Preset,
    SearchResult,
    SearchRows,
    search_model,
    squared_losses,
)
from bochner.search.plan import AdaptParams, KernelPlan, Task, parse_bytes
from bochner.solvers.exact import fit_partition
from bochner.storage import Storable

# Exponent and norm of kernels by name, and their bandwidth as a multiple of the power-exponential one's.
POWER_KERNELS = {
    "gaussian": ((2.0, 2.0), math.sqrt(2)),
    "laplacian": ((1.0, 1.0), 1.0),
    "matern12": ((1.0, 2.0), 1.0),
    "power-exponential": ((1.0, 2.0), 1.0),
}
# Floating-point operations that the factorisations of a final fit may take, n m^2 / 3 for parts of m rows: about 40 s
# on two CPU cores and 20 s on a large GPU. Constants, so that the model does not depend on the machine's load.
FINAL_OPERATIONS = {"cpu": 4e12, "cuda": 8e14}
MAX_PART_BYTES = {"cpu": 3 * 2**29, "cuda": 40 * 2**30}  # of one kernel matrix
MIN_PART_ROWS = 2000
DOUBLE_PENALTY = 1e-4  # below, float32 does not resolve the solution and float64 is used
# Of these operations that preset="fast" takes: on 42 splits of tables of up to 10,000 rows, 0.01 instead of 0.025 takes
# 0.7 of the time of all fits and has 1.008 times the error.
FAST_SHARE = 0.01
MAX_SEARCH_NUMBERS = 2**26  # in rows that are only for metrics: the search has up to six arrays of this size
MAX_ROW_BYTES = 2**31  # rows beyond this size are not gathered in memory: features and minibatches instead


def is_exact(plan: KernelPlan, rows: Shards, group: Any) -> bool:
    """Whether the final fit is exact least squares: unless another solver, features or minibatches are requested."""
    row_bytes = num_rows(rows) * rows.num_inputs * plan.params.dtype.itemsize
    limit = MAX_ROW_BYTES if plan.params.memory_budget is None else parse_bytes(plan.params.memory_budget) // 4
    if plan.solver == "exact":
        return True
    return plan.solver == "auto" and not (plan.needs_sgd or plan.basis or group is not None or row_bytes > limit)


def search_plan(plan: KernelPlan, task: Task, *, verbose: bool | None) -> SearchResult:
    """The search on a random sample of the rows of `task`."""
    assert plan.preset is not None
    preset = _scaled(PRESETS[plan.preset], task.device)
    operations = FINAL_OPERATIONS["cuda" if task.device.type == "cuda" else "cpu"]
    if plan.preset == "default" and preset.members * num_rows(task.all_rows) ** 3 / 3 > operations:
        preset = replace(preset, members=1)  # another model would halve the rows of the parts, or double the time
    # enough for the training rows of the final trials, and a third as many to validate on; more for metrics
    count = max(3 * preset.last_rows, preset.final_rows * 4 // 3)
    for_metrics = min(preset.metric_rows + preset.last_rows, MAX_SEARCH_NUMBERS // task.train.num_inputs)
    count = max(count, for_metrics)
    rows, labels, validation = _sample(task, count)
    criterion = SQUARED if task.num_classes is None else BRIER
    if plan.scoring is not None:
        criterion = _criterion(plan, task.num_classes)
    return search_model(
        rows,
        preset,
        fixed=fixed_by(plan, num_rows(task.all_rows)),
        validation=validation,
        criterion=criterion,
        time_limit=None if plan.time_limit is None else plan.time_limit / 2,
        seed=task.seed,
        verbose=verbose,
        labels=labels,
    )


class Searched(Storable):
    """The choices of a search, and a record of its trials."""

    def __init__(
        self,
        kernel: Kernel,
        transform: InputTransform | None,
        choices: dict[str, Any],
        trials: list[dict[str, Any]],
        importances: Tensor,
    ) -> None:
        super().__init__()
        self.kernel, self.transform, self.choices, self.trials = kernel, transform, choices, trials
        self.importances = importances

    @classmethod
    def of(cls, result: SearchResult) -> Searched:
        best = result.chosen[0]
        choices = {**best.record(), "members": len(result.chosen)}
        transform = result.transforms[best.recipe.transform]
        return cls(
            result.kernels[0], transform, choices, [trial.record() for trial in result.trials], result.importances
        )

    def facts(self) -> dict[str, Any]:
        """Fields of `bochner.search.fit.Fitted`."""
        return {"choices": self.choices, "search": self.trials, "importances": self.importances}


def fixed_by(plan: KernelPlan, count: int) -> Fixed:
    """The settings of the plan, for a fit on `count` rows."""
    kernels = bandwidth = None
    multiple = 1.0
    kernel = "gaussian" if plan.kernel == "auto" and plan.gamma is not None else plan.kernel
    if kernel != "auto":
        assert isinstance(kernel, str)
        pair, multiple = POWER_KERNELS[KERNEL_ALIASES.get(kernel, kernel)]
        kernels = (pair,)
    if plan.gamma is not None:
        if kernels is None or kernels[0][0] != kernels[0][1]:
            raise ValueError(f"gamma={plan.gamma!r} needs kernel='gaussian' or 'laplacian', got {plan.kernel!r}.")
        bandwidth = plan.gamma ** (-1 / kernels[0][0])
    elif isinstance(plan.bandwidth, int | float):
        bandwidth = float(plan.bandwidth) * multiple
    if bandwidth is not None and not MIN_BANDWIDTH <= bandwidth <= MAX_BANDWIDTH:
        raise ValueError(
            f"bandwidth must lie between {MIN_BANDWIDTH:g} and {MAX_BANDWIDTH:g}, got bandwidth={plan.bandwidth!r} and "
            f"gamma={plan.gamma!r}; scale the inputs."
        )
    transform = None if plan.standardize is None else "standard" if plan.standardize else "none"
    if bandwidth is not None and transform is None:
        transform = "none"  # a number refers to distances of the original inputs
    learned = isinstance(plan.adapt, AdaptParams) and plan.adapt.method == "agop"
    return Fixed(
        transform=transform,
        kernels=kernels,
        factor=1.0 if plan.bandwidth == "median" else None,
        bandwidth=bandwidth,
        penalty=None if plan.alpha is None else max(plan.alpha * count, 1e-8),
        metric=True if learned else None if plan.adapt == "auto" and bandwidth is None else False,
    )


class FinalFit(NamedTuple):
    """A model of all rows; held-out predictions [r, t], their targets [r, t], weights [r]; uncertainty of numbers."""

    model: nn.Module
    predictions: Tensor
    targets: Tensor
    weight: Tensor | None
    uncertainty: Uncertainty | None


def fit_all_rows(plan: KernelPlan, task: Task, result: SearchResult) -> FinalFit:
    """The chosen models on all rows. Held-out predictions of an ensemble are those of the search."""
    X, Y, weight = _all_rows(task)
    models: list[nn.Module] = []
    left_out = rows = None
    for trial, kernel in zip(result.chosen, result.kernels, strict=True):
        transform = result.transforms[trial.recipe.transform]
        penalty = trial.recipe.path[-1][1]
        if len(X) > part_rows(plan, len(X), task.device, penalty):
            penalty = max(penalty, DOUBLE_PENALTY)  # larger parts in float32 are better than a smaller penalty
        fit = fit_partition(
            kernel.to(task.device),
            X if transform is None else transform(X),
            Y,
            alpha=penalty,
            max_rows=part_rows(plan, len(X), task.device, penalty),
            weight=weight,
        )
        models.append(fit.model if transform is None else TransformedModel(transform, fit.model))
        left_out, rows = fit.left_out, fit.rows
    if len(models) == 1:
        assert rows is not None
        assert left_out is not None
        inputs, targets, weight = X[rows], Y[rows].double(), None if weight is None else weight[rows]
        return FinalFit(
            models[0], left_out, targets, weight, _uncertainty(task, result, inputs, targets - left_out, weight)
        )
    mean = torch.stack([trial.predictions for trial in result.chosen]).mean(dim=0).double()
    ordered, order = result.chosen[0].validated.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered.diff() != 0  # rows of repeated cross-validation have several predictions
    validated, mean = ordered[first], mean[order[first]]
    inputs, targets, held = (part[validated] for part in (result.rows.X, result.rows.Y.double(), result.rows.weight))
    uncertainty = _uncertainty(task, result, inputs, targets - mean, held)
    return FinalFit(LogitAverage(models), mean, targets, held, uncertainty)


def _uncertainty(
    task: Task, result: SearchResult, X: Tensor, residuals: Tensor, weight: Tensor | None
) -> Uncertainty | None:
    """The uncertainty of the first of the chosen models, for numbers; needs at least two rows with residuals."""
    if task.num_classes is not None or len(X) < 2:
        return None
    recipe = result.chosen[0].recipe
    return Uncertainty.fit(
        result.kernels[0],
        X,
        residuals,
        alpha=recipe.path[-1][1],
        weight=weight,
        transform=result.transforms[recipe.transform],
        generator=seeded(task.seed, "uncertainty"),
    )


def part_rows(plan: KernelPlan, count: int, device: torch.device, penalty: float) -> int:
    """Rows of one exact solve: all of them, or as many as operations and memory allow."""
    entry_bytes = 4 if penalty >= DOUBLE_PENALTY else 8
    kind = "cuda" if device.type == "cuda" else "cpu"
    operations = FINAL_OPERATIONS[kind] * (FAST_SHARE if plan.preset == "fast" else 1.0)
    memory = MAX_PART_BYTES[kind]
    if plan.params.memory_budget is not None:
        memory = min(memory, parse_bytes(plan.params.memory_budget) // 2)
    by_time = math.isqrt(int(3 * operations / count))
    if count**3 / 3 <= operations:
        by_time = count
    return max(MIN_PART_ROWS, min(by_time, math.isqrt(memory // entry_bytes)))


def encoded_targets(y: Tensor, num_classes: int | None, like: Tensor) -> Tensor:
    """Targets [n, t] of least squares: numbers, 0 and 1 for two classes, one-hot rows for more."""
    if num_classes is None:
        return y.reshape(len(y), -1).to(like)
    if num_classes == 2:
        return y[:, None].to(like)
    return nn.functional.one_hot(y.long(), num_classes).to(like)


def _sample(task: Task, count: int) -> tuple[SearchRows, Tensor | None, int | None]:
    """Random rows; the last of them are the user's validation rows, if there are any."""
    generator = seeded(task.seed, "search")
    if task.has_own_validation:
        parts = [
            sample_rows(source, size, generator=generator)
            for source, size in ((task.train, count // 2), (task.validation_data, count // 2))
        ]
        # validation rows that the user gave have no weights, and count as one each
        parts = [p if p.weight is not None else p._replace(weight=torch.ones_like(p.X[:, 0])) for p in parts]
        block, validation = concatenate(parts), len(parts[1].X)
    else:
        block, validation = sample_rows(task.all_rows, count, generator=generator), None
        order = torch.randperm(len(block.X), generator=generator).to(block.X.device)
        weight = None if block.weight is None else block.weight[order]
        block = block._replace(X=block.X[order], y=block.y[order], weight=weight)
    X = block.X.float()
    weight = torch.ones(len(X), device=X.device) if block.weight is None else block.weight.float()
    binary = ((X.amin(dim=0) == X) | (X.amax(dim=0) == X)).all(dim=0)
    rows = SearchRows(X, encoded_targets(block.y, task.num_classes, X), weight.clamp_min(1e-6), binary)
    return rows, None if task.num_classes is None else block.y.long(), validation


def _all_rows(task: Task) -> tuple[Tensor, Tensor, Tensor | None]:
    block = concatenate([read_shard(task.all_rows, shard) for shard in range(len(task.all_rows.shard_sizes))])
    order = torch.randperm(len(block.X), generator=seeded(task.seed, "rows")).to(block.X.device)
    X, y = block.X[order], block.y[order]
    weight = None if block.weight is None else block.weight[order].clamp_min(1e-6)
    return X, encoded_targets(y, task.num_classes, X), weight


def _scaled(preset: Preset, device: torch.device) -> Preset:
    """A GPU also tries more kernels and more rounds in less time than a CPU takes for the preset."""
    if device.type != "cuda":
        return preset
    return replace(
        preset,
        first_rows=GPU_ROWS * preset.first_rows,
        middle_rows=GPU_ROWS * preset.middle_rows,
        last_rows=GPU_ROWS * preset.last_rows,
        final_rows=GPU_ROWS * preset.final_rows,
        num_middle=2 * preset.num_middle,
        num_last=2 * preset.num_last,
        max_rounds=preset.max_rounds + 2,
        metric_rows=0,  # the trials have as many rows
    )


class _Answers:
    """An estimator with known predictions, so that scikit-learn's scorers can be used."""

    def __init__(self, predictions: Tensor, num_classes: int | None, multilabel: bool) -> None:
        self._estimator_type = "regressor" if num_classes is None and not multilabel else "classifier"
        self.values, self.num_classes = predictions.double().cpu().numpy(), num_classes
        self.multilabel = multilabel
        self.classes_: Any = None if num_classes is None else np.arange(num_classes)
        if multilabel:
            self.classes_ = [np.arange(2)] * predictions.shape[1]

    def predict(self, X: Any) -> Any:
        if self.multilabel:
            return (self.values > 0.5).astype(int)
        if self.num_classes is None:
            return self.values[:, 0] if self.values.shape[1] == 1 else self.values
        return (self.values[:, 0] > 0.5).astype(int) if self.num_classes == 2 else self.values.argmax(axis=1)

    def predict_proba(self, X: Any) -> Any:
        p = self.values.clip(1e-3, 1 - 1e-3)
        if self.multilabel:
            return p
        p = p if p.shape[1] > 1 else torch.cat([torch.as_tensor(1 - p), torch.as_tensor(p)], dim=1).numpy()
        return p / p.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> Any:
        return self.values[:, 0] if self.values.shape[1] == 1 else self.values

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        kind = self._estimator_type
        tags = ClassifierTags() if kind == "classifier" else None
        return Tags(estimator_type=kind, target_tags=TargetTags(required=True), classifier_tags=tags)


def _criterion(plan: KernelPlan, num_classes: int | None) -> Criterion:
    scorer = get_scorer(plan.scoring) if isinstance(plan.scoring, str) else plan.scoring

    def overall(predictions: Tensor, Y: Tensor, weight: Tensor) -> float:
        y = Y.double().cpu().numpy()
        if plan.multilabel:
            y = (y > 0.5).astype(int)
        elif num_classes is not None:
            y = (y[:, 0] > 0.5).astype(int) if num_classes == 2 else y.argmax(axis=1)
        elif y.shape[1] == 1:
            y = y[:, 0]
        answers = _Answers(predictions, num_classes, plan.multilabel)
        return -float(scorer(answers, y.reshape(len(y), -1), y))

    return Criterion(str(plan.scoring), squared_losses, overall)
