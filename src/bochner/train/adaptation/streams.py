"""Which rows an epoch of adaptation sees."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from bochner.data.batches import batches, in_order
from bochner.data.blocks import Block, Source
from bochner.data.sources.rows import num_rows, recut
from bochner.train.adaptation.plan import Plan

TRAIN_BATCHES, HELDOUT_BATCHES = 10_000, 1_000
HELDOUT_ROWS = 1024  # of a heldout pass at once
HELDOUT_SEED = 1_000_003  # added to the plan's, so that heldout rows have an order of their own

Epoch = Callable[[int], Iterator[Block]]  # number of the epoch, from 0


def endless(source: Source, *, batch_size: int, seed: int) -> Iterator[Block]:
    """Full batches of shuffled rows for ever: pass after pass over the source, each in another order."""
    passes = (batches(source, batch_size=batch_size, seed=seed, epoch=lap) for lap in itertools.count())
    return recut(itertools.chain.from_iterable(passes), batch_size)


def training_epochs(source: Source, plan: Plan, *, whole: bool) -> Epoch:
    """`plan.batches` batches an epoch, which go on where the last one stopped; None with `whole` is one pass."""
    size = min(plan.batch_size, num_rows(source))
    if whole and plan.batches is None:
        return lambda epoch: batches(source, batch_size=size, seed=plan.seed, epoch=epoch)
    stream = endless(source, batch_size=size, seed=plan.seed)
    return lambda epoch: itertools.islice(stream, plan.batches or TRAIN_BATCHES)


def heldout_batches(heldout: Source, plan: Plan, *, whole: bool) -> Iterator[Block]:
    """The same batches at every call, so that epochs differ by their parameters alone."""
    if whole and plan.heldout_batches is None:
        return in_order(heldout, batch_rows=HELDOUT_ROWS)
    size = min(plan.batch_size, num_rows(heldout))
    stream = endless(heldout, batch_size=size, seed=plan.seed + HELDOUT_SEED)
    return itertools.islice(stream, plan.heldout_batches or HELDOUT_BATCHES)
