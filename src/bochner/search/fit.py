"""From rows to a fitted model: solver, kernel, features and penalty, in the order in which they are chosen.

`fit_model` takes a plan (`bochner.search.plan`) and a task. `KernelClassifier.fit`, `bochner train`, acoustic models
and studies all call it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from bochner.data.blocks import MappedSource, Source, num_rows, sample_rows, seeded
from bochner.data.transforms import Standardize, statistics
from bochner.features import FourierMap
from bochner.features.projections import DenseProjection
from bochner.kernels import Gaussian, Kernel, Spectral
from bochner.models.heads import FeatureModel, LinearHead, LogitAverage
from bochner.models.inputs import TransformedModel
from bochner.models.intervals import Uncertainty
from bochner.models.landmarks import LandmarkModel
from bochner.models.losses import LOSSES
from bochner.models.network import COSINE, WINDOW, Network
from bochner.search.kernel import (
    choose_features,
    choose_kernel,
    fit_least_squares,
    start_head,
    validation_loss,
)
from bochner.search.memory import MemoryPlan, Sizes, plan_memory
from bochner.search.plan import (
    WEIGHT_DECAY,
    AdaptParams,
    KernelPlan,
    NetworkPlan,
    Task,
    check_data,
    parse_bytes,
    resolve_device,
    stored,
)
from bochner.search.searched import MAX_PART_BYTES, Searched, fit_all_rows, is_exact, search_plan
from bochner.solvers import (
    fit_askotch,
    fit_eigenpro,
    fit_landmark_logistic,
    fit_ridge,
    fit_ridge_path,
    fit_saga,
)
from bochner.solvers.pretraining import pretrain
from bochner.solvers.sgd import Record, train
from bochner.solvers.tracking import make_callbacks

logger = logging.getLogger(__name__)

# Up to this many rows all of them become landmarks: the exact kernel model, in seconds.
EXACT_ROWS = 2048
# Solvers of models that are sums over landmarks.
LANDMARK_SOLVERS = ["landmarks", "newton", "askotch", "eigenpro"]
# Up to this many features the normal equations of least squares cost less than epochs of SGD.
MAX_NORMAL_FEATURES = 8192
# Seconds of one thread of a CPU, measured: exact least squares per n^3; normal equations per D^3 and per n D^2; SGD per
# n D. Their ratios decide, also on a GPU.
EXACT_COST, NORMAL_COSTS, SGD_COST = 4.9e-12, (3.2e-10, 1.1e-10), 3.3e-8
# Likewise Newton steps with all rows as landmarks, penalties included, per n^2.5 C^0.3: 0.3 to 18 s for 500 to 2,000
# rows and 2 to 50 classes. They are usually more accurate than SGD and may take this many seconds, where SGD takes one.
NEWTON_COST, NEWTON_SECONDS = 3.2e-8, 15.0
# Penalties that are tried on validation rows, as multiples of k(x, x) / n.
PENALTIES = [10.0**power for power in (-3, -2.5, -2, -1.5, -1, -0.5, 0, 1)]
EXACT_PENALTIES = PENALTIES[::2]
# The median size of the frequencies' entries while they are trained by Adam. Its steps have the size of the rate, 1e-3
# in recipes, which then changes a frequency by about 1 %.
BASIS_FREQUENCY = 0.11
# With more features, those of a basis that is trained by Adam are scaled down in proportion. Each step changes every
# weight of the head by about the rate, and so the scores by a multiple of D; Yang et al. 2022 (Tensor Programs V).
BASIS_FEATURES = 2048
# Numbers that an optimizer stores for each weight, twice: now, and as the epoch began.
OPTIMIZER_COPIES = {"sgd": 0, "momentum": 2, "adam": 5, "adamw": 5}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, with the choices that were made.

    `history` has one record per epoch ("sgd"). `choices` are those made on validation rows: the bandwidth, the others
    that were tried, the learning rate. `selection` has survival rates and input weights where features were selected.
    """

    model: nn.Module
    solver: str
    kernel: Kernel | None = None
    history: list[Record] = field(default_factory=list)
    choices: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, list[float]] | None = None
    search: list[dict[str, Any]] = field(default_factory=list)
    validation: dict[str, Tensor | None] = field(default_factory=dict)
    importances: Tensor | None = None
    uncertainty: Uncertainty | None = None


def fit_model(
    plan: KernelPlan | NetworkPlan,
    task: Task,
    *,
    verbose: bool | None = None,
    group: Any = None,
    callbacks: Sequence[Any] = (),
) -> Fitted:
    """Fit the model of `plan`; whatever it leaves open is chosen on the validation rows of `task`.

    Solver, kernel, features, penalty and weights are determined in this order. `verbose` None shows progress bars on a
    terminal; `group` is the process group of a run in several processes; `callbacks` get a record of every epoch.
    """
    if plan.params.tracking is not None and not callbacks:
        with make_callbacks(plan.params.tracking, group=group) as callbacks:
            return fit_model(plan, task, verbose=verbose, group=group, callbacks=callbacks)
    if plan.params.checkpoint_dir is not None and (group is None or group.is_first):
        if isinstance(plan, KernelPlan):  # an invalid solver is an error before anything is written
            choose_solver(plan, num_rows=num_rows(task.all_rows), num_classes=task.num_classes)
        check_data(plan.params, task)
    run: dict[str, Any] = {"verbose": verbose, "callbacks": callbacks, "group": group}
    if isinstance(plan, NetworkPlan):
        return _fit_network(plan, task, run)
    if plan.is_searched:
        if num_rows(task.all_rows) > 1:
            return _fit_searched(plan, task, run)
        plan = replace(plan, preset=None)  # nothing can be held out of one row
    rows = num_rows(task.all_rows)
    solver = choose_solver(plan, num_rows=rows, num_classes=task.num_classes)
    if plan.solver == "exact" or (plan.solver == "auto" and solver == "landmarks" and rows > EXACT_ROWS):
        plan = replace(plan, n_components=rows)  # least squares with all rows as landmarks is one factorisation
    memory = MemoryPlan() if plan.params.memory_budget is None else _divide_memory(plan, task, solver)
    kernel, choices = choose_kernel(plan, task, memory, group=group)
    if solver == "eigenpro":
        return Fitted(_fit_eigenpro(plan, task, kernel), solver, kernel, choices=choices)
    if solver in LANDMARK_SOLVERS:
        model: nn.Module = _fit_on_landmarks(plan, task, kernel, memory, solver)
        return Fitted(model, solver, kernel, choices=choices)
    if plan.basis == "dab" and solver == "sgd" and plan.params.is_adaptive and kernel.spectral:
        model, history = _fit_basis_and_head(plan, task, kernel, run)
        return Fitted(model, solver, kernel, history, choices | ({"rate": history[0]["rate"]} if history else {}))
    if isinstance(plan.adapt, AdaptParams) and plan.adapt.dilations:
        raise ValueError(
            f"dilations need solver='sgd' with the optimizer 'adamw' or 'adam' and a Gaussian kernel, got {solver!r}, "
            f"{plan.params.optimizer!r} and {kernel!r}."
        )
    maps, facts = choose_features(kernel, plan, task, verbose=verbose, group=group)
    if plan.basis is not None:
        choices |= facts
    match solver:
        case "ridge":
            return Fitted(_fit_ridge(plan, task, maps[0]), solver, kernel, choices=choices)
        case "saga":
            return Fitted(_fit_saga(plan, task, maps[0]), solver, kernel, choices=choices)
    model, history = _fit_sgd(plan, task, maps, memory, run)
    choices |= {"rate": history[0]["rate"]} if history else {}
    return Fitted(model, solver, kernel, history, choices, facts if plan.selection is not None else None)


def _fit_searched(plan: KernelPlan, task: Task, run: dict[str, Any]) -> Fitted:
    """The model chosen by a search on some of the rows, fitted on all of them.

    By exact least squares, in parts if there are many rows; by another solver if the plan needs one.
    """
    if is_exact(plan, task.all_rows, run["group"]):
        result = search_plan(plan, task, verbose=run["verbose"])
        final = fit_all_rows(plan, task, result)
        validation = {"predictions": final.predictions, "targets": final.targets, "weight": final.weight}
        facts = Searched.of(result).facts()
        return Fitted(
            final.model, "exact", result.kernels[0], validation=validation, uncertainty=final.uncertainty, **facts
        )

    def search() -> tuple[Searched, dict[str, Any]]:
        return Searched.of(search_plan(plan, task, verbose=run["verbose"])), {}

    searched = stored(plan, task, "search", search, run["group"])[0]
    transform, facts = searched.transform, searched.facts()
    fixed = replace(plan, preset=None, kernel=searched.kernel, bandwidth=None, gamma=None, standardize=None)
    fixed = replace(fixed, adapt=plan.adapt if plan.basis else None)
    if transform is not None:
        task = task.mapped(lambda block: block._replace(X=transform(block.X)), transform.num_outputs)
    fitted = fit_model(fixed, task, **run)
    model = fitted.model if transform is None else TransformedModel(transform, fitted.model)
    return replace(fitted, model=model, **{**facts, "choices": {**fitted.choices, **facts["choices"]}})


def choose_solver(plan: KernelPlan, *, num_rows: int, num_classes: int | None) -> str:
    """The solver selected by "auto", or the given one if the plan allows it.

    Up to 2,048 rows "auto" is the exact kernel model: "landmarks" for numbers, "newton" for classes if that takes
    seconds, as it does up to 20 classes. Otherwise it is "sgd" for classes; for numbers the exact model as long as it
    costs less than features and its matrix fits into memory, else "ridge" up to 8,192 features, where one pass of
    normal equations costs less than epochs, and "sgd". Options that only "sgd" has make "auto" choose it; an adapted
    basis needs features.
    "exact" is one factorisation while the kernel matrix fits into memory, and "askotch" beyond.
    """
    solver = plan.solver
    if solver == "newton" and num_classes is None:
        raise ValueError("solver must not be 'newton' for regression, which has no logistic loss; use 'landmarks'.")
    if plan.basis == "sab" and num_classes is None:
        raise ValueError("adapt='sab' aligns features with classes; use 'uab' or 'dab' for regression.")
    special = plan.needs_sgd
    if solver == "exact":
        if plan.params.checkpoint_dir is not None:
            raise ValueError(f"checkpoint_dir must be None with solver='exact', got {plan.params.checkpoint_dir!r}.")
        return "landmarks" if _fits_memory(plan, num_rows) else "askotch"
    if solver == "auto":
        if special is not None:
            return "sgd"
        if num_rows <= EXACT_ROWS and plan.basis is None:
            if num_classes is None:
                return "landmarks"
            if NEWTON_COST * num_rows**2.5 * num_classes**0.3 <= NEWTON_SECONDS:
                return "newton"
        if num_classes is None and plan.basis is None and _exact_is_faster(plan, num_rows):
            return "landmarks"
        return "ridge" if num_classes is None and plan.n_components <= MAX_NORMAL_FEATURES else "sgd"
    if solver != "sgd" and special is not None:
        raise ValueError(f"{special} needs solver='sgd', got {solver!r}.")
    if solver in LANDMARK_SOLVERS and plan.basis is not None:
        raise ValueError(f"adapt={plan.basis!r} needs a solver on features, such as 'sgd', got {solver!r}.")
    return solver


def _exact_is_faster(plan: KernelPlan, num_rows: int) -> bool:
    """Whether least squares on all rows takes less time than on features, and its matrix fits into memory."""
    D = plan.n_components
    features = NORMAL_COSTS[0] * D**3 + NORMAL_COSTS[1] * num_rows * D**2
    if D > MAX_NORMAL_FEATURES:
        features = SGD_COST * num_rows * D
    return EXACT_COST * num_rows**3 <= features and _fits_memory(plan, num_rows)


def _fits_memory(plan: KernelPlan, num_rows: int) -> bool:
    """Whether the kernel matrix of all rows is within the budget, or within the part of memory that one may take."""
    if plan.params.memory_budget is not None:  # copies in float64 are counted
        return 40 * num_rows**2 <= parse_bytes(plan.params.memory_budget)
    return 4 * num_rows**2 <= MAX_PART_BYTES["cuda" if resolve_device(plan.params.device).type == "cuda" else "cpu"]


def _fit_sgd(
    plan: KernelPlan, task: Task, maps: list[Any], memory: MemoryPlan, run: dict[str, Any]
) -> tuple[nn.Module, list[Record]]:
    """Minibatch training of a linear or bottleneck head on each map; blocks of features are averaged in the logits."""
    params = plan.params
    rows = num_rows(task.all_rows)
    limit = {} if memory.preconditioner_rows is None else {"preconditioner_rows": memory.preconditioner_rows}
    settings = params.sgd_settings(task.loss, alpha=plan.alpha or 0.0, num_rows=rows, seed=task.seed, **limit)
    bias, generator = LOSSES[task.loss].offset(task.mean), seeded(task.seed, "head")
    directory = None if params.checkpoint_dir is None else params.directory()
    models: list[nn.Module] = []
    history: list[Record] = []
    for number, z in enumerate(maps):
        head = start_head(z.num_features, task.dtype, bias, params.rank, generator)
        model = FeatureModel(z, head).to(task.device)
        records = train(
            model,
            task.train,
            task.validation_data,
            settings,
            checkpoint_dir=directory and (directory if len(maps) == 1 else directory / f"block{number}"),
            **run,
        )
        history += [{"block": number, **record} for record in records] if len(maps) > 1 else records
        models.append(model)
    return models[0] if len(models) == 1 else LogitAverage(models), history


def _fit_basis_and_head(
    plan: KernelPlan, task: Task, kernel: Kernel, run: dict[str, Any]
) -> tuple[FeatureModel | Network, list[Record]]:
    """Features and head trained together for the loss, from random features of the kernel (DAB).

    During training the map is a network of cosines, one layer or one for each level of a convolutional kernel, whose
    units are dropped at random. Its inputs and its cosines are scaled such that the steps of Adam suit every bandwidth
    and every number of features. Source: Alber et al. 2017, Section 3.2.
    """
    assert isinstance(plan.adapt, AdaptParams)
    params, bias, dilations = plan.params, LOSSES[task.loss].offset(task.mean), plan.adapt.dilations
    generator = seeded(task.seed, "features")
    if dilations:
        levels = _convolutional_features(plan, task, kernel, generator)
    else:
        sizes = {"num_inputs": task.train.num_inputs, "num_features": plan.n_components}
        levels = [_random_cosines(kernel, task, **sizes, generator=generator)]
    (W, phases), *above = levels
    typical = torch.where(W == 0, torch.nan, W.abs())
    typical = typical.nanmedian() if dilations else typical.nanmedian(dim=0).values.nan_to_num(1.0)
    spread = (BASIS_FREQUENCY / typical).expand(task.train.num_inputs)
    scale = Standardize(torch.zeros_like(spread), spread)
    amplitude = min(1.0, BASIS_FEATURES / plan.n_components)
    head = start_head(plan.n_components, task.dtype, bias, params.rank, seeded(task.seed, "head")).to(task.device)
    network = Network(
        [W * spread[: W.shape[1]], *(upper / amplitude for upper, _ in above)], [phases, *(b for _, b in above)],
        COSINE, head, dropout=plan.adapt.dropout, dilations=dilations,
    )  # fmt: skip
    network.amplitude = amplitude
    alpha = WEIGHT_DECAY if plan.alpha is None and params.optimizer == "adamw" else plan.alpha or 0.0
    settings = params.sgd_settings(task.loss, alpha=alpha, num_rows=num_rows(task.all_rows), seed=task.seed)
    rows = MappedSource(task.train, scale), MappedSource(task.validation_data, scale)
    history = train(network.to(task.device), *rows, settings, checkpoint_dir=params.directory("training"), **run)
    first, *upper_weights = network.weights
    weights = head.weights if isinstance(head, LinearHead) else head.first
    if dilations:
        first.data.div_(spread[0])
        for W in (*upper_weights, weights):
            W.data.mul_(amplitude)
        network.amplitude = 1.0
        return network, history
    assert isinstance(kernel, Spectral)
    network.fold_inputs(scale.mean, scale.std)
    z = FourierMap(kernel, DenseProjection(first.T.contiguous()), network.biases[0])
    weights.data.mul_(amplitude / z.amplitude)
    return FeatureModel(z, head).to(task.device), history


def _random_cosines(
    kernel: Kernel, task: Task, *, num_inputs: int, num_features: int, generator: Generator
) -> tuple[Tensor, Tensor]:
    """Frequencies [D, d] and phases [D] of random features of the kernel."""
    z = FourierMap.draw(
        kernel, num_inputs=num_inputs, num_features=num_features, form="cosine", projection="iid",
        generator=generator, dtype=task.dtype,
    ).to(task.device)  # fmt: skip
    assert z.phases is not None
    return z.frequencies().T, z.phases.detach().clone()


def _convolutional_features(
    plan: KernelPlan, task: Task, kernel: Kernel, generator: Generator
) -> list[tuple[Tensor, Tensor]]:
    """Frequencies and phases of each level of a convolutional Gaussian kernel.

        k_1(w, w') = exp(-||w - w'||^2 / 2 s_1^2)                      for windows of three frames
        k_l(w, w') = exp(-||z_{l-1}(w) - z_{l-1}(w')||^2 / 2 s_l^2)    for three windows of the level below

    z_l are cosines cos(W_l u + b_l) of the inputs u of level l. s_1 is the bandwidth of the kernel of whole rows for
    three of their frames, s_l^2 the number of inputs of level l: cosines of unrelated windows have that squared
    distance. Source: Mairal et al. 2014, *Convolutional Kernel Networks*; Mairal 2016 (trained for the loss).
    """
    assert isinstance(plan.adapt, AdaptParams)
    dilations, d = plan.adapt.dilations, task.train.num_inputs
    frames = 1 + 2 * sum(dilations)
    if not isinstance(kernel, Gaussian) or kernel.scale is not None or kernel.metric is not None:
        raise ValueError(
            f"kernel must be 'gaussian' without a scale or metric of inputs with dilations, got {kernel!r}."
        )
    if d % frames:
        raise ValueError(
            f"X must have a multiple of {frames} columns, the frames of dilations={list(dilations)}, got {d}."
        )
    levels = []
    num_inputs, bandwidth = WINDOW * d // frames, kernel.bandwidth * math.sqrt(WINDOW / frames)
    for D in (*[plan.adapt.width] * (len(dilations) - 1), plan.n_components):
        sizes = {"num_inputs": num_inputs, "num_features": D}
        levels.append(_random_cosines(Gaussian(bandwidth=bandwidth), task, **sizes, generator=generator))
        num_inputs = WINDOW * D
        bandwidth = math.sqrt(num_inputs)
    return levels


def _fit_ridge(plan: KernelPlan, task: Task, z: Any) -> nn.Module:
    """Normal equations; without a given penalty, the one with the lowest validation loss."""
    if plan.alpha is not None:
        return FeatureModel(z, fit_ridge(z, task.all_rows, alpha=plan.alpha, num_classes=task.num_classes))
    penalties = [factor / num_rows(task.all_rows) for factor in PENALTIES]
    heads = fit_ridge_path(z, task.train, alphas=penalties, num_classes=task.num_classes)
    return min((FeatureModel(z, head) for head in heads), key=lambda model: validation_loss(model, task, "squared"))


def _fit_saga(plan: KernelPlan, task: Task, z: Any) -> nn.Module:
    """The convex problem to its minimum; the default penalty is 1 / n, scikit-learn's C = 1."""
    head = fit_saga(
        z,
        task.all_rows,
        loss=task.loss,
        alpha=1 / num_rows(task.all_rows) if plan.alpha is None else plan.alpha,
        num_classes=task.num_classes,
        max_epochs=plan.params.max_epochs,
        generator=seeded(task.seed, "solver"),
    )
    return FeatureModel(z, head)


def _fit_on_landmarks(plan: KernelPlan, task: Task, kernel: Kernel, memory: MemoryPlan, solver: str) -> LandmarkModel:
    """On landmarks drawn uniformly from the rows: logistic or softmax regression by Newton steps, or least squares; or
    least squares on all rows by blocks.

    Without a given penalty, up to 2,048 rows the one with the lowest validation loss; beyond, the solver's rule.
    """
    method: Callable[..., LandmarkModel] = fit_landmark_logistic if solver == "newton" else fit_least_squares
    generator = seeded(task.seed, "solver")
    m = min(plan.n_components, num_rows(task.all_rows))
    # blocks of K_nm are kept with their rows, in float64 at most
    cache = memory.cache * m // (m + 2 * (task.train.num_inputs + len(task.mean) + 1))

    def fit(rows: Source, alpha: float | None, **checkpoints: Any) -> LandmarkModel:
        if solver == "askotch":
            epochs = plan.params.max_epochs
            return fit_askotch(
                kernel, rows, alpha=alpha, num_classes=task.num_classes, max_epochs=epochs, generator=generator
            )
        landmarks = sample_rows(rows, plan.n_components, generator=generator).X
        options = {"num_classes": task.num_classes, "memory_budget": cache, **checkpoints}
        return method(kernel, landmarks, rows, alpha=alpha, **options)

    alpha = plan.alpha
    if alpha is None and num_rows(task.all_rows) <= EXACT_ROWS:
        penalties = [factor / num_rows(task.all_rows) for factor in EXACT_PENALTIES]
        loss = task.loss if solver == "newton" else "squared"
        losses = [validation_loss(fit(task.train, penalty), task, loss) for penalty in penalties]
        alpha = penalties[losses.index(min(losses))]
    return fit(task.all_rows, alpha, checkpoint_dir=plan.params.directory("landmarks"))


def _fit_eigenpro(plan: KernelPlan, task: Task, kernel: Kernel) -> LandmarkModel:
    """Least squares by SGD on landmarks drawn uniformly from the training rows, stopped by validation rows."""
    landmarks = sample_rows(task.train, plan.n_components, generator=seeded(task.seed, "solver")).X
    return fit_eigenpro(
        kernel,
        landmarks,
        task.train,
        alpha=plan.alpha or 0.0,
        num_classes=task.num_classes,
        max_epochs=plan.params.max_epochs,
        evaluate=lambda model: validation_loss(model, task, "squared"),
        improvement=plan.params.improvement,
        seed=task.seed,
    )


def _fit_network(plan: NetworkPlan, task: Task, run: dict[str, Any]) -> Fitted:
    """A random start, layer-wise pre-training if requested, then training of the whole network.

    Source: May 2018, Section 4.3 (pre-training).
    """
    params, bias = plan.params, LOSSES[task.loss].offset(task.mean)
    rows: tuple[Source, Source] = task.train, task.validation_data
    if plan.standardize:
        spread = statistics(task.all_rows)
        scale = Standardize(spread.mean.to(task.device), spread.std.to(task.device))
        rows = MappedSource(task.train, scale), MappedSource(task.validation_data, scale)
    network = Network.draw(
        num_inputs=task.train.num_inputs,
        hidden=plan.hidden,
        num_outputs=len(bias),
        activation=plan.activation,
        rank=params.rank,
        batch_norm=plan.batch_norm,
        dropout=plan.dropout,
        residual=plan.residual,
        dilations=plan.dilations,
        generator=seeded(task.seed, "network"),
        dtype=task.dtype,
    ).to(task.device)
    with torch.no_grad():
        network.head.bias.copy_(bias)  # the best constant scores, which then need not be learned
    alpha = plan.alpha if plan.alpha is not None else WEIGHT_DECAY if params.optimizer == "adamw" else 0.0
    settings = params.sgd_settings(task.loss, alpha=alpha, num_rows=num_rows(task.all_rows), seed=task.seed)
    if plan.pretrain:
        generator, directory = seeded(task.seed, "heads"), params.directory("pretraining")
        pretrain(network, *rows, settings, generator=generator, checkpoint_dir=directory, **run)
    directory = params.directory("training")
    history = train(network, *rows, settings, checkpoint_dir=directory, **run)
    if plan.standardize:
        network.fold_inputs(scale.mean, torch.where(scale.std > 0, scale.std, 1.0))
    return Fitted(network, "sgd", history=history, choices={"rate": history[0]["rate"]} if history else {})


def _divide_memory(plan: KernelPlan, task: Task, solver: str) -> MemoryPlan:
    """The budget of the plan, divided over the phases of the fit."""
    params = plan.params
    assert params.memory_budget is not None
    settings = params.sgd_settings(task.loss, alpha=0.0, num_rows=num_rows(task.all_rows), seed=task.seed)
    sizes = Sizes(
        num_rows(task.all_rows),
        max(task.all_rows.shard_sizes),
        task.train.num_inputs,
        len(task.mean),
        plan.n_components,
        task.dtype.itemsize,
        copies=6 + OPTIMIZER_COPIES[params.optimizer] + (0 if params.checkpoint_dir is None else 6),
        has_landmarks=isinstance(plan.kernel, Kernel) and not plan.kernel.spectral,
    )
    preconditioned = solver == "sgd" and settings.preconditioner_rank != 0
    metric = plan.adapt if isinstance(plan.adapt, AdaptParams) and plan.adapt.method == "agop" else None
    return plan_memory(
        parse_bytes(params.memory_budget),
        sizes,
        solver=solver,
        preconditioner_rows=settings.preconditioner_rows if preconditioned else 0,
        metric=None if metric is None else (metric.num_landmarks, metric.num_rows),
    )
