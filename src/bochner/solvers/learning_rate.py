"""A good initial learning rate, found by trying."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Generator, nn

from bochner.data import ArraySource
from bochner.data.batches import batches, in_order, num_batches
from bochner.data.blocks import Source, sample_rows
from bochner.models.criteria import Criterion
from bochner.models.heads import FeatureModel, Head
from bochner.solvers.checkpoint import trainable
from bochner.solvers.optimizers import make_optimizer
from bochner.solvers.preconditioner import Preconditioner
from bochner.solvers.settings import SGDSettings
from bochner.solvers.step import Runner, evaluate_parts, rows_at_once, take_steps

MOST_STEPS, FEWEST_STEPS = 100, 10
JUDGED_ROWS, DOUBTED_ROWS = 2048, 256
FACTOR = 4.0
START = {"sgd": 4.0, "momentum": 1.0, "adam": 4e-3, "adamw": 4e-3}
WINDOW = range(-1, 4)  # powers of FACTOR that are tried at once
MOST_RACES = 5
# Heads that run side by side have so many numbers together; larger ones run one after the other.
SIDE_BY_SIDE = 2**20


def find_rate(
    model: nn.Module,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    preconditioner: Preconditioner | None = None,
) -> float:
    """The rate of the best heldout loss after a few steps from where the model stands, to a factor of 4.

    Five rates around a typical one race over the same rows, a quarter of an epoch, 10 to 100 steps; features are
    computed once for all of them. They are judged on at most 2,048 heldout rows. When the fastest or the slowest wins,
    the race is run again further out. A result no better than the best constant scores counts for nothing: units that
    died at a huge rate look better than others that blew up at a smaller one. To n heldout rows comes one whose class
    may be any: where all n are right their loss falls without end as the scores grow, but they cannot say that fewer
    than one in n is wrong. With features of norm 1 useful SGD rates are large, 0.6 to 1000 in the papers. The model is
    left as it was.
    """
    race = Race(model, source, validation_data, settings, preconditioner)
    start = START[settings.optimizer] if preconditioner is None else preconditioner.rate
    tried: dict[float, float] = {}
    rates = [start * FACTOR**power for power in WINDOW]
    for _ in range(MOST_RACES):
        tried |= zip(rates, race.run(rates), strict=True)
        rates = _further_out(tried)
        if not rates:
            break
    best = min(tried, key=lambda rate: tried[rate])
    return best if math.isfinite(tried[best]) else start


def _further_out(tried: Mapping[float, float]) -> list[float]:
    """Rates beyond those that were tried, on the side of the best one; on both where none learned anything."""
    least, most = min(tried), max(tried)
    best = min(tried, key=lambda rate: tried[rate])
    up, down = [most * FACTOR, most * FACTOR**2], [least / FACTOR, least / FACTOR**2]
    if not math.isfinite(tried[best]):
        return up + down
    return up if best == most else down if best == least else []


class Race:
    """Copies of a model that take the same steps at different rates."""

    def __init__(
        self,
        model: nn.Module,
        source: Source,
        validation_data: Source,
        settings: SGDSettings,
        preconditioner: Preconditioner | None,
    ) -> None:
        self._source, self._settings, self._preconditioner = source, settings, preconditioner
        self._shared, self._part = _frozen_and_learned(model)
        self._rows = rows_at_once(model)
        self._criterion = Criterion("mse" if settings.loss == "squared" else "ce")
        self._steps = min(MOST_STEPS, max(FEWEST_STEPS, num_batches(source, settings.batch_size) // 4))
        generator = Generator().manual_seed(settings.seed)
        self._judged = ArraySource(*sample_rows(validation_data, JUDGED_ROWS, generator=generator))
        self._constant = constant_loss(self._judged, settings.loss)
        self._doubted = None if settings.loss == "squared" else doubted_rows(self._judged, generator)

    def run(self, rates: Sequence[float]) -> list[float]:
        """The heldout loss at each rate, infinite where it is no better than that of constant scores."""
        size = sum(p.numel() for p in trainable(self._part).values())
        together = max(1, SIDE_BY_SIDE // max(1, size))
        return [loss for i in range(0, len(rates), together) for loss in self._run(rates[i : i + together])]

    def _run(self, rates: Sequence[float]) -> list[float]:
        settings, runners = self._settings, [self._runner(rate) for rate in rates]
        epoch = batches(self._source, batch_size=settings.batch_size, seed=settings.seed, epoch=0)
        for block in itertools.islice(epoch, self._steps):
            take_steps(self._shared, runners, block, settings, rows=self._rows)
        parts = [runner.part for runner in runners]
        losses, count = self._losses(parts, self._judged), sum(self._judged.shard_sizes)
        doubts = losses if self._doubted is None else self._losses(parts, self._doubted)
        pairs = zip(losses, doubts, strict=True)
        return [(count * loss + doubt) / (count + 1) if loss < self._constant else math.inf for loss, doubt in pairs]

    def _losses(self, parts: Sequence[nn.Module], rows: Source) -> list[float]:
        scores = evaluate_parts(self._shared, parts, rows, loss=self._settings.loss, rows=self._rows)
        return [self._criterion.of(each) for each in scores]

    def _runner(self, rate: float) -> Runner:
        part = copy.deepcopy(self._part)
        evened = None if self._preconditioner is None else self._preconditioner.on(cast(Head, part))
        return Runner(part, make_optimizer(part, self._settings, rate), evened)


def _frozen_and_learned(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """Features that do not change and the head on them, where a model is that; else nothing and all of it."""
    if isinstance(model, FeatureModel) and not trainable(model.feature_map):
        return model.feature_map, model.head
    return nn.Identity(), model


def doubted_rows(validation_data: Source, generator: Generator) -> ArraySource:
    """Some of the rows, each with the class of any."""
    rows = sample_rows(validation_data, DOUBTED_ROWS, generator=generator)
    return ArraySource(rows.X, rows.y[torch.randperm(len(rows.y), generator=generator)], rows.weight)


def constant_loss(validation_data: Source, loss: str) -> float:
    """The heldout ce, or mse, of the best scores that do not depend on x: the labels' entropy, or their variance."""
    labels = [(block.y, block.weight) for block in in_order(validation_data, batch_rows=4096)]
    y = torch.cat([y for y, _ in labels]).cpu()
    share = torch.cat([torch.ones(len(y)) if weight is None else weight.cpu() for y, weight in labels]).double()
    share /= share.sum()
    if loss != "squared":
        _, classes = y.unique(return_inverse=True)
        return float(torch.special.entr(torch.bincount(classes, weights=share)).sum())
    Y = y.reshape(len(y), -1).double()
    return float((share @ (Y - share @ Y).square()).mean())
