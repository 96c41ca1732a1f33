"""Optimizers, and their state as tensors for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from bochner.solvers.settings import SGDSettings


class PlainSGD:
    """p <- p - lr (gradient + weight_decay p): torch.optim.SGD without momentum, bit for bit.

    Constructing one of torch's own optimizers imports torch's compiler: one second and 90 MB, more than a whole fit on
    a small set takes.
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
        case "adam":
            return Adam(groups, lr=rate)
        case _:
            return AdamW(groups, lr=rate)


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
    """Put back what `optimizer_tensors` returned; other names are ignored. A ValueError where it does not fit."""
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
    for index, slots in state.items():  # a tensor of another shape would be broadcast in silence
        shapes = {tuple(tensor.shape) for tensor in slots.values() if tensor.ndim}
        if set(slots) != SLOTS[type(optimizer)] or shapes != {tuple(parameters[index].shape)}:
            raise ValueError(f"optimizer.{index} does not fit {type(optimizer).__name__}")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
