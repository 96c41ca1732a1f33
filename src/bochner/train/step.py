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
from bochner.learn.model import FeatureModel
from bochner.ops import row_tiles
from bochner.train.checkpoint import trainable
from bochner.train.preconditioner import Preconditioner
from bochner.train.recipe import Recipe

# Features made at once: 16 MB on a CPU, enough for fast products; a GPU wants more.
CPU_ELEMENTS, GPU_ELEMENTS = 2**22, 2**26


def evaluate(model: nn.Module, source: Source, *, loss: str) -> Scores:
    """What the metrics need of every row of `source`, in order, in blocks."""
    like, parts = next(model.parameters()), []
    with torch.no_grad():
        for block in in_order(source, batch_rows=rows_at_once(model)):
            parts.append(Scores.of_batch(loss, model(block.X.to(like)), block.y.to(like.device), block.weight))
    return Scores.join(parts)


def rows_at_once(model: nn.Module) -> int:
    """Rows whose features are made together; memory is bounded by it, not by the batch."""
    width = max(max(p.shape, default=1) for p in model.parameters())
    if isinstance(model, FeatureModel):
        width = max(width, model.feature_map.num_inputs, model.feature_map.num_features)
    elements = CPU_ELEMENTS if device_of(model).type == "cpu" else GPU_ELEMENTS
    return max(1, elements // width)


def make_optimizer(model: nn.Module, recipe: Recipe, rate: float) -> Optimizer:
    parameters = list(trainable(model).values())
    decay = 0.0 if recipe.directions else recipe.l2  # the preconditioner adds the penalty before it is applied
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
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


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    block: Block,
    recipe: Recipe,
    preconditioner: Preconditioner | None = None,
) -> Tensor:
    """One step on the mean loss of `block`; its gradient is summed over parts whose features fit `rows_at_once`."""
    like, size = next(model.parameters()), len(block.y)
    total = torch.zeros((), device=like.device)
    optimizer.zero_grad(set_to_none=True)
    for rows in row_tiles(size, row_elements=1, tile_elements=rows_at_once(model)):
        X, y = block.X[rows].to(like), block.y[rows].to(like.device)
        weight = None if block.weight is None else block.weight[rows].to(like)
        value = LOSSES[recipe.loss](model(X), y, weight) * (len(y) / size)
        value.backward()
        total += value.detach()
    if preconditioner is not None:
        preconditioner.apply(l2=recipe.l2)
    optimizer.step()
    return total


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
