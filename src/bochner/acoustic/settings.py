"""What an acoustic model is and how it is trained, as plain records that JSON and YAML can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from bochner import checks
from bochner.models.network import ACTIVATIONS
from bochner.solvers.settings import SGDSettings

KERNELS = ("laplacian", "gaussian", "sparse-gaussian")
BASES = ("uab", "sab", "dab")


@dataclass(frozen=True, kw_only=True)
class SelectionSettings:
    """Random feature selection: `rounds` of drawing, a short training on `rows_per_round` rows, and keeping the best.

    None is as many rows as train has, at most a million.
    """

    rounds: int = 10
    rows_per_round: int | None = None

    def __post_init__(self) -> None:
        checks.positive_int("rounds", self.rounds)
        if self.rows_per_round is not None:
            checks.positive_int("rows_per_round", self.rows_per_round)


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What kernel models and networks have in common.

    Args:
        name: What the model is called in tables; "" for one made of the settings.
        rank: Of a linear bottleneck before the states; None for none.
        metric: The heldout metric that drives the learning rate: "ce" or "erll:1" (see `bochner.models.criteria`).
        batch_size: Rows a step.
        learning_rate: At the start; "auto" tries several on heldout rows.
        max_epochs: An upper bound; the schedule usually ends earlier.
        improvement: Relative improvement of the metric under which the rate is halved (0.01 in the papers).
        max_halvings: Training ends after so many (10 in the papers).
        precision: "float32"; "tf32" or "bf16" products on a GPU.
    """

    name: str = ""
    rank: int | None = None
    criterion: str = "ce"
    batch_size: int = 256
    learning_rate: float | Literal["auto"] = "auto"
    max_epochs: int = 60
    improvement: float = 0.003
    max_halvings: int = 4
    precision: Literal["float32", "tf32", "bf16"] = "float32"

    def __post_init__(self) -> None:
        if self.rank is not None:
            checks.positive_int("rank", self.rank)
        self.recipe(seed=0)

    def recipe(self, *, seed: int, **changes: Any) -> SGDSettings:
        """How one head or network of these settings is trained."""
        shared = {field.name for field in fields(TrainingSettings)} - {"name", "rank"}
        return SGDSettings(**{**{name: getattr(self, name) for name in shared}, "seed": seed, **changes})

    @property
    def title(self) -> str:
        """The name, or one made of the settings."""
        raise TypeError(f"{type(self).__name__} must define title.")


@dataclass(frozen=True, kw_only=True)
class KernelSettings(TrainingSettings):
    """A kernel model: softmax regression on random features.

    Args:
        kernel: "laplacian", "gaussian" or "sparse-gaussian" (subsets of 5 inputs).
        num_features: D.
        bandwidth: None tries multiples of the median rule on heldout rows, with few features and epochs.
        selection: Random feature selection, or None.
        adapt: What is learned before the head: "agop" a metric on the inputs; "uab", "sab" or "dab" a basis, random
            features moved by gradients to the kernel, to alignment with the states, or to the loss of a head.
        directions: Main directions of the features that gradients are evened out along; 0 is plain SGD as in the
            papers, which learns far less from little speech.
        average: Whether the model of an epoch is the mean of its iterates.

    >>> KernelSettings(kernel="laplacian", num_features=4096, rank=100, criterion="erll:1").title
    'laplacian 4096 rank 100 erll:1'
    """

    kernel: Literal["laplacian", "gaussian", "sparse-gaussian"] = "gaussian"
    num_features: int = 8192
    bandwidth: float | None = None
    selection: SelectionSettings | None = None
    adapt: Literal["agop", "uab", "sab", "dab"] | None = None
    preconditioner_rank: int | Literal["auto"] = "auto"
    average: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("kernel", self.kernel, KERNELS)
        checks.one_of("adapt", self.adapt, [None, "agop", *BASES])
        if self.adapt in BASES and self.selection is not None:
            raise ValueError(
                f"selection must be left out with adapt {self.adapt!r}, got {self.selection}: features are moved, or "
                "selected as they are drawn; adapt 'agop' goes with a selection."
            )
        if checks.positive_int("num_features", self.num_features) % 2:
            raise ValueError(f"num_features must be even, sines and cosines, got {self.num_features}.")
        if self.bandwidth is not None:
            checks.positive_float("bandwidth", self.bandwidth)

    @property
    def title(self) -> str:
        extras = ["selection"] * (self.selection is not None) + ([self.adapt] if self.adapt else [])
        return self.name or " ".join([self.kernel, str(self.num_features), *extras, *_tricks(self)])


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(TrainingSettings):
    """A fully connected network, what the papers measure kernel models against.

    Args:
        hidden: Units in each hidden layer.
        activation: "tanh" as in the papers, or "relu".
        pretrain: One epoch of layer-wise discriminative pre-training a layer.
        optimizer: "sgd" as in the papers, "momentum", "adam" or "adamw".

    >>> NetworkSettings(hidden=(512, 512)).title
    'tanh 2x512'
    """

    hidden: tuple[int, ...] = (1000, 1000, 1000, 1000)
    activation: Literal["tanh", "relu"] = "tanh"
    pretrain: bool = True
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "sgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("activation", self.activation, ACTIVATIONS)
        object.__setattr__(self, "hidden", tuple(checks.positive_int("hidden", width) for width in self.hidden))
        if not self.hidden:
            raise ValueError("hidden must hold the width of at least one layer, got none.")

    @property
    def title(self) -> str:
        alike = len(set(self.hidden)) == 1
        widths = f"{len(self.hidden)}x{self.hidden[0]}" if alike else "-".join(map(str, self.hidden))
        return self.name or " ".join([self.activation, widths, *_tricks(self)])


ModelSettings = KernelSettings | NetworkSettings
KINDS: dict[str, type[KernelSettings | NetworkSettings]] = {"kernel": KernelSettings, "network": NetworkSettings}


def kind_of(settings: ModelSettings) -> str:
    """ "kernel" or "network"."""
    return next(kind for kind, made in KINDS.items() if isinstance(settings, made))


def settings_to_json(settings: ModelSettings) -> dict[str, Any]:
    """Plain values, with the kind beside them."""
    return {"kind": kind_of(settings), **asdict(settings)}


def settings_from_json(stored: Mapping[str, Any]) -> ModelSettings:
    """What `settings_to_json` gave.

    >>> made = KernelSettings(selection=SelectionSettings(rounds=5))
    >>> settings_from_json(settings_to_json(made)) == made
    True
    """
    values = dict(stored)
    made = KINDS[values.pop("kind")]
    known = {field.name for field in fields(made)}
    if strange := sorted(set(values) - known):
        raise ValueError(f"settings of a {made.__name__} must be among {sorted(known)}, got {strange} besides.")
    if values.get("selection") is not None:
        values["selection"] = SelectionSettings(**values["selection"])
    return made(**values)


def _tricks(settings: TrainingSettings) -> list[str]:
    rank = [] if settings.rank is None else [f"rank {settings.rank}"]
    return rank + ([] if settings.criterion == "ce" else [settings.criterion])
