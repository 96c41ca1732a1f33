"""The settings of minibatch training."""

from __future__ import annotations

from dataclasses import dataclass

from bochner import checks
from bochner.models.criteria import Criterion
from bochner.models.losses import LOSSES

OPTIMIZERS = ["sgd", "momentum", "adam", "adamw"]
PRECISIONS = ["float32", "tf32", "bf16"]


@dataclass(frozen=True)
class SGDSettings:
    """Settings of minibatch training; the defaults are the papers'.

    Args:
        loss: "softmax", "logistic" or "squared".
        batch_size: Rows per step.
        learning_rate: Initial rate; "auto" searches for one on validation rows.
        optimizer: "sgd", "momentum" (0.9), "adam" or "adamw".
        preconditioner_rank: Number of top eigenvectors of the features' second moment that are preconditioned (see
            `Preconditioner`): 0 is plain SGD, as in the papers; "auto" is as many as a batch can resolve. For "sgd" and
            "momentum" on a head on features.
        preconditioner_rows: Rows from which the eigenvectors are estimated.
        average: Whether the model of an epoch is the mean of its iterates (Polyak averaging), which reduces their
            noise; where several steps are fused, of the last iterate of each.
        alpha: Penalty alpha / 2 ||weights||^2; biases are not penalised.
        criterion: What drives the schedule: ce, ent, err, perplexity, erll:beta, capped:lambda, topk:fraction, mse.
        max_epochs: An upper bound; the schedule usually ends earlier.
        improvement: Relative improvement below which the rate is halved.
        max_halvings: Number of halvings after which training ends.
        precision: "float32"; "tf32" or "bf16" for products in the head, with weights in float32.
        seed: For the order of the rows.
    """

    loss: str = "softmax"
    batch_size: int = 256
    learning_rate: float | str = "auto"
    optimizer: str = "sgd"
    preconditioner_rank: int | str = 0
    preconditioner_rows: int = 2048
    average: bool = False
    alpha: float = 0.0
    criterion: str = "ce"
    max_epochs: int = 100
    improvement: float = 0.01
    max_halvings: int = 10
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        checks.one_of("loss", self.loss, LOSSES)
        checks.one_of("optimizer", self.optimizer, OPTIMIZERS)
        checks.one_of("precision", self.precision, PRECISIONS)
        for name in ("batch_size", "preconditioner_rows", "max_epochs", "max_halvings"):
            checks.positive_int(name, getattr(self, name))
        checks.nonnegative_float("alpha", self.alpha)
        checks.nonnegative_float("improvement", self.improvement)
        if self.learning_rate != "auto":
            checks.positive_float("learning_rate", self.learning_rate)
        if self.preconditioner_rank != "auto":
            checks.nonnegative_int("preconditioner_rank", self.preconditioner_rank)
        if self.preconditioner_rank and self.optimizer not in ("sgd", "momentum"):
            raise ValueError(
                f"preconditioner_rank must be 0 with optimizer={self.optimizer!r}, got {self.preconditioner_rank!r}."
            )
        regression = Criterion.parse(self.criterion).name == "mse"
        if regression != (self.loss == "squared"):
            raise ValueError(
                f"criterion={self.criterion!r} does not fit loss={self.loss!r}: 'mse' goes with 'squared'."
            )
