"""One step, and one look at heldout data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source
from bochner.learn.losses import LOSSES
from bochner.learn.metrics import Scores
from bochner.learn.model import FeatureModel
from bochner.ops import row_tiles
from bochner.train.checkpoint import trainable
from bochner.train.optimizers import Optimizer
from bochner.train.parallel.team import here
from bochner.train.preconditioner import Preconditioner
from bochner.train.recipe import Recipe

# Features made at once: 16 MB on a CPU, enough for fast products; a GPU wants more.
CPU_ELEMENTS, GPU_ELEMENTS = 2**22, 2**26


class Runner(NamedTuple):
    """Something that learns: a module, and what moves it."""

    part: nn.Module
    optimizer: Optimizer
    preconditioner: Preconditioner | None = None


def evaluate(model: nn.Module, source: Source, *, loss: str) -> Scores:
    """What the metrics need of every row of `source`, in order, in blocks."""
    return evaluate_parts(nn.Identity(), [model], source, loss=loss, rows=rows_at_once(model))[0]


def evaluate_parts(
    shared: nn.Module, parts: Sequence[nn.Module], source: Source, *, loss: str, rows: int
) -> list[Scores]:
    """The same for each part(shared(x)); `shared` is computed once, `rows` of it at a time."""
    like = next(parts[0].parameters())
    found: list[list[Scores]] = [[] for _ in parts]
    with torch.no_grad():
        for block in map(here().share, in_order(source, batch_rows=rows * here().num_shares)):
            Z, y = shared(block.X.to(like)), block.y.to(like.device)
            for part, scores in zip(parts, found, strict=True):
                scores.append(Scores.of_batch(loss, part(Z), y, block.weight))
    return [here().join(Scores.join(scores)) for scores in found]


def rows_at_once(model: nn.Module) -> int:
    """Rows whose features are made together; memory is bounded by it, not by the batch."""
    width = max(max(p.shape, default=1) for p in model.parameters())
    if isinstance(model, FeatureModel):
        width = max(width, model.feature_map.num_inputs, model.feature_map.num_features)
    elements = CPU_ELEMENTS if device_of(model).type == "cpu" else GPU_ELEMENTS
    return max(1, elements // width)


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    block: Block,
    recipe: Recipe,
    preconditioner: Preconditioner | None = None,
    *,
    size: int | None = None,
) -> None:
    """One step on the mean loss of `block`; its gradient is summed over parts whose features fit `rows_at_once`.

    With a `size`, `block` is this process's share of a batch of so many rows.
    """
    runner = Runner(model, optimizer, preconditioner)
    take_steps(nn.Identity(), [runner], block, recipe, rows=rows_at_once(model), size=size)


def take_steps(
    shared: nn.Module, runners: Sequence[Runner], block: Block, recipe: Recipe, *, rows: int, size: int | None = None
) -> None:
    """The same step for each runner, whose module gets shared(x); `shared` is computed once, `rows` of it at a time."""
    if size is None:
        size, block = len(block.y), here().share(block)
    like = next(runners[0].part.parameters())
    for runner in runners:
        runner.optimizer.zero_grad(set_to_none=True)
    for tile in row_tiles(len(block.y), row_elements=1, tile_elements=rows):
        Z, y = shared(block.X[tile].to(like)), block.y[tile].to(like.device)
        weight = None if block.weight is None else block.weight[tile].to(like)
        for runner in runners:
            (LOSSES[recipe.loss](runner.part(Z), y, weight) * (len(y) / size)).backward()
    for runner in runners:
        here().sum_gradients(list(trainable(runner.part).values()))
        if runner.preconditioner is not None:
            runner.preconditioner.apply(l2=recipe.l2)
        runner.optimizer.step()


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
