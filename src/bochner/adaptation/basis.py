"""Adapted bases: feature maps trained for their kernel (UAB), for the classes (SAB) or with a classifier (DAB)."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Generator, Tensor
from torch.optim import Adam
from tqdm import tqdm

from bochner import checks
from bochner.data import classes_of, split
from bochner.data.batches import batches, in_order
from bochner.data.blocks import Block, Source, num_rows, rebatch, sample_rows
from bochner.features import FeatureMap, FourierMap
from bochner.models.heads import Head, LinearHead
from bochner.models.losses import LOSSES
from bochner.solvers.checkpoint import read_checkpoint, readable, write_checkpoint
from bochner.solvers.optimizers import optimizer_tensors, restore_optimizer
from bochner.solvers.sgd import Callback, Record

OBJECTIVES = ["kernel", "alignment", "loss"]
# As in the experiments of Alber et al. 2017, Section 4.1: epochs without improvement (dense and structured maps),
# training and validation batches per epoch.
PATIENCE, STRUCTURED_PATIENCE = 10, 20
TRAIN_BATCHES, VALIDATION_BATCHES = 10_000, 1_000
VALIDATION_FRACTION = 0.1
VALIDATION_ROWS = 1024  # rows evaluated at once in a pass over all validation rows
VALIDATION_SEED = 1_000_003  # added to the seed, so that the validation rows have their own order
RATE_ROWS = 64  # rows on which the size of the features is measured

Map = TypeVar("Map", bound=FeatureMap)


@dataclass(frozen=True)
class BasisSettings:
    """Adam with early stopping; batches, epochs and patience are those of Alber et al. 2017, Section 4.1.

    Args:
        batch_size: Rows per step. Alignment is that of a batch, so its size is part of that objective.
        learning_rate: Adam's rate, relative to the median size of the entries it changes. It then has the same effect
            for frequencies of any bandwidth: that of a step on G where the paper writes W = G / sigma.
        decay: The factor applied to all rates after an epoch without improvement; 1, as in the paper, keeps them.
        head_rate: The largest change of the scores of a typical row by one step on the head.
        batches: Training batches per epoch; None is 10,000, or one pass over the rows for objective "loss".
        validation_batches: Validation batches, the same in every epoch; None is 1,000, or all rows for "loss".
        patience: Epochs without improvement after which training ends; None is 10, or 20 for structured maps.
        max_epochs: An upper bound.
        loss: "softmax", "logistic" or "squared"; for objective "loss" only.
        seed: For the order of the rows.
    """

    batch_size: int = 64
    learning_rate: float = 3e-3
    decay: float = 0.5
    head_rate: float = 0.1
    batches: int | None = None
    validation_batches: int | None = None
    patience: int | None = None
    max_epochs: int = 200
    loss: str = "softmax"
    seed: int = 0

    def __post_init__(self) -> None:
        if checks.positive_int("batch_size", self.batch_size) < 2:
            raise ValueError("batch_size must be at least 2, since objectives are means over pairs of rows, got 1.")
        for name in ("batches", "validation_batches", "patience"):
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
        """`patience`, or its default for this map."""
        if self.patience is not None:
            return self.patience
        structured = isinstance(feature_map, FourierMap) and feature_map.projection.structured
        return STRUCTURED_PATIENCE if structured else PATIENCE


class Basis(NamedTuple, Generic[Map]):
    """An adapted map, the head that was trained with it (objective "loss" only), and one record per epoch."""

    feature_map: Map
    head: Head | None
    history: list[Record]


def adapt(
    feature_map: Map,
    source: Source,
    *,
    objective: str = "kernel",
    validation_data: Source | None = None,
    settings: BasisSettings | None = None,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Map:
    """The map of `fit_basis`.

    >>> from bochner.data import ArraySource
    >>> from bochner.features import FourierMap
    >>> from bochner.kernels import Gaussian
    >>> from bochner.adaptation import alignment
    >>> X = torch.randn(1000, 2, generator=Generator().manual_seed(0))
    >>> rows = ArraySource(X, (X.norm(dim=1) > 1).long())
    >>> z = FourierMap.draw(
    ...     Gaussian(bandwidth=2.0), num_inputs=2, num_features=16, generator=Generator().manual_seed(0)
    ... )
    >>> settings = BasisSettings(batches=200, validation_batches=20, max_epochs=5)
    >>> adapted = adapt(z, rows, objective="alignment", settings=settings, verbose=False)
    >>> type(adapted).__name__, alignment(adapted, rows) > alignment(z, rows) + 0.05
    ('FourierMap', True)
    """
    return fit_basis(
        feature_map,
        source,
        objective=objective,
        validation_data=validation_data,
        settings=settings,
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
    settings: BasisSettings | None = None,
    checkpoint_dir: Path | None = None,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
) -> Basis[Map]:
    """A map of the same type whose parameters minimise an objective over the rows of `source`:

        "kernel"     (k(x, x') - z(x) . z(x'))^2 / 2 over pairs of rows; needs no targets        (UAB)
        "alignment"  1 - centred alignment of z . z' with k_Y, 1 for equal classes, else 0       (SAB)
        "loss"       the loss of a linear head on z, trained together with the map               (DAB)

    The given map (RB) is the starting point and does not change. Trained are the frequencies and phases of dense
    Fourier maps, the non-zero values of sparse ones, the diagonals of structured ones, and the weights of all layers of
    arc-cosine maps. Early stopping uses `validation_data`, or a tenth of the rows; the result is never worse there than
    the start. Row weights count in "loss" only. A step on n rows costs three evaluations of the map and O(n^2 D) for
    the pairs; memory is that of a batch. Source: Alber et al. 2017, Section 3.2.

    Args:
        head: The initial head for objective "loss", zeros if None; it does not change.
        checkpoint_dir: Directory for a checkpoint of every epoch, from which the same call resumes.
        verbose: Whether to show progress bars; None shows them on a terminal only.
        callbacks: Called with the record of each epoch: epoch, train, validation, improved.
    """
    checks.one_of("objective", objective, OBJECTIVES)
    if head is not None and objective != "loss":
        raise ValueError(f"head must be None with objective={objective!r}, which trains none; use objective='loss'.")
    if not feature_map.adaptable():
        raise ValueError(
            f"feature_map must have parameters to adapt, {feature_map!r} has none; use a FourierMap or an "
            "ArcCosineMap of order 1 or 2."
        )
    settings, feature_map = settings or BasisSettings(), copy.deepcopy(feature_map)
    if validation_data is None:
        source, validation_data = split(source, VALIDATION_FRACTION, seed=settings.seed)
    if objective == "loss":
        head = _zero_head(feature_map, source, settings) if head is None else copy.deepcopy(head)
    parameters = {name: feature_map.get_parameter(name).requires_grad_(True) for name in feature_map.adaptable()}
    rates = {name: settings.learning_rate * float(p.detach().abs().median()) for name, p in parameters.items()}
    if head is not None:
        rates |= _head_rates(feature_map, head, source, settings)
        parameters |= {f"head.{name}": p.requires_grad_(True) for name, p in head.named_parameters()}
    optimizer = Adam([{"params": [p], "lr": rates[name]} for name, p in parameters.items()], fused=True)
    progress = _Progress(parameters, optimizer)
    fingerprint = {"map": repr(feature_map), "rows": num_rows(source), "objective": objective, **asdict(settings)}
    if checkpoint_dir is not None:
        progress.read(checkpoint_dir, fingerprint)

    def value_of(block: Block) -> Tensor:
        return _value(objective, feature_map, head, settings.loss, block)

    whole, patience = objective == "loss", settings.patience_for(feature_map)
    training = _training_epochs(source, settings, whole=whole, start=max(0, len(progress.history) - 1))
    while len(progress.history) <= settings.max_epochs and progress.waited < patience:
        epoch = len(progress.history)
        if epoch and not progress.history[-1]["improved"]:
            for group in optimizer.param_groups:
                group["lr"] *= settings.decay
        train = _run_epoch(training, value_of, optimizer, epoch, progress.best, verbose) if epoch else math.nan
        validation = _mean_value(_validation_batches(validation_data, settings, whole=whole), value_of)
        if not math.isfinite(validation):
            raise FloatingPointError(
                f"adaptation diverged in epoch {epoch}; give a smaller learning_rate or head_rate."
            )
        progress.add({"epoch": epoch, "train": train, "validation": validation})
        for callback in callbacks:
            callback(progress.history[-1])
        if checkpoint_dir is not None:
            progress.write(checkpoint_dir, fingerprint)
    progress.copy_to_parameters(progress.best_state)
    return Basis(feature_map.requires_grad_(False), head, progress.history)


class _Progress:
    """The epochs so far, the best validation value, the parameters that reached it, and epochs since then."""

    def __init__(self, parameters: dict[str, Tensor], optimizer: Adam) -> None:
        self.parameters, self.optimizer = parameters, optimizer
        self.history: list[Record] = []
        self.best, self.waited = math.inf, 0
        self.best_state: dict[str, Tensor] = {}

    def add(self, record: Record) -> None:
        improved = record["validation"] < self.best
        self.history.append({**record, "improved": improved})
        self.waited = 0 if improved else self.waited + 1
        if improved:
            self.best = record["validation"]
            self.best_state = {name: p.detach().clone() for name, p in self.parameters.items()}

    def copy_to_parameters(self, state: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state[name])

    def write(self, checkpoint_dir: Path, fingerprint: dict[str, Any]) -> None:
        tensors = {f"now.{name}": p.detach() for name, p in self.parameters.items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_state.items()}
        rates = [group["lr"] for group in self.optimizer.param_groups]
        history = [
            {**record, "train": None if math.isnan(record["train"]) else record["train"]} for record in self.history
        ]
        state = {"fingerprint": fingerprint, "history": history, "waited": self.waited, "rates": rates}
        write_checkpoint(checkpoint_dir, tensors | optimizer_tensors(self.optimizer), state)

    def read(self, checkpoint_dir: Path, fingerprint: dict[str, Any]) -> None:
        stored = read_checkpoint(checkpoint_dir, fingerprint)
        if stored is None:
            return
        tensors, state = stored
        with readable(checkpoint_dir):
            self.history = [
                {**record, "train": math.nan if record["train"] is None else float(record["train"])}
                for record in state["history"]
            ]
            self.best = min(float(record["validation"]) for record in self.history)
            self.waited = checks.nonnegative_int("waited", state["waited"])
            self.best_state = {name: tensors[f"best.{name}"].to(p.device) for name, p in self.parameters.items()}
            self.copy_to_parameters({name: tensors[f"now.{name}"] for name in self.parameters})
            restore_optimizer(self.optimizer, tensors)
            for group, rate in zip(self.optimizer.param_groups, state["rates"], strict=True):
                group["lr"] = checks.positive_float("rates", rate)


def _run_epoch(
    training: Iterator[Iterator[Block]],
    value_of: Callable[[Block], Tensor],
    optimizer: Adam,
    epoch: int,
    best: float,
    verbose: bool | None,
) -> float:
    """The mean objective over the steps of an epoch."""
    values = []
    hidden = None if verbose is None else not verbose
    with tqdm(next(training), desc=f"epoch {epoch}", unit="batch", disable=hidden, leave=False) as bar:
        bar.set_postfix(best=f"{best:.3g}")
        for block in bar:
            optimizer.zero_grad(set_to_none=True)
            value = value_of(block)
            value.backward()
            optimizer.step()
            values.append(value.detach())
    return float(torch.stack(values).mean())


def _mean_value(blocks: Iterator[Block], value_of: Callable[[Block], Tensor]) -> float:
    """The mean objective over blocks, weighted by their rows."""
    values, sizes = [], []
    with torch.no_grad():
        for block in blocks:
            values.append(value_of(block))
            sizes.append(len(block.X))
    return float(torch.stack(values).double().cpu() @ torch.tensor(sizes).double()) / sum(sizes)


def _value(objective: str, feature_map: FeatureMap, head: Head | None, loss: str, block: Block) -> Tensor:
    """The objective on a block of rows."""
    like = next(feature_map.parameters())
    X, y = block.X.to(like), block.y.to(like.device)
    Z = feature_map(X)
    if head is not None:
        return LOSSES[loss](head(Z), y, None if block.weight is None else block.weight.to(like))
    if objective == "kernel":
        with torch.no_grad():
            K = feature_map.kernel(X)
        return kernel_error(Z, K)
    if y.ndim != 1 or y.is_floating_point():
        raise ValueError(
            f"objective='alignment' needs class indices [rows] as targets, got {y.dtype} {tuple(y.shape)}; "
            "use objective='kernel', or 'loss' with BasisSettings(loss='squared')."
        )
    return misalignment(Z, y)


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
    """1 - <K, K_Y> / sqrt(<K, K> <K_Y, K_Y>) for centred K = Z Z^T and K_Y, 1 for equal classes; Z [n, D], y [n].

    All pairs count, including those of a row with itself. O(n^2 D). Source: Alber et al. 2017, Eq. 9, whose matrices
    are not centred, and Cortes et al. 2012, whose are. Without centring the mean of the features counts as well. Those
    of arc-cosine maps are not negative and their mean is large: it then determines the gradient, the features become
    similar, and a classifier on them is worse than on random ones.

    >>> abs(float(misalignment(torch.eye(3)[[0, 0, 2]], torch.tensor([5, 5, 1])))) < 1e-6
    True
    """
    Z = Z - Z.mean(dim=0)
    K = Z @ Z.T
    same = (y[:, None] == y).to(K)
    same = same - same.mean(dim=0) - same.mean(dim=1, keepdim=True) + same.mean()
    norms = (K.norm() * same.norm()).clamp_min(torch.finfo(K.dtype).tiny)  # 0 if a batch has a single class
    return 1 - (K * same).sum() / norms


def endless(source: Source, *, batch_size: int, seed: int) -> Iterator[Block]:
    """An endless stream of full batches: passes over the source, each in a new random order."""
    passes = (batches(source, batch_size=batch_size, seed=seed, epoch=number) for number in itertools.count())
    return rebatch(itertools.chain.from_iterable(passes), batch_size)


def _training_epochs(source: Source, settings: BasisSettings, *, whole: bool, start: int) -> Iterator[Iterator[Block]]:
    """The batches of epochs `start`, `start` + 1, ...: a pass each, or `settings.batches` of one long stream."""
    size = min(settings.batch_size, num_rows(source))
    if whole and settings.batches is None:
        for epoch in itertools.count(start):
            yield batches(source, batch_size=size, seed=settings.seed, epoch=epoch)
    count = settings.batches or TRAIN_BATCHES
    stream = itertools.islice(endless(source, batch_size=size, seed=settings.seed), start * count, None)
    while True:
        yield itertools.islice(stream, count)


def _validation_batches(validation_data: Source, settings: BasisSettings, *, whole: bool) -> Iterator[Block]:
    """The same batches at every call, so that epochs differ only in the parameters."""
    if whole and settings.validation_batches is None:
        return in_order(validation_data, batch_rows=VALIDATION_ROWS)
    size = min(settings.batch_size, num_rows(validation_data))
    stream = endless(validation_data, batch_size=size, seed=settings.seed + VALIDATION_SEED)
    return itertools.islice(stream, settings.validation_batches or VALIDATION_BATCHES)


def _zero_head(feature_map: FeatureMap, source: Source, settings: BasisSettings) -> LinearHead:
    match settings.loss:
        case "softmax":
            outputs = int(classes_of(source).max()) + 1
        case "logistic":
            outputs = 1
        case _:
            outputs = source.read(0).y[0].numel()
    like = next(feature_map.parameters())
    head = LinearHead.zeros(num_features=feature_map.num_features, num_outputs=outputs, dtype=like.dtype)
    return head.to(like.device)


def _head_rates(feature_map: FeatureMap, head: Head, source: Source, settings: BasisSettings) -> dict[str, float]:
    """Learning rates of the head. Adam changes each weight by up to its rate, hence a score by up to rate ||z||_1,
    which is set to `head_rate`."""
    like = next(feature_map.parameters())
    rows = sample_rows(source, RATE_ROWS, generator=Generator().manual_seed(settings.seed)).X
    with torch.no_grad():
        size = float(feature_map(rows.to(like)).norm(p=1, dim=1).mean())
    return {f"head.{name}": settings.head_rate / (size if p.ndim > 1 else 1.0) for name, p in head.named_parameters()}
