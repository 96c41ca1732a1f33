"""A good initial learning rate, found by trying."""

from __future__ import annotations

import itertools
import math

import torch
from torch import nn

from bochner.data.batches import batches
from bochner.data.blocks import Source
from bochner.learn.metrics import Metric
from bochner.train.checkpoint import trainable
from bochner.train.recipe import Recipe
from bochner.train.step import evaluate, make_optimizer, take_step

TRIAL_STEPS = 100
FACTOR = 4.0
START = {"sgd": 4.0, "momentum": 1.0, "adam": 4e-3, "adamw": 4e-3}
MOST_TRIALS = 12


def find_rate(model: nn.Module, source: Source, heldout: Source, recipe: Recipe) -> float:
    """The rate of the best heldout loss after 100 steps from where the model stands, to a factor of 4.

    Starts from a typical rate and walks up, then down, while that helps. With features of norm 1 useful SGD rates are
    large, 0.6 to 1000 in the papers. The model is left as it was.
    """
    saved = {name: p.detach().clone() for name, p in trainable(model).items()}
    metric = Metric("mse" if recipe.loss == "squared" else "ce")

    def trial(rate: float) -> float:
        optimizer = make_optimizer(model, recipe, rate)
        epoch = batches(source, batch_size=recipe.batch_size, seed=recipe.seed, epoch=0)
        for block in itertools.islice(epoch, TRIAL_STEPS):
            take_step(model, optimizer, block, loss=recipe.loss)
        result = metric.of(evaluate(model, heldout, loss=recipe.loss))
        with torch.no_grad():
            for name, parameter in trainable(model).items():
                parameter.copy_(saved[name])
        return result if math.isfinite(result) else math.inf

    best_rate = START[recipe.optimizer]
    best = trial(best_rate)
    for direction in (FACTOR, 1 / FACTOR):
        rate = best_rate * direction
        for _ in range(MOST_TRIALS):
            result = trial(rate)
            if result >= best and math.isfinite(best):
                break
            if result < best:
                best, best_rate = result, rate
            rate *= direction
    return best_rate
