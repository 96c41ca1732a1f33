"""A good initial learning rate, found by trying."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Generator, nn

from bochner.data.batches import batches, in_order, num_batches
from bochner.data.blocks import Source
from bochner.data.sample import sample_rows
from bochner.data.sources import ArraySource
from bochner.learn.metrics import Metric
from bochner.train.checkpoint import trainable
from bochner.train.preconditioner import Preconditioner
from bochner.train.recipe import Recipe
from bochner.train.step import evaluate, make_optimizer, take_step

MOST_STEPS, FEWEST_STEPS = 100, 10
JUDGED_ROWS = 2048
FACTOR = 4.0
START = {"sgd": 4.0, "momentum": 1.0, "adam": 4e-3, "adamw": 4e-3}
MOST_TRIALS = 8


def find_rate(
    model: nn.Module,
    source: Source,
    heldout: Source,
    recipe: Recipe,
    preconditioner: Preconditioner | None = None,
) -> float:
    """The rate of the best heldout loss after a few steps from where the model stands, to a factor of 4.

    A trial is a quarter of an epoch, 10 to 100 steps, judged on at most 2,048 heldout rows. The walk starts from a
    typical rate and goes up while that helps, else down. A result no better than the best constant scores counts for
    nothing: units that died at a huge rate look better than others that blew up at a smaller one. With features of norm
    1 useful SGD rates are large, 0.6 to 1000 in the papers. The model is left as it was.
    """
    saved = {name: p.detach().clone() for name, p in trainable(model).items()}
    judged = ArraySource(*sample_rows(heldout, JUDGED_ROWS, generator=Generator().manual_seed(recipe.seed)))
    metric = Metric("mse" if recipe.loss == "squared" else "ce")
    steps = min(MOST_STEPS, max(FEWEST_STEPS, num_batches(source, recipe.batch_size) // 4))
    constant = constant_loss(judged, recipe.loss)

    def trial(rate: float) -> float:
        optimizer = make_optimizer(model, recipe, rate)
        epoch = batches(source, batch_size=recipe.batch_size, seed=recipe.seed, epoch=0)
        for block in itertools.islice(epoch, steps):
            take_step(model, optimizer, block, recipe, preconditioner)
        result = metric.of(evaluate(model, judged, loss=recipe.loss))
        with torch.no_grad():
            for name, parameter in trainable(model).items():
                parameter.copy_(saved[name])
        return result if result < constant else math.inf

    start = START[recipe.optimizer] if preconditioner is None else preconditioner.rate
    return _walk(trial, start)


def constant_loss(heldout: Source, loss: str) -> float:
    """The heldout ce, or mse, of the best scores that do not depend on x: the labels' entropy, or their variance."""
    labels = [(block.y, block.weight) for block in in_order(heldout, batch_rows=4096)]
    y = torch.cat([y for y, _ in labels]).cpu()
    share = torch.cat([torch.ones(len(y)) if weight is None else weight.cpu() for y, weight in labels]).double()
    share /= share.sum()
    if loss != "squared":
        _, classes = y.unique(return_inverse=True)
        return float(torch.special.entr(torch.bincount(classes, weights=share)).sum())
    Y = y.reshape(len(y), -1).double()
    return float((share @ (Y - share @ Y).square()).mean())


def _walk(trial: Callable[[float], float], start: float) -> float:
    """From `start`, or the nearest rate that learned anything, up while results fall, else down while they fall."""
    rate, best = _nearest(trial, start)
    for direction in (FACTOR, 1 / FACTOR):
        moved = False
        while math.isfinite(best) and (result := trial(rate * direction)) < best:
            rate, best, moved = rate * direction, result, True
        if moved:
            break
    return rate


def _nearest(trial: Callable[[float], float], start: float) -> tuple[float, float]:
    """The first of start, 4 start, start / 4, 16 start, .. that learned something, and its result; else `start`."""
    for power in range(MOST_TRIALS):
        for rate in {start * FACTOR**power: None, start / FACTOR**power: None}:
            result = trial(rate)
            if math.isfinite(result):
                return rate, result
    return start, math.inf
