"""Bases adapted to data: the kernel's own (UAB), the classes' (SAB), or a classifier's (DAB)."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Generator, Tensor
from torch.optim import Adam, Optimizer
from tqdm import tqdm

from bochner import checks
from bochner.data import classes_of, split
from bochner.data.batches import batches, in_order
from bochner.data.blocks import Block, Source, num_rows, rebatch, sample_rows
from bochner.features import FeatureMap, FourierMap
from bochner.kernels import Kernel
from bochner.models.heads import Head, LinearHead
from bochner.models.losses import LOSSES
from bochner.solvers.sgd import Callback, Record

PATIENCE, STRUCTURED_PATIENCE = 10, 20


@dataclass(frozen=True)
class Plan:
    """Adam with early stopping; batches, epochs and patience are those of Alber et al. 2017, Section 4.1.

    Args:
        batch_size: Rows a step. Alignment is that of a batch, so its size is part of that objective.
        learning_rate: Adam's rate, times the median size of the entries it changes: a step then means the same for
            frequencies of any bandwidth, and is that on G where the paper writes W = G / sigma.
        decay: The factor of all rates after an epoch without improvement; 1 keeps them, as in the paper.
        head_rate: How far a step may move the scores of a typical row through the head.
        batches: Training batches an epoch; None is 10,000, or one pass over the rows for objective "loss".
        heldout_batches: Heldout batches, the same ones every epoch; None is 1,000, or all heldout rows for "loss".
        patience: Epochs without improvement after which the best one is taken; None is 10, 20 for structured maps.
        max_epochs: An upper bound.
        loss: "softmax", "logistic" or "squared"; for objective "loss" only.
        seed: For the order of the rows.
    """

    batch_size: int = 64
    learning_rate: float = 3e-3
    decay: float = 0.5
    head_rate: float = 0.1
    batches: int | None = None
    heldout_batches: int | None = None
    patience: int | None = None
    max_epochs: int = 200
    loss: str = "softmax"
    seed: int = 0

    def __post_init__(self) -> None:
        if checks.positive_int("batch_size", self.batch_size) < 2:
            raise ValueError("batch_size must be at least 2, since kernels are seen through pairs of rows, got 1.")
        for name in ("batches", "heldout_batches", "patience"):
            if getattr(self, name) is not None:
                checks.positive_int(name, getattr(self, name))
        checks.positive_int("max_epochs", self.max_epochs)
        checks.positive_float("learning_rate", self.learning_rate)
        checks.positive_float("head_rate", self.head_rate)
        if checks.positive_float("decay", self.decay) > 1:
            raise ValueError(f"decay must be at most 1, since rates fall, got {self.decay!r}.")
        checks.one_of("loss", self.loss, LOSSES)
        checks.nonnegative_int("seed", self.seed)

    def patience_for(self, feature_map: FeatureMap) -> int:
        """Epochs without improvement that are waited for."""
        if self.patience is not None:
            return self.patience
        structured = isinstance(feature_map, FourierMap) and feature_map.projection.structured
        return STRUCTURED_PATIENCE if structured else PATIENCE


@dataclass
class Patience:
    """Stops after `epochs` epochs in which a heldout value that should fall did not, and remembers the best state.

    >>> patience = Patience(epochs=2)
    >>> weight = torch.zeros(1)
    >>> for value in (3.0, 1.0, 2.0, 1.0):
    ...     improved = patience.judge(value, {"weight": weight.fill_(value)})
    >>> patience.finished, patience.best
    (True, 1.0)
    >>> patience.restore({"weight": weight})
    >>> weight
    tensor([1.])
    """

    epochs: int
    best: float = math.inf
    waited: int = 0
    state: dict[str, Tensor] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        return self.waited >= self.epochs

    def judge(self, value: float, parameters: Mapping[str, Tensor]) -> bool:
        """Whether `value` is the best so far; then the parameters that made it are copied."""
        if value >= self.best:
            self.waited += 1
            return False
        self.best, self.waited = value, 0
        self.state = {name: p.detach().clone() for name, p in parameters.items()}
        return True

    def restore(self, parameters: Mapping[str, Tensor]) -> None:
        """Put the best state back, in place."""
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(self.state[name])


OBJECTIVES = ["kernel", "alignment", "loss"]
Objective = Callable[[Tensor, Block], Tensor]  # features Z [n, D], and the rows they were made of


def kernel_error(Z: Tensor, K: Tensor) -> Tensor:
    """The mean over pairs i != j of (k_ij - z_i . z_j)^2 / 2, for Z [n, D] and K [n, n].

    A batch of n rows holds n (n - 1) / 2 pairs: their mean has the expectation of one pair of different rows and much
    less noise than n / 2 separate ones, for the same features. O(n^2 D). Source: Alber et al. 2017, Eq. 8.

    >>> float(kernel_error(torch.eye(2), torch.full((2, 2), 0.5)))
    0.125
    """
    n = len(Z)
    errors = (Z @ Z.T - K).square()
    return (errors.sum() - errors.diagonal().sum()) / (2 * n * (n - 1))


def misalignment(Z: Tensor, y: Tensor) -> Tensor:
    """1 - <K, K_Y> / sqrt(<K, K> <K_Y, K_Y>) for K = Z Z^T and k_Y = 1 for equal classes, else 0; Z [n, D], y [n].

    All pairs count, those of a row with itself too. O(n^2 D).
    Source: Alber et al. 2017, Eq. 9, after Cristianini et al. 2001.

    >>> abs(float(misalignment(torch.eye(3)[[0, 0, 2]], torch.tensor([5, 5, 1])))) < 1e-6
    True
    """
    K = Z @ Z.T
    same = (y[:, None] == y).to(K)
    return 1 - (K * same).sum() / (K.norm() * same.norm())


def kernel_objective(kernel: Kernel) -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        with torch.no_grad():
            K = kernel(block.X)
        return kernel_error(Z, K)

    return value


def alignment_objective() -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        if block.y.ndim != 1 or block.y.is_floating_point():
            raise ValueError(
                f"objective='alignment' needs class indices [rows] as targets, got {block.y.dtype} "
                f"{tuple(block.y.shape)}; use objective='kernel', or 'loss' with Plan(loss='squared')."
            )
        return misalignment(Z, block.y)

    return value


def loss_objective(head: Head, loss: str) -> Objective:
    def value(Z: Tensor, block: Block) -> Tensor:
        return LOSSES[loss](head(Z), block.y, block.weight)

    return value


TRAIN_BATCHES, HELDOUT_BATCHES = 10_000, 1_000
HELDOUT_ROWS = 1024  # of a heldout pass at once
HELDOUT_SEED = 1_000_003  # added to the plan's, so that heldout rows have an order of their own

Epoch = Callable[[int], Iterator[Block]]  # number of the epoch, from 0


def endless(source: Source, *, batch_size: int, seed: int) -> Iterator[Block]:
    """Full batches of shuffled rows for ever: pass after pass over the source, each in another order."""
    passes = (batches(source, batch_size=batch_size, seed=seed, epoch=lap) for lap in itertools.count())
    return rebatch(itertools.chain.from_iterable(passes), batch_size)


def training_epochs(source: Source, plan: Plan, *, whole: bool) -> Epoch:
    """`plan.batches` batches an epoch, which go on where the last one stopped; None with `whole` is one pass."""
    size = min(plan.batch_size, num_rows(source))
    if whole and plan.batches is None:
        return lambda epoch: batches(source, batch_size=size, seed=plan.seed, epoch=epoch)
    stream = endless(source, batch_size=size, seed=plan.seed)
    return lambda epoch: itertools.islice(stream, plan.batches or TRAIN_BATCHES)


def heldout_batches(validation_data: Source, plan: Plan, *, whole: bool) -> Iterator[Block]:
    """The same batches at every call, so that epochs differ by their parameters alone."""
    if whole and plan.heldout_batches is None:
        return in_order(validation_data, batch_rows=HELDOUT_ROWS)
    size = min(plan.batch_size, num_rows(validation_data))
    stream = endless(validation_data, batch_size=size, seed=plan.seed + HELDOUT_SEED)
    return itertools.islice(stream, plan.heldout_batches or HELDOUT_BATCHES)


@dataclass
class Fit:
    """All that one adaptation needs: what is changed, at which rates, for what, and on which rows."""

    feature_map: FeatureMap
    parameters: dict[str, Tensor]
    rates: dict[str, float]
    objective: Objective
    epochs: Epoch
    validation_data: Callable[[], Iterable[Block]]


def minimise(
    fit: Fit,
    *,
    patience: Patience,
    decay: float,
    max_epochs: int,
    verbose: bool | None,
    callbacks: Sequence[Callback],
) -> list[Record]:
    """Change the parameters in place and leave them at their best heldout epoch; one record an epoch, from 0."""
    groups = [{"params": [p], "lr": fit.rates[name]} for name, p in fit.parameters.items()]
    optimizer = Adam(groups, fused=True)
    history: list[Record] = []
    for epoch in range(max_epochs + 1):
        train = _train(fit, optimizer, epoch, patience.best, verbose) if epoch else math.nan
        validation_data = _evaluate(fit)
        if not math.isfinite(validation_data):
            raise FloatingPointError(
                f"adaptation diverged in epoch {epoch}; give a smaller learning_rate or head_rate."
            )
        improved = patience.judge(validation_data, fit.parameters)
        history.append({"epoch": epoch, "train": train, "heldout": validation_data, "improved": improved})
        for callback in callbacks:
            callback(history[-1])
        if patience.finished:
            break
        if not improved:
            _lower(optimizer, decay)
    patience.restore(fit.parameters)
    return history


def _train(fit: Fit, optimizer: Optimizer, epoch: int, best: float, verbose: bool | None) -> float:
    values = []
    hidden = None if verbose is None else not verbose
    with tqdm(fit.epochs(epoch - 1), desc=f"epoch {epoch}", unit="batch", disable=hidden, leave=False) as bar:
        bar.set_postfix(best=f"{best:.3g}")
        for block in bar:
            optimizer.zero_grad(set_to_none=True)
            value = _value(fit, block)
            value.backward()
            optimizer.step()
            values.append(value.detach())
    return float(torch.stack(values).mean())


def _lower(optimizer: Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] *= factor


def _evaluate(fit: Fit) -> float:
    values, sizes = [], []
    with torch.no_grad():
        for block in fit.validation_data():
            values.append(_value(fit, block))
            sizes.append(len(block.X))
    return float(torch.stack(values).double().cpu() @ torch.tensor(sizes).double()) / sum(sizes)


def _value(fit: Fit, block: Block) -> Tensor:
    like = next(fit.feature_map.parameters())
    weight = None if block.weight is None else block.weight.to(like)
    block = Block(block.X.to(like), block.y.to(like.device), weight)
    return fit.objective(fit.feature_map(block.X), block)


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
    validation_data: Source | None = None,
    plan: Plan | None = None,
    verbose: bool | None = True,
    callbacks: Sequence[Callback] = (),
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

    >>> from bochner.data import ArraySource
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.adaptation import alignment
    >>> X = torch.randn(1000, 2, generator=Generator().manual_seed(0))
    >>> rows = ArraySource(X, (X.norm(dim=1) > 1).long())
    >>> z = FourierMap.draw(
    ...     Gaussian(bandwidth=2.0), num_inputs=2, num_features=16, generator=Generator().manual_seed(0)
    ... )
    >>> plan = Plan(batches=200, heldout_batches=20, max_epochs=5)
    >>> adapted = adapt(z, rows, objective="alignment", plan=plan, verbose=False)
    >>> type(adapted).__name__, alignment(adapted, rows) > alignment(z, rows) + 0.05
    ('FourierMap', True)
    """
    return fit_basis(
        feature_map,
        source,
        objective=objective,
        validation_data=validation_data,
        plan=plan,
        verbose=verbose,
        callbacks=callbacks,
    ).feature_map


def fit_basis(
    feature_map: Map,
    source: Source,
    *,
    objective: str = "kernel",
    validation_data: Source | None = None,
    head: Head | None = None,
    plan: Plan | None = None,
    verbose: bool | None = True,
    callbacks: Sequence[Callback] = (),
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
    if validation_data is None:
        source, validation_data = split(source, HELDOUT_FRACTION, seed=plan.seed)
    if objective == "loss":
        head = _empty_head(feature_map, source, plan) if head is None else copy.deepcopy(head)
    return _fit(copy.deepcopy(feature_map), source, validation_data, objective, head, plan, verbose, callbacks)


def _fit(
    feature_map: Map,
    source: Source,
    validation_data: Source,
    objective: str,
    head: Head | None,
    plan: Plan,
    verbose: bool | None,
    callbacks: Sequence[Callback],
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
        partial(heldout_batches, validation_data, plan, whole=objective == "loss"),
    )
    history = minimise(
        fit,
        patience=Patience(plan.patience_for(feature_map)),
        decay=plan.decay,
        max_epochs=plan.max_epochs,
        verbose=verbose,
        callbacks=callbacks,
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
