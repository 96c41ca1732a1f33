"""One step, and one look at heldout data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source
from bochner.learn.losses import LOSSES
from bochner.learn.metrics import Scores
from bochner.train.checkpoint import trainable
from bochner.train.recipe import Recipe

EVALUATION_ROWS = 4096


def evaluate(model: nn.Module, source: Source, *, loss: str) -> Scores:
    """What the metrics need of every row of `source`, in order, in blocks."""
    device, parts = device_of(model), []
    with torch.no_grad():
        for block in in_order(source, batch_rows=EVALUATION_ROWS):
            parts.append(Scores.of_batch(loss, model(block.X.to(device)), block.y.to(device), block.weight))
    return Scores.join(parts)


def make_optimizer(model: nn.Module, recipe: Recipe, rate: float) -> Optimizer:
    parameters = list(trainable(model).values())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": recipe.l2},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    match recipe.optimizer:
        case "sgd":
            return SGD(groups, lr=rate)
        case "momentum":
            return SGD(groups, lr=rate, momentum=0.9)
        case "adam":
            return Adam(groups, lr=rate)
        case _:
            return AdamW(groups, lr=rate)


def take_step(model: nn.Module, optimizer: Optimizer, block: Block, *, loss: str) -> Tensor:
    device = device_of(model)
    weight = None if block.weight is None else block.weight.to(device)
    optimizer.zero_grad(set_to_none=True)
    value = LOSSES[loss](model(block.X.to(device)), block.y.to(device), weight)
    value.backward()
    optimizer.step()
    return value.detach()


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def compute_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Products in TF32 or bfloat16 within this block only; parameters stay as they are.

    Autocast's own cache is off: it would keep the first bfloat16 copy of weights that every step changes.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
