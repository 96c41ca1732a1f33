"""Typed settings of acoustic models: kernel models, networks, two protocols, and the papers' grid of both."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self

from bochner import checks
from bochner.kernels import KERNEL_ALIASES, Stationary, kernel_named
from bochner.models.losses import Criterion
from bochner.search import AdaptParams, KernelPlan, NetworkPlan, SelectionParams, SolverParams

logger = logging.getLogger(__name__)
KERNELS = ("laplacian", "gaussian", "sparse-gaussian")  # as in the papers
# One round of "agop": the metric of a second one no longer distinguishes rare states.
METRIC = AdaptParams(method="agop", rounds=1, num_landmarks=1024, num_rows=2**15)
# Frames have hundreds of inputs, for which fused GPU steps need dense frequencies, as in the papers.
PROJECTIONS = {"gaussian": "orthogonal", "laplacian": "iid", "sparse-gaussian": "sparse"}
PRECONDITIONER_ROWS = 2048
# Fourier features and head trained together, as networks are.
JOINT: dict[str, Any] = {"optimizer": "adamw", "schedule": "one-cycle", "average": False, "preconditioner_rank": 0}
JOINT_RATE = 1e-3
DROPOUT = AdaptParams.dropout
JOINT_EPOCHS = 6  # the default of recipes: with 12 epochs of 22 minutes of speech, the heldout error is higher
AUTO_STEPS = 15_000  # of networks: 15 epochs of an hour of speech


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings that kernel models and networks share.

    Args:
        name: The name in tables; "" for one derived from the settings.
        rank: Rank of a linear bottleneck before the states; None for no bottleneck. "auto" is a sixth of the states, at
            least 100 and at most 1000. A rank of at least the number of states has the effect of None.
        criterion: The heldout criterion that the learning rate schedule watches: "ce" or "erll:1" (see
            `bochner.models.losses`).
        batch_size: Rows per step.
        learning_rate: The initial rate; "auto" compares several on heldout rows.
        max_epochs: An upper bound; the schedule usually ends earlier. "auto" is 15,000 steps, in 10 to 60 epochs.
        improvement: Relative improvement of the criterion below which the rate is halved (0.01 in the papers).
        max_halvings: The number of halvings that ends training (10 in the papers).
        precision: "float32", or "tf32" or "bf16" matrix products on a GPU.
    """

    name: str = ""
    rank: int | Literal["auto"] | None = None
    criterion: str = "ce"
    batch_size: int = 256
    learning_rate: float | Literal["auto"] = "auto"
    max_epochs: int | Literal["auto"] = 60
    improvement: float = 0.003
    max_halvings: int = 4
    precision: Literal["float32", "tf32", "bf16"] = "float32"

    def __post_init__(self) -> None:
        Criterion.parse(self.criterion)
        (self.fitted_to(num_rows=2**20, num_states=2**12) if "auto" in self._sizes else self).plan()

    @property
    def _sizes(self) -> tuple[object, ...]:
        """The settings that `fitted_to` may change."""
        return self.rank, self.max_epochs

    def fitted_to(self, *, num_rows: int, num_states: int) -> Self:
        """The settings with "auto" resolved for `num_rows` frames of train, and no rank above the number of states.

        >>> settings = KernelSettings(num_features="auto", rank="auto").fitted_to(num_rows=250_000, num_states=800)
        >>> settings.num_features, settings.rank
        (10240, 133)
        >>> KernelSettings(rank=100).fitted_to(num_rows=30_000, num_states=97).rank
        """
        rank = min(max(num_states // 6, 100), 1000) if self.rank == "auto" else self.rank
        if rank is not None and rank >= num_states:
            if self.rank != "auto":
                logger.warning(
                    "%s: no bottleneck, since rank %s is not below the %d states", self.title, rank, num_states
                )
            rank = None
        epochs = min(max(-(-AUTO_STEPS * self.batch_size // num_rows), 10), 60)
        max_epochs = epochs if self.max_epochs == "auto" else self.max_epochs
        return replace(self, rank=rank, max_epochs=max_epochs)

    def plan(self, *, device: str = "cpu", checkpoint_dir: Path | None = None) -> KernelPlan | NetworkPlan:
        """The plan of the model for `bochner.search.fit_model`, which checks all values."""
        raise TypeError(f"{type(self).__name__} must define plan.")

    @property
    def title(self) -> str:
        """The name, or one derived from the settings."""
        raise TypeError(f"{type(self).__name__} must define title.")

    def _solver_params(self, **options: Any) -> SolverParams:
        shared = {field.name: getattr(self, field.name) for field in fields(TrainingSettings) if field.name != "name"}
        return SolverParams(**shared, **options)


@dataclass(frozen=True, kw_only=True)
class KernelSettings(TrainingSettings):
    """A kernel model: softmax regression on random features.

    Args:
        kernel: The name of a kernel, such as "laplacian", "sparse-gaussian" (subsets of 5 inputs) or "arc-cosine1";
            "auto", with a preset, is searched.
        num_features: Number of random features D; "auto" is 20 times the square root of the number of frames, between
            1,024 and 65,536.
        bandwidth: None compares multiples of the median rule on heldout rows, with few features and epochs.
        selection: Random feature selection, or None.
        adapt: "agop" learns a metric on the inputs before the features are drawn. "uab", "sab" and "dab" are adapted
            bases, random features fitted by gradients to the kernel, to alignment with the states, or to the loss.
            "dab" trains features and head together, by one cycle of AdamW over `max_epochs` epochs (6 in recipes) with
            dropout. Its bandwidth is that of the median rule unless given, and its rate "auto" is 1e-3;
            `preconditioner_rank` and `average` do not apply to it.
        dropout: The share of the features that each step of "dab" leaves out.
        dilations: Makes the Gaussian kernel of "dab" convolutional over the frames of the context, which must be their
            sum; "auto" in a recipe is `dilations_for` the context. Levels below the last have `width` features.
        width: See `dilations`.
        num_blocks: Blocks of features that are trained separately; their logits are averaged.
        preconditioner_rank: Number of top eigenvectors of the features in the preconditioner; 0 is plain SGD as in the
            papers, which is far less accurate on small corpora.
        average: Whether the model of an epoch is the mean of its iterates.
        preset: "fast", "default" or "best" searches kernel, bandwidth and metric on some of the frames, as
            `KernelClassifier` does; whatever is set stays fixed. With None only the bandwidth is searched.

    >>> KernelSettings(kernel="laplacian", num_features=4096, rank=100, criterion="erll:1").title
    'laplacian 4096 rank 100 erll:1'
    """

    kernel: str = "gaussian"
    num_features: int | Literal["auto"] = 8192
    bandwidth: float | None = None
    selection: SelectionParams | None = None
    adapt: Literal["agop", "uab", "sab", "dab"] | None = None
    dropout: float = DROPOUT
    dilations: tuple[int, ...] = ()
    width: int = AdaptParams.width
    num_blocks: int = 1
    preconditioner_rank: int | Literal["auto"] = "auto"
    average: bool = True
    preset: Literal["fast", "default", "best"] | None = None

    def __post_init__(self) -> None:
        if self.kernel == "auto" and self.preset is None:
            raise ValueError("kernel='auto' needs a preset, such as 'default'.")
        if self.bandwidth is not None:
            checks.positive_float("bandwidth", self.bandwidth)
        features = 2 if self.num_features == "auto" else checks.positive_int("num_features", self.num_features)
        if features % 2 and self._has_bandwidth:
            raise ValueError(f"num_features must be even, sines and cosines, got {self.num_features}.")
        object.__setattr__(self, "dilations", tuple(self.dilations))
        if self.dilations and (self.adapt != "dab" or self.kernel != "gaussian"):
            raise ValueError(
                f"dilations must be empty unless kernel='gaussian' and adapt='dab', got {list(self.dilations)} with "
                f"kernel={self.kernel!r} and adapt={self.adapt!r}."
            )
        super().__post_init__()

    @property
    def _sizes(self) -> tuple[object, ...]:
        return *super()._sizes, self.num_features

    def fitted_to(self, *, num_rows: int, num_states: int) -> Self:
        features = min(max(1024 * round(20 * math.sqrt(num_rows) / 1024), 1024), 65536)
        settings = replace(self, num_features=features) if self.num_features == "auto" else self
        return super(KernelSettings, settings).fitted_to(num_rows=num_rows, num_states=num_states)

    def plan(self, *, device: str = "cpu", checkpoint_dir: Path | None = None) -> KernelPlan:
        params = self._solver_params(
            device=device, checkpoint_dir=checkpoint_dir, num_blocks=self.num_blocks, average=self.average,
            projection=PROJECTIONS.get(KERNEL_ALIASES.get(self.kernel, self.kernel), "auto"),
            preconditioner_rank=self.preconditioner_rank, preconditioner_rows=PRECONDITIONER_ROWS,
        )  # fmt: skip
        if self.adapt == "dab" and self._has_bandwidth:
            rate = JOINT_RATE if self.learning_rate == "auto" else self.learning_rate
            params = replace(params, learning_rate=rate, **JOINT)
        if self.num_features == "auto":
            raise ValueError('num_features must be a number, got "auto"; see `fitted_to`.')
        adapt: Any = METRIC if self.adapt == "agop" else None
        if self.adapt is not None and adapt is None:
            adapt = AdaptParams(method=self.adapt, dropout=self.dropout, dilations=self.dilations, width=self.width)
        if self.preset is not None:
            # frames are standardised when read
            return KernelPlan(
                kernel=self.kernel, bandwidth=self.bandwidth, n_components=self.num_features, standardize=False,
                adapt=adapt or "auto", selection=self.selection, solver="sgd", params=params, preset=self.preset,
            )  # fmt: skip
        is_open = self.bandwidth is None and self._has_bandwidth and self.adapt != "dab"
        bandwidth = "search" if is_open else self.bandwidth
        return KernelPlan(
            kernel=self.kernel, bandwidth=bandwidth, n_components=self.num_features, adapt=adapt or None,
            selection=self.selection, solver="sgd", params=params,
        )  # fmt: skip

    @property
    def _has_bandwidth(self) -> bool:
        return self.kernel == "auto" or isinstance(kernel_named(self.kernel, num_inputs=1), Stationary)

    @property
    def title(self) -> str:
        extras = ["selection"] * (self.selection is not None) + ([self.adapt] if self.adapt else [])
        extras += ["convolutional"] * bool(self.dilations)
        extras += [f"dropout {self.dropout:g}"] if self.dropout != DROPOUT else []
        extras += [f"{self.num_blocks} blocks"] if self.num_blocks > 1 else []
        return self.name or " ".join([self.kernel, str(self.num_features), *extras, *_tricks(self)])


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(TrainingSettings):
    """A fully connected or time-delay network.

    Args:
        hidden: Units in each hidden layer.
        activation: "relu" or "gelu", or "tanh" as in the papers.
        batch_norm: Batch normalisation of every hidden layer.
        dropout: The share of units that is dropped in training.
        residual: Each hidden layer from the second on is added to its input, if both have the same width.
        dilations: Those of time-delay layers, the first hidden ones; their sum must be the context of the front end.
            (1, 2, 2) covers 5 frames on each side, (1, 3) covers 4; "auto" in a recipe is `dilations_for` its context.
            Empty for a fully connected network.
        pretrain: Layer-wise discriminative pre-training, one epoch per layer, as in the papers.
        optimizer: "adamw", "adam", "momentum", or "sgd" as in the papers.
        weight_decay: The decay of "adamw", which each step multiplies by the rate; with other optimizers the factor
            alpha of a penalty alpha / 2 ||weights||^2.
        schedule: "one-cycle" over `max_epochs` epochs, or "halving" as in the papers.
        average: Whether the model of an epoch is the mean of its iterates.

    >>> NetworkSettings(hidden=(512, 512)).title
    'relu 2x512'
    """

    learning_rate: float | Literal["auto"] = 2e-3
    max_epochs: int | Literal["auto"] = 15
    hidden: tuple[int, ...] = (1000, 1000, 1000, 1000)
    activation: Literal["tanh", "relu", "gelu"] = "relu"
    batch_norm: bool = True
    dropout: float = 0.2
    residual: bool = True
    dilations: tuple[int, ...] = ()
    pretrain: bool = False
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "adamw"
    weight_decay: float = 0.01
    schedule: Literal["halving", "one-cycle"] = "one-cycle"
    average: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "dilations"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        checks.nonnegative_float("weight_decay", self.weight_decay)
        super().__post_init__()

    def plan(self, *, device: str = "cpu", checkpoint_dir: Path | None = None) -> NetworkPlan:
        params = self._solver_params(
            device=device, checkpoint_dir=checkpoint_dir, optimizer=self.optimizer, schedule=self.schedule,
            average=self.average, preconditioner_rank=0,
        )  # fmt: skip
        return NetworkPlan(
            hidden=self.hidden, activation=self.activation, batch_norm=self.batch_norm, dropout=self.dropout,
            residual=self.residual, dilations=self.dilations, pretrain=self.pretrain, alpha=self.weight_decay,
            standardize=False, params=params,
        )  # fmt: skip  # frames are standardised already

    @property
    def title(self) -> str:
        alike = len(set(self.hidden)) == 1
        widths = f"{len(self.hidden)}x{self.hidden[0]}" if alike else "-".join(map(str, self.hidden))
        kind = ["TDNN"] if self.dilations else []
        return self.name or " ".join([*kind, self.activation, widths, *_tricks(self)])


def dilations_for(context: int) -> tuple[int, ...]:
    """Dilations that cover `context` frames on each side without a gap: 1, then as few as possible of at most 3.

    A layer of width 3 at every third frame still covers all frames.

    >>> [dilations_for(context) for context in (1, 4, 5, 10)]
    [(1,), (1, 3), (1, 2, 2), (1, 3, 3, 3)]
    """
    if context == 0:
        return ()
    layers = -(-(context - 1) // 3)
    steps = [(context - 1) // layers + (layer >= layers - (context - 1) % layers) for layer in range(layers)]
    return (1, *steps)


ModelSettings = KernelSettings | NetworkSettings
KINDS: dict[str, type[KernelSettings | NetworkSettings]] = {"kernel": KernelSettings, "network": NetworkSettings}
# Defaults of each kind of model. "modern" uses those of the classes: the best known settings for either kind. "papers"
# is plain SGD from a rate chosen on heldout, halved after less than 1 % improvement and stopped after 10 halvings,
# without averaging, and tanh networks with layer-wise pre-training (May et al. 2019, Section 6).
_PAPERS: dict[str, Any] = {"improvement": 0.01, "max_halvings": 10, "max_epochs": 100, "average": False}
PROTOCOLS: dict[str, dict[str, dict[str, Any]]] = {
    "modern": {"kernel": {}, "network": {}},
    "papers": {
        "kernel": {**_PAPERS, "preconditioner_rank": 0},
        "network": {
            **_PAPERS, "activation": "tanh", "batch_norm": False, "dropout": 0.0, "residual": False, "pretrain": True,
            "optimizer": "sgd", "weight_decay": 0.0, "schedule": "halving", "learning_rate": "auto",
        },
    },
}  # fmt: skip


def kind_of(settings: ModelSettings) -> str:
    """The key of `KINDS`, "kernel" or "network"."""
    return next(kind for kind, cls in KINDS.items() if isinstance(settings, cls))


def settings_to_json(settings: ModelSettings) -> dict[str, Any]:
    """The settings as plain values, with their kind."""
    return {"kind": kind_of(settings), **asdict(settings)}


def settings_from_json(stored: Mapping[str, Any]) -> ModelSettings:
    """The inverse of `settings_to_json`.

    >>> settings = KernelSettings(selection=SelectionParams(rounds=5))
    >>> settings_from_json(settings_to_json(settings)) == settings
    True
    """
    values = dict(stored)
    cls = KINDS[values.pop("kind")]
    if unknown := sorted(set(values) - {field.name for field in fields(cls)}):
        raise ValueError(f"{cls.__name__} has no settings {unknown}.")
    if values.get("selection") is not None:
        values["selection"] = SelectionParams(**values["selection"])
    return cls(**values)


def _tricks(settings: TrainingSettings) -> list[str]:
    rank = [] if settings.rank is None else [f"rank {settings.rank}"]
    return rank + ([] if settings.criterion == "ce" else [settings.criterion])


@dataclass(frozen=True, kw_only=True)
class AblationSizes:
    """Sizes of the models of `ablation`: features and bottleneck rank of kernels, `depth` layers of `widths` units."""

    num_features: int = 8192
    rank: int = 100
    rounds: int = 10
    widths: tuple[int, ...] = (1000, 2000, 4000)
    depth: int = 4


def ablation(sizes: AblationSizes, protocol: str = "modern") -> dict[str, ModelSettings]:
    """The papers' grid of models by name, trained by `protocol`.

    It is {Laplacian, Gaussian, sparse Gaussian} x selection x bottleneck x {CE, ERLL}, and networks of each width x
    bottleneck x {CE, ERLL}. Source: May et al. 2019, Tables 2 to 6.

    >>> grid = ablation(AblationSizes(widths=(1000,)))
    >>> len(grid), list(grid)[:3]
    (28, ['laplacian', 'laplacian erll', 'laplacian bottleneck'])
    """
    grid: dict[str, ModelSettings] = {}
    no_yes = (False, True)
    for kernel, selects, has_rank, erll in product(KERNELS, no_yes, no_yes, no_yes):
        shared = _shared(" ".join([kernel, *["selection"] * selects]), sizes, has_rank, erll)
        selection = SelectionParams(rounds=sizes.rounds) if selects else None
        grid[shared["name"]] = KernelSettings(
            kernel=kernel,
            num_features=sizes.num_features,
            selection=selection,
            **shared,
            **PROTOCOLS[protocol]["kernel"],
        )
    for width, has_rank, erll in product(sizes.widths, no_yes, no_yes):
        shared = _shared(f"network {width}", sizes, has_rank, erll)
        grid[shared["name"]] = NetworkSettings(
            hidden=(width,) * sizes.depth, **shared, **PROTOCOLS[protocol]["network"]
        )
    return grid


def _shared(name: str, sizes: AblationSizes, has_rank: bool, erll: bool) -> dict[str, Any]:
    return {
        "name": " ".join([name, *["bottleneck"] * has_rank, *["erll"] * erll]),
        "rank": sizes.rank if has_rank else None,
        "criterion": "erll:1" if erll else "ce",
    }
