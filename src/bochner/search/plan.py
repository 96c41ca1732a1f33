"""The model to fit and its rows: a typed plan and a task.

The estimators, `bochner train`, acoustic models and studies all describe a model by a plan.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block, MappedSource, Source, num_rows
from bochner.data.content import content_hashes
from bochner.features import PROJECTION_NAMES
from bochner.kernels import KERNEL_ALIASES, Kernel
from bochner.models.losses import Criterion
from bochner.models.network import ACTIVATIONS, check_dilations, check_dropout
from bochner.solvers.optimizers import OPTIMIZERS, PRECISIONS, SCHEDULES, SGDSettings
from bochner.solvers.rows import summarize
from bochner.solvers.tracking import check_tracking
from bochner.stages import Stage, fingerprint, write_json
from bochner.storage import Storable, checksum, load, save

SOLVERS = ["auto", "exact", "sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro"]
BASES = {"uab": "kernel", "sab": "alignment", "dab": "loss"}  # Alber et al. 2017, and the objective of each
PRESET_NAMES = ["fast", "default", "best"]
SEARCHED_KERNELS = ["auto", "gaussian", "laplacian", "matern12", "power-exponential"]
SELECTION_METHODS = ["rounds", "fobos", "sparse"]
UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
BUFFERED_SHARDS = 11  # shuffling holds 8 shards; one more is being read, with its parts, and a batch is assembled
MAX_BUFFER_BYTES = 2**26  # a larger shuffling buffer does not mix rows noticeably better
MIN_SHARD_ROWS, MAX_SHARD_ROWS = 64, 8192
DATA_FILE = "data.json"  # hashes of the rows of the checkpoints in the same directory
# Types of the options that are neither numbers nor one of a few words.
SOLVER_TYPES: dict[str, tuple[type, ...]] = {
    "device": (str, torch.device),
    "memory_budget": (int, str, NoneType),
    "average": (bool,),
    "criterion": (str, NoneType),
    "checkpoint_dir": (str, os.PathLike, NoneType),
    "tracking": (str, NoneType),
}

Value = TypeVar("Value", bound=Storable)
Params = TypeVar("Params", bound="SolverParams | AdaptParams | SelectionParams")


@dataclass(frozen=True, kw_only=True)
class SolverParams:
    """Options of a fit that belong to the machine or to one solver.

    Parameters
    ----------
    device : str, default="auto"
        "auto" is the GPU when there is one.
    precision : {"float32", "tf32", "bf16", "float64"}, default="float32"
        Of the products; weights stay in float32, or float64. "bf16" takes effect on GPUs, and on CPUs with units for it
        (AVX512-BF16 or AMX); other CPUs compute in float32.
    memory_budget : int, str or None, default=None
        Bytes, or text such as "500MB", that a fit may allocate besides the data it is given.
    projection : str, default="auto"
        How the frequencies of Fourier features are drawn, see `FourierFeatures`. "auto" is "hadamard3" for isotropic
        kernels of 256 inputs or more, where it takes a fraction of the time.
    max_epochs : int, default=100
        Upper bound on the epochs of "sgd", "saga", "askotch" and "eigenpro"; they usually stop earlier.
    rank : int or None, default=None
        Rank of a linear bottleneck between features and outputs. This option and those below need solver "sgd".
    num_blocks : int, default=1
        Blocks of features that are trained separately; their logits are averaged.
    optimizer : {"sgd", "momentum", "adam", "adamw"}, default="sgd"
        "momentum" is SGD with momentum 0.9.
    learning_rate : float or "auto", default="auto"
        "auto" chooses a rate by short trials on validation rows.
    batch_size : int or "auto", default=1024
        Rows per step; "auto" is a 32nd of the rows, between 16 and 128, and the default of networks.
    preconditioner_rank : int or "auto", default="auto"
        Top eigenvectors of the features' second moments that gradients are preconditioned with; 0 is the papers' plain
        SGD.
    preconditioner_rows : int or None, default=None
        Rows that the eigenvectors are estimated from. None is a 32nd of the rows, between 512 and 2,048.
    average : bool, default=True
        Whether the model of an epoch is the mean of its iterates.
    schedule : {"halving", "one-cycle"}, default="halving"
        "halving" watches the criterion; "one-cycle" raises the rate to `learning_rate` and lowers it to 0 over exactly
        `max_epochs` epochs.
    criterion : str or None, default=None
        The criterion of the learning-rate schedule on validation rows: "ce", "err", "erll:1", "capped:0.1", "topk:0.9",
        "mse", ... None is "ce" for classes and "mse" for numbers.
    improvement : float, default=0.003
        The rate is halved after an epoch that lowers the criterion by less than this fraction (0.01 in the papers);
        "eigenpro" ends.
    max_halvings : int, default=3
        Training ends after this many halvings (10 in the papers).
    checkpoint_dir : path or None, default=None
        Directory for checkpoints of the solvers "sgd", "landmarks" and "newton", and of networks. The same fit, started
        again, continues from the last one.
    tracking : str or None, default=None
        "tensorboard:DIR" or "mlflow[:URI]" logs every epoch there.
    """

    device: str = "auto"
    precision: Literal["float32", "tf32", "bf16", "float64"] = "float32"
    memory_budget: int | str | None = None
    projection: str = "auto"
    max_epochs: int = 100
    rank: int | None = None
    num_blocks: int = 1
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "sgd"
    learning_rate: float | Literal["auto"] = "auto"
    batch_size: int | Literal["auto"] = 1024
    preconditioner_rank: int | Literal["auto"] = "auto"
    preconditioner_rows: int | None = None
    average: bool = True
    schedule: Literal["halving", "one-cycle"] = "halving"
    criterion: str | None = None
    improvement: float = 0.003
    max_halvings: int = 3
    checkpoint_dir: str | os.PathLike[str] | None = None
    tracking: str | None = None

    def __post_init__(self) -> None:
        # SGDSettings checks the options of the loop again; here they are checked whatever the solver
        for name, kinds in SOLVER_TYPES.items():
            if not isinstance(getattr(self, name), kinds):
                allowed = " or ".join(kind.__name__ for kind in kinds)
                raise ValueError(f"{name} must be {allowed}, got {getattr(self, name)!r}.")
        if self.memory_budget is not None:
            parse_bytes(self.memory_budget)
        if self.criterion is not None:
            Criterion.parse(self.criterion)
        if self.tracking is not None:
            check_tracking(self.tracking)
        checks.one_of("precision", self.precision, ["float64", *PRECISIONS])
        checks.one_of("projection", self.projection, PROJECTION_NAMES)
        checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        checks.one_of("schedule", self.schedule, SCHEDULES)
        for name in ("max_epochs", "num_blocks", "max_halvings"):
            checks.positive_int(name, getattr(self, name))
        if self.batch_size != "auto":
            checks.positive_int("batch_size", self.batch_size)
        for name in ("rank", "preconditioner_rows"):
            if getattr(self, name) is not None:
                checks.positive_int(name, getattr(self, name))
        checks.nonnegative_float("improvement", self.improvement)
        if self.learning_rate != "auto":
            checks.positive_float("learning_rate", self.learning_rate)
        if self.preconditioner_rank != "auto":
            checks.nonnegative_int("preconditioner_rank", self.preconditioner_rank)

    @property
    def is_adaptive(self) -> bool:
        """Whether the optimizer scales gradients itself."""
        return self.optimizer in ("adam", "adamw")

    def sgd_settings(self, loss: str, *, alpha: float, num_rows: int, seed: int, **changes: Any) -> SGDSettings:
        """The settings of the training loop for `loss` on `num_rows` rows."""
        # the Gram matrix of a 32nd of the rows costs less than an epoch
        preconditioner_rows = self.preconditioner_rows or min(2048, max(512, num_rows // 32))
        values: dict[str, Any] = {
            "loss": loss,
            # 32 steps an epoch or more: one cycle on few rows would otherwise end before the network has learned
            "batch_size": min(128, max(16, num_rows // 32)) if self.batch_size == "auto" else self.batch_size,
            "learning_rate": self.learning_rate,
            "optimizer": self.optimizer,
            "preconditioner_rank": 0
            if self.is_adaptive and self.preconditioner_rank == "auto"
            else self.preconditioner_rank,
            "preconditioner_rows": preconditioner_rows,
            "average": self.average,
            "alpha": alpha,
            "schedule": self.schedule,
            "criterion": self.criterion or ("mse" if loss == "squared" else "ce"),
            "max_epochs": self.max_epochs,
            "improvement": self.improvement,
            "max_halvings": self.max_halvings,
            "precision": "float32" if self.precision == "float64" else self.precision,
            "seed": seed,
        }
        return SGDSettings(**{**values, **changes})

    def directory(self, name: str = "") -> Path | None:
        """A directory for checkpoints, created if necessary, or None."""
        if self.checkpoint_dir is None:
            return None
        path = Path(self.checkpoint_dir) / name
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(f"checkpoint_dir must be a writable directory, got {str(path)!r}: {error}.") from error
        return path

    @property
    def dtype(self) -> torch.dtype:
        """What weights are stored in; tf32 and bf16 are precisions of products."""
        return torch.float64 if self.precision == "float64" else torch.float32


@dataclass(frozen=True, kw_only=True)
class AdaptParams:
    """Adaptation of the inputs or the features before the model is fitted.

    Parameters
    ----------
    method : {"agop", "uab", "sab", "dab"}
        "agop": a metric on the inputs, the average gradient outer product of least squares on landmarks. The others
        adapt random features by gradients: "uab" to the kernel, "sab" to alignment with the classes, "dab" to the loss.
        With the optimizer "adam" or "adamw", "dab" trains Fourier features and the head together to the end, from
        independent frequencies, whatever `projection`; otherwise the head is trained after a short adaptation.
        `dilations` and `dropout` are for features and head that are trained together.
    rounds : int, default=4
        Maximum number of metrics that "agop" tries; the one with the lowest validation loss is kept.
    num_landmarks : int, default=2048
        Landmarks of the least squares that metrics are derived from.
    num_rows : int, default=65536
        Rows that metrics are learned from: a metric is d x d numbers, which this many rows determine well.
    dropout : float, default=0.5
        The share of the features that each step of "dab" leaves out.
    dilations : tuple of int, default=()
        Makes the kernel of "dab" convolutional: a row is 1 + 2 sum(dilations) frames. The first level has features of
        windows of three frames, each further level those of three windows of the level below, at these distances.
    width : int, default=256
        Features of a window in the levels of a convolutional kernel below the last.
    """

    method: Literal["agop", "uab", "sab", "dab"]
    rounds: int = 4
    num_landmarks: int = 2048
    num_rows: int = 2**16
    dropout: float = 0.5
    dilations: tuple[int, ...] = ()
    width: int = 256

    def __post_init__(self) -> None:
        checks.one_of("adapt", self.method, ["agop", *BASES])
        check_dropout(self.dropout)
        object.__setattr__(self, "dilations", check_dilations(self.dilations, len(self.dilations)))
        if self.dilations and self.method != "dab":
            raise ValueError(f"dilations must be empty with adapt={self.method!r}, got {list(self.dilations)}.")
        checks.positive_int("width", self.width)
        for name in ("rounds", "num_landmarks", "num_rows"):
            checks.positive_int(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class SelectionParams:
    """Random feature selection (May et al., Algorithm 1), or one of its l1/l2-penalised alternatives.

    Parameters
    ----------
    method : {"rounds", "fobos", "sparse"}, default="rounds"
        "rounds" repeatedly draws, trains briefly and keeps the features of largest weight. "fobos" draws n_components
        (rounds + 1) / 2 features at once, as many as "rounds" draws in all, and keeps those that remain under an l1/l2
        penalty. "sparse" (Sparse Random Features, Yen et al.) draws as "rounds" does and keeps those that remain in the
        exact solution of such a problem; it runs in one process.
    rounds : int, default=10
    rows_per_round : int or None, default=None
        Rows of one round's training. None is all of them, at most a million, for "sparse" at most 65,536.
    """

    method: Literal["rounds", "fobos", "sparse"] = "rounds"
    rounds: int = 10
    rows_per_round: int | None = None

    def __post_init__(self) -> None:
        checks.one_of("selection method", self.method, SELECTION_METHODS)
        checks.positive_int("rounds", self.rounds)
        if self.rows_per_round is not None:
            checks.positive_int("rows_per_round", self.rows_per_round)


@dataclass(frozen=True, kw_only=True)
class KernelPlan:
    """A kernel model: the arguments of `KernelClassifier`, where each is documented.

    `bandwidth` "search" tries multiples of the median rule on validation rows. With a `preset` the search of
    `bochner.search.automatic` determines what is left open: kernel "auto", bandwidth None, standardize None, adapt
    "auto" and alpha None. Without one these mean the Gaussian kernel, the median rule and no changes.
    """

    kernel: str | Kernel = "gaussian"
    bandwidth: float | str | None = None
    gamma: float | None = None
    n_components: int = 4096
    standardize: bool | None = None
    adapt: AdaptParams | Literal["auto"] | None = None
    selection: SelectionParams | None = None
    solver: str = "auto"
    alpha: float | None = None
    params: SolverParams = field(default_factory=SolverParams)
    preset: str | None = None
    time_limit: float | None = None
    scoring: Any = None
    multilabel: bool = False  # several targets are labels, 0 or 1, rather than numbers
    basis: str | None = field(init=False)  # the method of an adapted basis, or None
    is_searched: bool = field(init=False)  # whether `bochner.search.automatic` covers the kernel

    def __post_init__(self) -> None:
        if self.preset is not None:
            checks.one_of("preset", self.preset, PRESET_NAMES)
        is_named = isinstance(self.kernel, str) and KERNEL_ALIASES.get(self.kernel, self.kernel) in SEARCHED_KERNELS
        is_searched = self.preset is not None and is_named and self.bandwidth not in ("mean", "neighbor")
        object.__setattr__(self, "is_searched", is_searched)
        if not is_searched:
            object.__setattr__(self, "kernel", "gaussian" if self.kernel == "auto" else self.kernel)
            object.__setattr__(self, "adapt", None if self.adapt == "auto" else self.adapt)
        basis = self.adapt.method if isinstance(self.adapt, AdaptParams) and self.adapt.method in BASES else None
        object.__setattr__(self, "basis", basis)
        checks.one_of("solver", self.solver, SOLVERS)
        checks.positive_int("n_components", self.n_components)
        if self.bandwidth is not None and self.gamma is not None:
            raise ValueError(f"bandwidth={self.bandwidth!r} and gamma={self.gamma!r} were both given; use one of them.")
        if self.selection is not None and self.basis is not None:
            raise ValueError(
                f"selection must be None with adapt={self.basis!r}: features are either selected as they are "
                "drawn or adapted; adapt='agop' can be combined with a selection."
            )
        if self.n_components % self.params.num_blocks:
            raise ValueError(
                f"n_components must be a multiple of num_blocks, {self.params.num_blocks}, got {self.n_components}."
            )
        if self.params.num_blocks > 1 and (self.selection is not None or self.basis is not None):
            raise ValueError(f"num_blocks must be 1 with selection or an adapted basis, got {self.params.num_blocks}.")

    @property
    def needs_sgd(self) -> str | None:
        """The first option that makes "auto" choose "sgd", as "name=value", or None.

        Other solvers do not have it, but for the checkpoint_dir of "landmarks" and "newton".
        """
        blocks = self.params.num_blocks if self.params.num_blocks > 1 else None
        options: dict[str, Any] = {"selection": self.selection, "rank": self.params.rank, "num_blocks": blocks}
        if self.solver not in ("landmarks", "newton"):
            options["checkpoint_dir"] = self.params.checkpoint_dir
        return next((f"{name}={value!r}" for name, value in options.items() if value is not None), None)


# On seven real sets (docs/solvers.md#networks) one cycle of AdamW had fewer errors than Adam with a halved rate.
NETWORK_PARAMS = SolverParams(
    optimizer="adamw",
    schedule="one-cycle",
    learning_rate=2e-3,
    batch_size="auto",
    max_epochs=30,
    preconditioner_rank=0,
    average=False,
    max_halvings=4,
)
WEIGHT_DECAY = 0.01  # of "adamw" unless alpha is given, as in torch


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """A network: the arguments of `NetworkClassifier`, where each is documented; `dilations` are those of `Network`."""

    hidden: tuple[int, ...] = (256, 256)
    activation: Literal["tanh", "relu", "gelu"] = "relu"
    batch_norm: bool = False
    dropout: float = 0.0
    residual: bool = False
    dilations: tuple[int, ...] = ()
    pretrain: bool = False
    standardize: bool = True
    alpha: float | None = None
    params: SolverParams = NETWORK_PARAMS

    def __post_init__(self) -> None:
        checks.one_of("activation", self.activation, ACTIVATIONS)
        if not self.hidden:
            raise ValueError("hidden must hold the width of at least one layer, got none.")
        for width in self.hidden:
            checks.positive_int("hidden", width)
        if self.params.num_blocks > 1:
            raise ValueError(f"num_blocks must be 1 for a network, got {self.params.num_blocks}.")
        check_dropout(self.dropout)
        if check_dilations(self.dilations, len(self.hidden)) and self.standardize:
            raise ValueError("standardize must be False with dilations: standardize frames before they are spliced.")


def as_params(kind: type[Params], values: Any, *, name: str, defaults: Params | None = None) -> Params:
    """Settings of that kind from an instance, a mapping of its fields, or None for the defaults.

    >>> as_params(SolverParams, {"batch_size": 64}, name="solver_params").batch_size
    64
    >>> as_params(SolverParams, {"batchsize": 64}, name="solver_params")
    Traceback (most recent call last):
    ...
    ValueError: solver_params has no option 'batchsize'; did you mean 'batch_size'? ...
    """
    if isinstance(values, kind):
        return values
    if values is not None and not isinstance(values, Mapping):
        raise ValueError(f"{name} must be a dict or {kind.__name__}, got {values!r}.")
    known = [entry.name for entry in fields(kind)]
    for key in values or {}:
        if key not in known:
            close = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else "."
            raise ValueError(f"{name} has no option {key!r}{hint} Options: {', '.join(known)}.")
    if defaults is not None:
        return replace(defaults, **(values or {}))
    return kind(**(values or {}))


def as_adapt(value: Any) -> AdaptParams | Literal["auto"] | None:
    """`adapt` as the estimators take it: "auto", a method's name, a mapping, or None."""
    if value is None or isinstance(value, AdaptParams):
        return value
    if value == "auto":
        return "auto"
    return as_params(AdaptParams, {"method": value} if isinstance(value, str) else value, name="adapt")


def as_selection(value: Any) -> SelectionParams | None:
    """`selection` as the estimators take it: a number of rounds, a mapping, or None."""
    if value is None or isinstance(value, SelectionParams):
        return value
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return as_params(SelectionParams, {"rounds": value} if is_count else value, name="selection")


def plan_inputs(plan: KernelPlan | NetworkPlan) -> dict[str, Any]:
    """The plan as plain values, for fingerprints: everything except device and paths."""
    kernel: dict[str, str] = {}
    if isinstance(plan, KernelPlan):
        kernel["kernel"] = repr(plan.kernel)
        if isinstance(plan.kernel, Kernel):  # whose repr leaves out the values of scales and metrics
            kernel["kernel_tensors"] = checksum({}, {k: v.detach().cpu() for k, v in plan.kernel.state_dict().items()})
    params = {
        name: value
        for name, value in asdict(plan.params).items()
        if name not in ("device", "checkpoint_dir", "tracking", "memory_budget")
    }
    others = {entry.name: getattr(plan, entry.name) for entry in fields(plan) if entry.name not in ("kernel", "params")}
    return {**{name: repr(value) for name, value in others.items()}, **kernel, **params}


@dataclass(frozen=True, eq=False)
class Task:
    """Training rows, validation rows, both together, and the kind of their targets.

    y are class indices where `num_classes` is given, otherwise numbers [n, t]. `mean` [t] is the mean of the targets,
    one-hot for classes: the constant that models start from. `names`, of classes and columns, are what checkpoints
    belong to besides the rows; None once they have been compared.
    """

    train: Source
    validation_data: Source
    all_rows: Source
    num_classes: int | None
    mean: Tensor
    loss: str
    seed: int
    device: torch.device
    dtype: torch.dtype
    names: Mapping[str, Any] | None = None

    def mapped(self, transform: Callable[[Block], Block], num_inputs: int) -> Task:
        """The task with `transform` applied to every block, whose inputs it turns into `num_inputs`."""
        train, validation_data, all_rows = (
            MappedSource(source, transform, num_inputs=num_inputs)
            for source in (self.train, self.validation_data, self.all_rows)
        )
        return replace(self, train=train, validation_data=validation_data, all_rows=all_rows, names=None)

    @property
    def has_own_validation(self) -> bool:
        """Whether the validation rows are not among all rows, because the user has given them."""
        return num_rows(self.train) == num_rows(self.all_rows) > 1


def make_task(
    train_rows: Source,
    validation_data: Source,
    all_rows: Source,
    *,
    num_classes: int | None,
    seed: int,
    params: SolverParams,
    loss: str | None = None,
    mean: Tensor | None = None,
    names: Mapping[str, Any] | None = None,
) -> Task:
    """A task on the device and in the dtype of `params`.

    `loss` is "squared" for numbers, "logistic" for two classes and "softmax" for more, unless given; `mean` is that of
    all rows unless given. `names` are those of classes and columns.
    """
    device, dtype = resolve_device(params.device), params.dtype
    move = partial(move_block, device=device, dtype=dtype)
    train_rows, validation_data, all_rows = (
        MappedSource(source, move) for source in (train_rows, validation_data, all_rows)
    )
    if mean is None:
        mean = summarize(all_rows, num_classes=num_classes).mean
    if loss is None:
        loss = "squared" if num_classes is None else "logistic" if num_classes == 2 else "softmax"
    return Task(train_rows, validation_data, all_rows, num_classes, mean, loss, seed, device, dtype, names or {})


def move_block(block: Block, *, device: torch.device, dtype: torch.dtype) -> Block:
    """The block on a device, its inputs and numeric targets in one dtype."""
    y = block.y.to(device, dtype if block.y.is_floating_point() else None)
    weight = None if block.weight is None else block.weight.to(device, dtype)
    return Block(block.X.to(device, dtype), y, weight)


def parse_bytes(budget: int | str) -> int:
    """A number of bytes, or text such as "500MB" and "2 GB" (powers of 1,024).

    >>> parse_bytes("1.5 KB")
    1536
    """
    if isinstance(budget, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?B?)\s*", budget.upper())
        if match is None:
            raise ValueError(f"memory_budget must be bytes or text such as '500MB' or '2GB', got {budget!r}.")
        unit = match[2] if match[2].endswith("B") or not match[2] else match[2] + "B"
        return int(float(match[1]) * UNITS[unit])
    if isinstance(budget, bool) or budget < 1:
        raise ValueError(f"memory_budget must be a positive number of bytes, got {budget!r}.")
    return int(budget)


def rows_per_shard(budget: int | str | None, *, row_bytes: int) -> int:
    """Rows that arrays are gathered by: the shuffling buffer takes an eighth of the budget, at most 64 MB."""
    buffer = MAX_BUFFER_BYTES if budget is None else min(MAX_BUFFER_BYTES, parse_bytes(budget) // 8)
    return int(min(MAX_SHARD_ROWS, max(MIN_SHARD_ROWS, buffer // (BUFFERED_SHARDS * row_bytes))))


def resolve_device(device: str | torch.device) -> torch.device:
    """The torch device; "auto" is the GPU when there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device must be 'auto' or a device torch can use here, got {device!r}: {error}") from error


def check_data(params: SolverParams, task: Task) -> None:
    """Refuse to resume in a checkpoint_dir that was written for other rows, classes or columns; one pass."""
    directory = params.directory()
    if directory is None or task.names is None:
        return
    data = {name: fingerprint({name: value}) for name, value in task.names.items()}
    for part, rows in {"training": task.train, "validation": task.validation_data}.items():
        data |= {f"{part} {name}": digest for name, digest in content_hashes(rows).items()}
    path = directory / DATA_FILE
    if not path.exists():
        write_json(path, data)
        return
    try:
        there = dict(json.loads(path.read_bytes()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not the record of the data of a run: {error!r}") from error
    changes = sorted(name for name in {*there, *data} if there.get(name) != data.get(name))
    if changes:
        raise ValueError(
            f"checkpoint_dir: {directory} belongs to other data, whose {', '.join(changes)} differ; restore the data, "
            "delete the directory or choose another one."
        )


def _stage_inputs(plan: KernelPlan, task: Task) -> dict[str, Any]:
    return {**plan_inputs(plan), "seed": task.seed, "rows": num_rows(task.all_rows), "inputs": task.train.num_inputs}


def stage_fingerprint(plan: KernelPlan, task: Task) -> dict[str, str]:
    """The fingerprint of partial results of a stage; the record of the stage has the details."""
    return {"plan": fingerprint(_stage_inputs(plan, task))}


def stored(
    plan: KernelPlan, task: Task, name: str, make: Callable[[], tuple[Value, dict[str, Any]]], group: Any
) -> tuple[Value, dict[str, Any]]:
    """The result of `make`, computed once for each checkpoint_dir: a kernel or map, and facts about it.

    The processes of a `group` compute it every time, together or each separately.
    """
    directory = plan.params.directory(name)
    if directory is None or group is not None:
        return make()
    path = directory / "value.safetensors"

    def compute() -> dict[str, Any]:
        value, facts = make()
        save(value, path)
        return {"facts": facts}

    result = Stage(directory / "stage.json", _stage_inputs(plan, task)).run(compute)
    return load(path, device=task.device), result["facts"]
