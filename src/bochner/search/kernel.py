"""Choosing the kernel, by a rule or on validation rows, and its features: drawn, selected or adapted."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.adaptation.basis import BasisSettings, fit_basis
from bochner.adaptation.fobos import select_by_fobos
from bochner.adaptation.metric import learn_metric
from bochner.adaptation.selection import Selection, chance_survival, input_weights, select_features
from bochner.adaptation.sparse import MAX_ROWS, select_sparse
from bochner.data.batches import in_order
from bochner.data.blocks import Block, BlockSource, Source, num_rows, sample_rows, seeded
from bochner.data.transforms import statistics
from bochner.features import ArcCosineMap, FeatureMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import (
    KERNEL_ALIASES,
    KERNEL_NAMES,
    ArcCosine,
    Gaussian,
    Kernel,
    Laplacian,
    Polynomial,
    Spectral,
    Stationary,
    kernel_named,
)
from bochner.kernels.stationary import BANDWIDTH_RULES
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.models.landmarks import LandmarkModel
from bochner.models.losses import LOSSES, Criterion
from bochner.search.memory import RULE_ROWS, MemoryPlan
from bochner.search.plan import BASES, AdaptParams, KernelPlan, Task, stage_fingerprint, stored
from bochner.solvers import fit_exact_ridge, fit_landmark_ridge
from bochner.solvers.checkpoint import StoredValues
from bochner.solvers.learning_rate import find_rate
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate

logger = logging.getLogger(__name__)

# From this many inputs a chain of Hadamard transforms takes a fraction of a dense product; its bias is far below the
# error of random features.
STRUCTURED_INPUTS = 256
MAX_SELECTION_ROWS = 1_000_000  # rows of one round in the papers
# An adapted basis takes at most 1,024 steps of 256 rows, about the cost of the epochs of the head afterwards. The rates
# are those of `bochner.adaptation.basis` for 64 rows, times the root of four.
BASIS = BasisSettings(
    batch_size=256, learning_rate=6e-3, head_rate=0.2, batches=128, validation_batches=32, patience=2, max_epochs=8
)


KERNEL_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [StrOptions({*KERNEL_NAMES, *KERNEL_ALIASES}), Kernel],
    "bandwidth": [None, StrOptions({*BANDWIDTH_RULES, "search"}), Interval(Real, 0, None, closed="neither")],
    "gamma": [None, Interval(Real, 0, None, closed="neither")],
}
# Bandwidth search: multiples of the median rule in steps of sqrt(2), at most 8 times larger or smaller. A trial trains
# a small model, which ranks bandwidths as large ones do at a fraction of the cost.
BANDWIDTH_STEP = math.sqrt(2)
MAX_BANDWIDTH_STEPS = 6
TRIAL_FEATURES, TRIAL_ROWS, TRIAL_EPOCHS = 1024, 16384, 3
ROWS_AT_ONCE = 4096


def choose_kernel(
    plan: KernelPlan, task: Task, memory: MemoryPlan, *, group: Any = None
) -> tuple[Kernel, dict[str, Any]]:
    """The kernel of a plan for the rows of a task, and the choices made on validation rows.

    First a bandwidth, as given or by a rule on a sample of the rows ("neighbor" reads all of them); then, with
    adapt="agop", a metric on the inputs; then, with bandwidth="search", the multiple of the median rule with the lowest
    validation loss. With a checkpoint_dir the last two are computed once.
    """
    searched = plan.bandwidth == "search"
    generator = seeded(task.seed, "bandwidth" if searched else "kernel")
    sample = sample_rows(
        task.train if searched else task.all_rows, TRIAL_ROWS if searched else RULE_ROWS, generator=generator
    )
    rule = "median" if searched else plan.bandwidth
    X, rows = sample.X.cpu(), None
    if searched:
        given = kernel_named(plan.kernel, num_inputs=X.shape[1]) if isinstance(plan.kernel, str) else plan.kernel
        if not isinstance(given, Stationary):
            raise ValueError(f"bandwidth='search' was given, but {given!r} has no bandwidth; use None.")
    if rule == "neighbor":
        rows = (block.X.cpu() for block in in_order(task.all_rows, batch_rows=ROWS_AT_ONCE))
    kernel: Kernel = (
        _standardized(plan, task, X, rule, generator, rows)
        if plan.standardize
        else resolve_kernel(plan.kernel, rule, X, generator, gamma=plan.gamma, rows=rows)
    )
    if isinstance(kernel, Stationary):
        U = kernel.prepare(X).double()
        spread, finest = float((U.amax(dim=0) - U.amin(dim=0)).max()), torch.finfo(task.dtype)
        if spread > finest.max**0.5 * 1e-3 * kernel.bandwidth:
            raise ValueError(
                f"bandwidth={kernel.bandwidth:.3g} is too small for inputs that differ by up to {spread:.3g}: squared "
                f"distances overflow. Use a bandwidth near the typical distance of rows, such as 'median'."
            )
        if 0 < spread < finest.eps**0.5 * kernel.bandwidth:
            warnings.warn(
                f"bandwidth={kernel.bandwidth:.3g} is so large for inputs that differ by at most {spread:.3g} that the "
                "kernel is constant; use a bandwidth near the typical distance of rows, such as 'median'.",
                ConvergenceWarning,
                stacklevel=2,
            )
    learns_metric = isinstance(plan.adapt, AdaptParams) and plan.adapt.method == "agop"
    if not searched and not learns_metric:
        return kernel, {}

    def choose() -> tuple[Kernel, dict[str, Any]]:
        adapted = _learn_metric(kernel, plan, task, memory) if learns_metric else kernel
        return _search_bandwidth(adapted, plan, task, sample, generator) if searched else (adapted, {})

    return stored(plan, task, "kernel", choose, group)


def resolve_kernel(
    kernel: str | Kernel,
    bandwidth: float | str | None,
    X: Tensor,
    generator: Generator,
    *,
    gamma: float | None = None,
    rows: Iterable[Tensor] | None = None,
) -> Kernel:
    """The kernel for data like X [n, d]: a name gets the median rule unless `bandwidth` or `gamma` is given.

    `rows` are blocks of all rows if X is a sample of them; only the rule "neighbor" reads them.

    >>> X = torch.randn(10, 2, generator=Generator().manual_seed(0))
    >>> resolve_kernel("laplacian", None, X, Generator(), gamma=0.5)
    Laplacian(bandwidth=2.0)
    """
    resolved = kernel_named(kernel, num_inputs=X.shape[1]) if isinstance(kernel, str) else kernel
    if gamma is not None:
        if bandwidth is not None:
            raise ValueError(f"give bandwidth or gamma, not both; got bandwidth={bandwidth!r} and gamma={gamma!r}.")
        return with_gamma(resolved, gamma)
    if bandwidth is None and isinstance(kernel, str) and isinstance(resolved, Stationary):
        bandwidth = "median"
    return resolved if bandwidth is None else resolved.with_bandwidth(bandwidth, X, generator=generator, rows=rows)


def with_gamma(kernel: Kernel, gamma: float) -> Kernel:
    """The kernel with scikit-learn's gamma: exp(-gamma ||x - y||^2) (Gaussian), exp(-gamma ||x - y||_1) (Laplacian) or
    (gamma x . y + offset)^degree (polynomial).

    >>> with_gamma(Gaussian(), 0.125)
    Gaussian(bandwidth=2.0)
    """
    gamma = checks.positive_float("gamma", gamma)
    if isinstance(kernel, Gaussian):
        return kernel.replace(bandwidth=(2 * gamma) ** -0.5)
    if isinstance(kernel, Laplacian):
        return kernel.replace(bandwidth=1 / gamma)
    if isinstance(kernel, Polynomial):
        return kernel.replace(scale=gamma**0.5)
    raise ValueError(
        f"gamma={gamma!r} was given, but only Gaussian, Laplacian and polynomial kernels have one, not {kernel!r}; "
        "use bandwidth."
    )


def _standardized(
    plan: KernelPlan,
    task: Task,
    X: Tensor,
    rule: float | str | None,
    generator: Generator,
    rows: Iterable[Tensor] | None,
) -> Kernel:
    """The kernel on inputs divided by their standard deviations, as a scale inside the kernel."""
    std = statistics(task.all_rows).std.to(X)
    kernel = kernel_named(plan.kernel, num_inputs=X.shape[1]) if isinstance(plan.kernel, str) else plan.kernel
    if not isinstance(kernel, Stationary) or kernel.scale is not None or kernel.metric is not None:
        raise ValueError(f"standardize=True needs a stationary kernel without scale or metric, got {plan.kernel!r}.")
    scaled = kernel.replace(scale=torch.where(std > 0, std, 1.0).reciprocal())
    if rule is None and plan.gamma is None and isinstance(plan.kernel, str):
        rule = "median"
    return resolve_kernel(scaled, rule, X, generator, gamma=plan.gamma, rows=rows)


def _learn_metric(kernel: Kernel, plan: KernelPlan, task: Task, memory: MemoryPlan) -> Stationary:
    """The kernel with the metric of lowest validation loss, from average gradient outer products (AGOP).

    Metrics come from least squares on random landmarks, which is fitted again under each of them.
    """
    if not isinstance(kernel, Stationary):
        raise ValueError(f"adapt='agop' needs a kernel with a metric, such as Gaussian or Laplacian, got {kernel!r}.")
    assert isinstance(plan.adapt, AdaptParams)
    generator, rows = seeded(task.seed, "metric"), task.train
    if num_rows(rows) > plan.adapt.num_rows:
        rows = BlockSource(sample_rows(rows, plan.adapt.num_rows, generator=generator))
    count = memory.metric_landmarks or plan.adapt.num_landmarks
    landmarks = sample_rows(rows, count, generator=generator).X

    def fit(kernel: Stationary) -> nn.Module:
        return fit_least_squares(
            kernel, landmarks, rows, alpha=None, num_classes=task.num_classes, memory_budget=memory.metric_cache
        )

    rounds = learn_metric(
        kernel,
        rows,
        fit,
        lambda model: validation_loss(model, task, "squared"),
        rounds=plan.adapt.rounds,
        generator=generator,
        checkpoint_dir=plan.params.directory("kernel"),
        fingerprint=stage_fingerprint(plan, task),
    )
    best = min(rounds, key=lambda candidate: candidate.loss)
    logger.info("metric: validation loss %.4g -> %.4g in %d rounds", rounds[0].loss, best.loss, len(rounds) - 1)
    return best.kernel


def _search_bandwidth(
    kernel: Kernel, plan: KernelPlan, task: Task, sample: Block, generator: Generator
) -> tuple[Stationary, dict[str, Any]]:
    """The multiple of the median rule with the lowest validation loss, and all that were tried.

    Each trial trains a small model for a few epochs: O(TRIAL_EPOCHS TRIAL_ROWS TRIAL_FEATURES (d + t)).
    """
    assert isinstance(kernel, Stationary)  # the median rule has given it a bandwidth
    validation = BlockSource(sample_rows(task.validation_data, TRIAL_ROWS, generator=generator))
    rows, count = BlockSource(sample), min(plan.n_components, TRIAL_FEATURES)
    params = replace(plan.params, criterion=None, max_epochs=TRIAL_EPOCHS, preconditioner_rank="auto", average=True)
    settings = params.sgd_settings(task.loss, alpha=plan.alpha or 0.0, num_rows=len(sample.X), seed=task.seed)
    bias = LOSSES[task.loss].offset(task.mean)

    def loss(step: int) -> float:
        trial = kernel.replace(bandwidth=kernel.bandwidth * BANDWIDTH_STEP**step)
        z = draw_map(
            trial,
            sample.X[:0].cpu(),
            num_features=count,
            projection=params.projection,
            generator=seeded(task.seed, "trial"),
        )
        head = start_head(z.num_features, z.dtype, bias, None, generator)
        model = FeatureModel(z, head).to(task.device)
        try:
            train(model, rows, validation, settings, verbose=False)
        except FloatingPointError:  # nothing can be learned at this bandwidth
            return math.inf
        return Criterion(settings.criterion).of(evaluate(model, validation, loss=task.loss))

    directory = plan.params.directory("kernel")

    def stored_loss(step: int) -> float:
        if directory is None:
            return loss(step)
        stored = StoredValues(directory, stage_fingerprint(plan, task), name="bandwidths.safetensors")
        if step not in stored.values:
            stored.add({step: loss(step)})
        return stored.values[step]

    step, losses = search_steps(stored_loss, max_steps=MAX_BANDWIDTH_STEPS)
    best = kernel.bandwidth * BANDWIDTH_STEP**step
    logger.info("bandwidth: %.4g, %.3g times the median rule", best, BANDWIDTH_STEP**step)
    tried = {f"{BANDWIDTH_STEP**step:.3g}": value for step, value in sorted(losses.items())}
    return kernel.replace(bandwidth=best), {"bandwidth": best, "median": kernel.bandwidth, "tried": tried}


def search_steps(loss: Callable[[int], float], *, max_steps: int) -> tuple[int, dict[int, float]]:
    """The step with the lowest loss, by a scan that is refined around its best step; and all losses.

    The steps -4, 0 and 4 come first, then those 2 and 1 away from the best so far: seven losses at most. Unlike a
    search that ends where the loss stops falling, this is not stopped by a plateau. A single minimum is always found.

    >>> search_steps(lambda step: (step - 2.2) ** 2, max_steps=6)[0]
    2
    """
    losses = {step: loss(step) for step in (0, -4, 4) if abs(step) <= max_steps}
    for width in (2, 1):
        best = min(losses, key=losses.__getitem__)
        losses |= {step: loss(step) for step in (best - width, best + width) if abs(step) <= max_steps}
    return min(losses, key=losses.__getitem__), losses


def fit_least_squares(
    kernel: Kernel,
    landmarks: Tensor,
    rows: Source,
    *,
    alpha: float | None,
    num_classes: int | None,
    memory_budget: int,
    checkpoint_dir: Path | None = None,
) -> LandmarkModel:
    """By preconditioned conjugate gradients, or by one factorisation if all rows are landmarks.

    Only the first has checkpoints.
    """
    if len(landmarks) == num_rows(rows):
        return fit_exact_ridge(kernel, rows, alpha=alpha, num_classes=num_classes)
    options: dict[str, Any] = {"memory_budget": memory_budget, "checkpoint_dir": checkpoint_dir}
    return fit_landmark_ridge(kernel, landmarks, rows, alpha=alpha, num_classes=num_classes, **options)


def validation_loss(model: nn.Module, task: Task, loss: str) -> float:
    """The weighted mean loss over the validation rows; squared errors of classes are those of one-hot rows."""
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


def choose_features(
    kernel: Kernel, plan: KernelPlan, task: Task, *, verbose: bool | None, group: Any
) -> tuple[list[FeatureMap], dict[str, list[float]]]:
    """The maps of a plan, one for each block of features, and facts about them.

    Facts are survival rates and weights of the inputs after a selection, and the objective on validation rows, epoch
    by epoch, of an adapted basis.
    """
    rows = torch.empty(0, task.train.num_inputs, dtype=task.dtype)
    if not kernel.spectral and not isinstance(kernel, ArcCosine | Polynomial):
        generator = seeded(task.seed, "landmarks")
        rows = sample_rows(task.all_rows, plan.n_components, generator=generator).X.cpu()

    draw = partial(draw_map, kernel, rows, projection=plan.params.projection, device=task.device)

    def make_head(num_features: int, generator: Generator) -> Head:
        bias = LOSSES[task.loss].offset(task.mean)
        return start_head(num_features, task.dtype, bias, plan.params.rank, generator).to(task.device)

    generator = seeded(task.seed, "features")
    if plan.selection is not None:
        selected, facts = stored(
            plan, task, "selection", lambda: _select(draw, make_head, kernel, plan, task, verbose, group), group
        )
        return [selected], facts
    if plan.basis is not None:
        adapted, facts = stored(
            plan,
            task,
            "basis",
            lambda: _adapt(draw(plan.n_components, generator), make_head, plan, task, verbose),
            group,
        )
        return [adapted], facts
    blocks = plan.params.num_blocks
    return [draw(plan.n_components // blocks, generator) for _ in range(blocks)], {}


def _select(
    draw: Any, make_head: Any, kernel: Kernel, plan: KernelPlan, task: Task, verbose: bool | None, group: Any
) -> tuple[FourierMap, dict[str, list[float]]]:
    """The method of the plan; by plain SGD as in the papers, at the rate that is best for features as first drawn."""
    assert plan.selection is not None
    first = draw(plan.n_components, seeded(task.seed, "features"))
    if not isinstance(first, FourierMap):
        raise ValueError(f"selection needs Fourier features, which {kernel!r} does not have.")
    draw, rounds = partial(draw, form=first.form), plan.selection.rounds  # of any number, odd or even
    shared: dict[str, Any] = {
        "num_features": plan.n_components,
        "generator": seeded(task.seed, "features"),
        "verbose": verbose,
    }
    selection: Selection
    if plan.selection.method == "sparse":
        if group is not None:
            raise ValueError("selection method must be 'rounds' or 'fobos' in several processes, got 'sparse'.")
        shared |= {"loss": task.loss, "num_classes": task.num_classes, "rounds": rounds}
        rows = plan.selection.rows_per_round or MAX_ROWS
        selection = select_sparse(draw, task.train, num_rows=rows, **shared)
        # as many are kept in each round as by Algorithm 1
        facts = {"survival": selection.survival().tolist(), "chance": chance_survival(rounds).tolist()}
        return selection.feature_map, {**facts, **_input_weights(selection, kernel)}
    shared["group"] = group
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
    search: dict[str, Any] = {"checkpoint_dir": plan.params.directory("selection"), "group": group}
    search["fingerprint"] = stage_fingerprint(plan, task)
    rate = find_rate(model, task.train, task.validation_data, settings, **search)
    rows = plan.selection.rows_per_round or min(num_rows(task.train), MAX_SELECTION_ROWS)
    settings = replace(settings, learning_rate=rate)
    logger.info("selection: %d rounds of %s rows at the learning rate %.3g", rounds, f"{rows:,}", rate)
    if plan.selection.method == "fobos":
        num_drawn = plan.n_components * (rounds + 1) // 2
        num_drawn += (num_drawn - plan.n_components) % 2  # pairs are an even number of features
        selection = select_by_fobos(draw, make_head, task.train, settings, num_drawn=num_drawn, num_rows=rows, **shared)
        return selection.feature_map, _input_weights(selection, kernel)
    shared["checkpoint_dir"] = plan.params.directory("selection")
    selection = select_features(draw, make_head, task.train, settings, rounds=rounds, rows_per_round=rows, **shared)
    facts = {"survival": selection.survival().tolist(), "chance": chance_survival(rounds).tolist()}
    return selection.feature_map, {**facts, **_input_weights(selection, kernel)}


def _input_weights(selection: Selection, kernel: Kernel) -> dict[str, list[float]]:
    """Relative weights of the inputs; heavy-tailed frequencies without their largest entries, as in the papers."""
    weights = input_weights(selection.feature_map, drop_largest=isinstance(kernel, Laplacian))
    return {"input_weights": weights.tolist()}


def _adapt(
    z: FeatureMap, make_head: Any, plan: KernelPlan, task: Task, verbose: bool | None
) -> tuple[FeatureMap, dict[str, list[float]]]:
    """The random map `z` adapted to the objective of the plan, never worse than `z` on validation rows.

    The head that "dab" trains with the map is discarded: heads are trained afterwards on all rows, for every basis.
    Source: Alber et al. 2017, Section 3.2.
    """
    assert plan.basis is not None
    objective = BASES[plan.basis]
    several = num_rows(task.validation_data) > 1  # objectives are means over pairs of rows
    basis = fit_basis(
        z,
        task.train,
        objective=objective,
        validation_data=task.validation_data if several else task.train,
        head=make_head(z.num_features, seeded(task.seed, "head")) if objective == "loss" else None,
        settings=replace(BASIS, loss=task.loss, seed=task.seed),
        verbose=verbose,
        checkpoint_dir=plan.params.directory("basis"),
    )
    values = [record["validation"] for record in basis.history]
    logger.info("basis: %s %.4g -> %.4g in %d epochs", objective, values[0], min(values), len(values) - 1)
    return basis.feature_map, {"adapted": values}


def draw_map(
    kernel: Kernel,
    X: Tensor,
    num_features: int,
    generator: Generator,
    *,
    projection: str = "auto",
    form: str | None = None,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """The map for the kernel: Fourier for spectral kernels, those of arc-cosine and polynomial kernels, else Nystrom.

    X [n, d] are rows to take landmarks from; only their width and dtype matter to the other maps. `form` None is
    "paired" (a cosine and a sine of each frequency) for an even number of Fourier features, else "cosine".
    """
    shared: dict[str, Any] = {"num_inputs": X.shape[1], "num_features": num_features, "generator": generator}
    shared["dtype"] = X.dtype
    if isinstance(kernel, Spectral) and kernel.spectral:
        if projection == "auto" and kernel.isotropic and X.shape[1] >= STRUCTURED_INPUTS:
            projection = "hadamard3"
        form = form or ("cosine" if num_features % 2 else "paired")
        drawn: FeatureMap = FourierMap.draw(kernel, projection=projection, form=form, **shared)
    elif isinstance(kernel, ArcCosine):
        drawn = ArcCosineMap.draw(kernel, **shared)
    elif isinstance(kernel, Polynomial):
        drawn = TensorSketchMap.draw(kernel, **shared)
    else:
        drawn = NystromMap.fit(kernel, X, num_landmarks=min(num_features, len(X)), generator=generator)
    return drawn.to(device)


def start_head(num_features: int, dtype: torch.dtype, bias: Tensor, rank: int | None, generator: Generator) -> Head:
    """Weights at 0, or Glorot's for a bottleneck, as in the papers; the bias as given."""
    if rank is None:
        weights = torch.zeros(len(bias), num_features, dtype=dtype, device=bias.device)
        return LinearHead(weights, bias.to(dtype, copy=True))
    return BottleneckHead.glorot(
        num_features=num_features, num_outputs=len(bias), rank=rank, generator=generator, bias=bias, dtype=dtype
    )
