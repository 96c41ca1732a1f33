"""The settings of the training loop, and the optimizers they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from bochner import checks
from bochner.models.losses import LOSSES, Criterion

OPTIMIZERS = ["sgd", "momentum", "adam", "adamw"]
PRECISIONS = ["float32", "tf32", "bf16"]
SCHEDULES = ["halving", "one-cycle"]


@dataclass(frozen=True)
class SGDSettings:
    """Settings of minibatch training; the defaults are those of the papers.

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
        alpha: Penalty alpha / 2 ||weights||^2; biases are not penalised. With "adamw" it is decoupled from the loss:
            every step multiplies the weights by 1 - rate alpha (Loshchilov & Hutter 2019).
        schedule: "halving" as in the papers, see `HalvingSchedule`; "one-cycle" raises the rate to `learning_rate` and
            lowers it to 0 over exactly `max_epochs` epochs, see `OneCycleSchedule`.
        criterion: What drives the schedule: ce, ent, err, perplexity, erll:beta, capped:lambda, topk:fraction, mse.
        max_epochs: An upper bound; the schedule "halving" usually ends earlier.
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
    schedule: str = "halving"
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
        checks.one_of("schedule", self.schedule, SCHEDULES)
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


class PlainSGD:
    """p <- p - lr (gradient + weight_decay p): torch.optim.SGD without momentum, bit for bit.

    Constructing one of torch's own optimizers imports torch's compiler: one second and 90 MB, more than a fit on a
    small data set.
    """

    def __init__(self, groups: Iterable[Mapping[str, Any]], *, lr: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": lr, **group} for group in groups]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = None if set_to_none or p.grad is None else torch.zeros_like(p.grad)

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                decay = group["weight_decay"]
                p.add_(p.grad.add(p, alpha=decay) if decay else p.grad, alpha=-group["lr"])


Optimizer = PlainSGD | torch.optim.Optimizer
SLOTS: dict[type, set[str]] = {  # the tensors that each optimizer keeps for a parameter
    SGD: {"momentum_buffer"},
    Adam: {"step", "exp_avg", "exp_avg_sq"},
    AdamW: {"step", "exp_avg", "exp_avg_sq"},
}


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training changes; frozen ones are redrawn or stored with the model."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def make_optimizer(model: nn.Module, settings: SGDSettings, rate: float) -> Optimizer:
    """The optimizer of `settings` for the trainable parameters of `model`; biases are not penalised."""
    parameters = list(trainable(model).values())
    # With a preconditioner the penalty is added to the gradient before that is preconditioned: see Preconditioner.
    decay = 0.0 if settings.preconditioner_rank else settings.alpha
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    match settings.optimizer:
        case "sgd":
            return PlainSGD(groups, lr=rate)
        case "momentum":
            return SGD(groups, lr=rate, momentum=0.9)
        case name:
            adam = Adam if name == "adam" else AdamW
            if not parameters[0].is_cuda:
                return adam(groups, lr=rate)
            options: dict[str, Any] = {"fused": True, "capturable": True}  # see `bochner.solvers.replay`
            return adam(groups, lr=torch.tensor(rate, device=parameters[0].device), **options)


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """The state of an optimizer by name, "optimizer.INDEX.SLOT"; plain SGD has none."""
    if isinstance(optimizer, PlainSGD):
        return {}
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, slots in optimizer.state_dict()["state"].items()
        for name, value in slots.items()
        if value is not None
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state returned by `optimizer_tensors`; other names are ignored. A ValueError if it does not fit."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".", 2)
            state.setdefault(int(number), {})[name] = tensor
    if isinstance(optimizer, PlainSGD):
        if state:
            raise ValueError(f"optimizer state must be empty for plain SGD, got entries for {sorted(state)}.")
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, slots in state.items():  # a tensor of another shape would be broadcast silently
        shapes = {tuple(tensor.shape) for tensor in slots.values() if tensor.ndim}
        if set(slots) != SLOTS[type(optimizer)] or shapes != {tuple(parameters[index].shape)}:
            raise ValueError(f"optimizer.{index} does not fit {type(optimizer).__name__}")
        for name, tensor in slots.items():
            if tensor.ndim:  # in the memory layout of its parameter, as fused optimizers need it
                slots[name] = torch.empty_like(parameters[index], dtype=tensor.dtype).copy_(tensor)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
