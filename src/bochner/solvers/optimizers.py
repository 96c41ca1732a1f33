"""What moves parameters along their gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW

from bochner.solvers.checkpoint import trainable
from bochner.solvers.settings import SGDSettings


class PlainSGD:
    """p <- p - lr (gradient + weight_decay p): torch.optim's SGD without momentum, to the last bit.

    Making one of torch's own optimizers imports torch's compiler: a second and 90 MB, more than a whole fit takes here.
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

    def state_dict(self) -> dict[str, Any]:
        """Nothing but the groups: a step depends on no other."""
        return {"state": {}, "param_groups": self.param_groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["state"]:
            raise ValueError(f"state must be empty for plain SGD, got entries for {list(state['state'])}.")


Optimizer = PlainSGD | torch.optim.Optimizer
SLOTS: dict[type, set[str]] = {  # what each keeps for a parameter
    SGD: {"momentum_buffer"},
    Adam: {"step", "exp_avg", "exp_avg_sq"},
    AdamW: {"step", "exp_avg", "exp_avg_sq"},
}


def make_optimizer(model: nn.Module, settings: SGDSettings, rate: float) -> Optimizer:
    """The recipe's optimizer for the parameters that training changes; biases are not penalised."""
    parameters = list(trainable(model).values())
    decay = (
        0.0 if settings.preconditioner_rank else settings.alpha
    )  # the preconditioner adds the penalty before it is applied
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
    return {
        f"optimizer.{index}.{name}": torch.as_tensor(value)
        for index, slots in optimizer.state_dict()["state"].items()
        for name, value in slots.items()
        if value is not None
    }


def restore_optimizer(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, index, name = key.split(".", 2)
            state.setdefault(int(index), {})[name] = tensor
    if not isinstance(optimizer, PlainSGD):  # which has none, and says so
        _check_slots(optimizer, state)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _check_slots(optimizer: Optimizer, state: Mapping[int, Mapping[str, Tensor]]) -> None:
    """An error where a step would fail, or stretch a tensor of another shape in silence."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for index, slots in state.items():
        shapes = {tuple(tensor.shape) for tensor in slots.values() if tensor.ndim}
        if set(slots) != SLOTS[type(optimizer)] or shapes != {tuple(parameters[index].shape)}:
            raise ValueError(f"optimizer.{index} does not fit {type(optimizer).__name__}")
