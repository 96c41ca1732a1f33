"""A good initial learning rate, by a short search on validation rows."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Generator, nn

from bochner.data.batches import batches, in_order
from bochner.data.blocks import BlockSource, Source, num_rows, sample_rows
from bochner.models.heads import FeatureModel, Head
from bochner.models.losses import Criterion
from bochner.models.network import Network
from bochner.solvers.checkpoint import StoredValues
from bochner.solvers.optimizers import SGDSettings, make_optimizer, trainable
from bochner.solvers.preconditioner import Preconditioner
from bochner.solvers.step import Learner, evaluate_modules, rows_at_once, take_steps

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers

FILE_NAME = "rates.safetensors"
MAX_STEPS, MIN_STEPS = 100, 10
# Rows of the validation set that rates are compared on: enough to tell rates a factor of 4 apart.
VALIDATION_ROWS, SHUFFLED_ROWS = 2048, 256
# With features of norm 1 useful rates of SGD are large, 0.6 to 1000 in the papers; Adam's do not depend on the scale.
START = {"sgd": 4.0, "momentum": 1.0, "adam": 4e-3, "adamw": 4e-3}
FACTOR = 4.0  # between neighbouring rates; the schedule halves a rate that is too large by less
WINDOW = range(-1, 4)  # powers of FACTOR that are tried first, together
MAX_SEARCHES = 5
# Heads with up to this many weights together (4 MB of float32) are trained together on the same features; larger ones
# one at a time, since they no longer fit a cache and their features cost less than their products.
SIDE_BY_SIDE = 2**20


def find_rate(
    model: nn.Module,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    preconditioner: Preconditioner | None = None,
    *,
    checkpoint_dir: Path | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    group: Workers | None = None,
) -> float:
    """The rate with the lowest validation loss after a few steps from the model's current weights, to a factor of 4.

    Copies of the model take the same steps at five rates around a typical one, over a quarter of an epoch, 10 to 100
    steps; features are computed once for all of them. The copies are compared on at most 2,048 validation rows. If the
    largest or the smallest rate is best, the search continues in that direction. The model itself does not change.

    Two corrections: a loss no better than that of the best constant scores counts as infinite, since units that died at
    a huge rate may look better than those that diverged at a smaller one; and one row of random class is added to the n
    validation rows, since the loss of n correct rows falls without bound as scores grow, while n rows cannot show that
    fewer than one in n is wrong.

    With a `checkpoint_dir`, rates that an interrupted search has tried are not tried again; `fingerprint` identifies
    what they depend on.
    """
    generator = Generator().manual_seed(settings.seed)
    rows = BlockSource(sample_rows(validation_data, VALIDATION_ROWS, generator=generator))
    shuffled = None
    if settings.loss != "squared":
        block = sample_rows(rows, SHUFFLED_ROWS, generator=generator)
        order = torch.randperm(len(block.y), generator=generator)
        shuffled = BlockSource(block._replace(y=block.y[order.to(block.y.device)]))
    constant, count = constant_loss(rows, settings.loss), len(rows.block.y)
    start = START[settings.optimizer] if preconditioner is None else preconditioner.rate
    stored, tried = None, {}  # the second are losses of rates, in any order
    if checkpoint_dir is not None:
        stored = StoredValues(checkpoint_dir, fingerprint or {}, name=FILE_NAME, group=group)
        tried = dict(stored.values)
    losses: dict[float, float] = {}
    rates = [start * FACTOR**power for power in WINDOW]
    for _ in range(MAX_SEARCHES):
        missing = [rate for rate in rates if rate not in tried]
        for trials in _train_copies(model, source, rows, shuffled, settings, preconditioner, missing, group):
            for rate, loss, doubt in trials:
                tried[rate] = (count * loss + doubt) / (count + 1) if loss < constant else math.inf
            if stored is not None:
                stored.add(tried)
        losses |= {rate: tried[rate] for rate in rates}
        smallest, largest, best = min(losses), max(losses), min(losses, key=lambda rate: losses[rate])
        up, down = [largest * FACTOR, largest * FACTOR**2], [smallest / FACTOR, smallest / FACTOR**2]
        if not math.isfinite(losses[best]):
            rates = up + down  # none has learned anything
        elif best in (smallest, largest):
            rates = up if best == largest else down
        else:
            break
    best = min(losses, key=lambda rate: losses[rate])
    return best if math.isfinite(losses[best]) else start


def _train_copies(
    model: nn.Module,
    source: Source,
    rows: Source,
    shuffled: Source | None,
    settings: SGDSettings,
    preconditioner: Preconditioner | None,
    rates: list[float],
    group: Workers | None,
) -> Iterator[list[tuple[float, float, float]]]:
    """(rate, loss on `rows`, loss on `shuffled`) after the same steps at each rate; one list for those that are trained
    together."""
    shared, module = None, model
    if isinstance(model, FeatureModel) and not trainable(model.feature_map):
        shared, module = model.feature_map, model.head  # frozen features, computed once for all copies
    criterion = Criterion("mse" if settings.loss == "squared" else "ce")
    steps = min(MAX_STEPS, max(MIN_STEPS, -(-num_rows(source) // settings.batch_size) // 4))
    tile = rows_at_once(model)
    together = max(1, SIDE_BY_SIDE // max(1, sum(p.numel() for p in trainable(module).values())))
    for first in range(0, len(rates), together):
        learners = []
        for rate in rates[first : first + together]:
            duplicate = copy.deepcopy(module).train()
            if isinstance(duplicate, Network) and duplicate.dropout:
                duplicate.seed_dropout(settings.seed)
            own = None if preconditioner is None else preconditioner.on(cast(Head, duplicate))
            learners.append(Learner(duplicate, make_optimizer(duplicate, settings, rate), own))
        epoch = batches(source, batch_size=settings.batch_size, seed=settings.seed, epoch=0)
        for block in itertools.islice(epoch, steps):
            share = block if group is None else group.share(block)
            take_steps(shared, learners, share, settings, rows=tile, size=len(block.y), group=group)
        for learner in learners:
            if isinstance(learner.module, Network):  # batch normalisation: statistics of the weights after these steps
                learner.module.fit_statistics(block.X.to(learner.module.weights[0]))
        losses = []
        for part in (rows,) if shuffled is None else (rows, shuffled):
            modules = [learner.module.eval() for learner in learners]
            scores = evaluate_modules(shared, modules, part, loss=settings.loss, rows=tile, group=group)
            losses.append([criterion.of(copied) for copied in scores])
        yield list(zip(rates[first : first + together], losses[0], losses[-1], strict=True))


def constant_loss(source: Source, loss: str) -> float:
    """The ce (mse) of the best scores that do not depend on x: the entropy of labels, or the variance of targets."""
    labels = [(block.y, block.weight) for block in in_order(source, batch_rows=4096)]
    y = torch.cat([y for y, _ in labels]).cpu()
    share = torch.cat([torch.ones(len(y)) if weight is None else weight.cpu() for y, weight in labels]).double()
    share /= share.sum()
    if loss != "squared":
        _, classes = y.unique(return_inverse=True)
        return float(torch.special.entr(torch.bincount(classes, weights=share)).sum())
    Y = y.reshape(len(y), -1).double()
    return float((share @ (Y - share @ Y).square()).mean())
