"""Layer-wise discriminative pre-training of networks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

from bochner.data.blocks import Source
from bochner.models.network import Network
from bochner.solvers.learning_rate import constant_loss, find_rate
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import Callback, Record, train
from bochner.solvers.step import compute_precision, device_of

if TYPE_CHECKING:
    from bochner.solvers.parallel import Workers


def pretrain(
    network: Network,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    *,
    generator: Generator,
    checkpoint_dir: Path | None = None,
    checkpoint_seconds: float = 60.0,
    verbose: bool | None = None,
    callbacks: Sequence[Callback] = (),
    group: Workers | None = None,
) -> list[Record]:
    """Give `network` a trained start, in place: one epoch with its first hidden layer, one with its first two, ...

    Stage l trains the hidden layers 1 .. l together, under a fresh head drawn by `generator`; layer l comes from the
    network's own random start, and the last stage uses the network's own head. Then `train` fine-tunes the whole.
    Returns one record a stage: those of `train`, with "layers" = l. L epochs in all.

    Each stage is `train` with `max_epochs` = 1, at the initial `recipe.learning_rate` ("auto" finds it anew) and in a
    row order of its own. So no halving carries over, and a stage is not measured against the one before: a new layer
    may cost something at first, and is kept. What is not kept is a stage that diverged or whose units died, which would
    be a broken start for the next: one that ends worse than its fresh head, or no better in ce (mse) than the best
    constant scores. It is undone and redone at half the rate (`writers` see every try), until `recipe.max_halvings`
    tries have failed; then a FloatingPointError says so. The next stage starts at the initial rate again.

    With a `folder`, each stage is checkpointed in folders of its own, layers-1/halvings-0 and so on. The same call made
    again, from the same start of network and generator, goes on where the last one stopped, bit-equal on a CPU.
    Source: Seide et al. 2011, whose stages stop far from convergence too; May 2018, Section 4.3.

    >>> import torch
    >>> from bochner.data import ArraySource
    >>> X = torch.randn(600, 2, generator=Generator().manual_seed(0))
    >>> rows = ArraySource(X, torch.bucketize(X.norm(dim=1), torch.tensor([0.8, 1.5])))
    >>> network = Network.draw(num_inputs=2, hidden=[16, 16], num_outputs=3, generator=Generator().manual_seed(0))
    >>> recipe = SGDSettings(learning_rate=0.5, batch_size=16)
    >>> history = pretrain(network, rows, rows, recipe, generator=Generator().manual_seed(1), verbose=False)
    >>> [(record["layers"], record["decision"]) for record in history]
    [(1, 'go on'), (2, 'go on')]
    """
    history: list[Record] = []
    constant = constant_loss(validation_data, settings.loss)
    for layers in range(1, len(network.weights) + 1):
        record = _train_stage(
            network if layers == len(network.weights) else network.lower(layers, generator=generator),
            source,
            validation_data,
            replace(settings, max_epochs=1, seed=settings.seed + layers),
            constant=constant,
            checkpoint_dir=None if checkpoint_dir is None else checkpoint_dir / f"layers-{layers}",
            checkpoint_seconds=checkpoint_seconds,
            verbose=verbose,
            callbacks=[partial(_with_layers, callback, layers) for callback in callbacks],
            group=group,
        )
        history.append({**record, "layers": layers})
    return history


def _train_stage(
    stage: Network,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    *,
    constant: float,
    checkpoint_dir: Path | None,
    checkpoint_seconds: float,
    verbose: bool | None,
    callbacks: Sequence[Callback],
    group: Workers | None,
) -> Record:
    """One epoch that learned something. A folder for each rate: `train` resumes only with the very same recipe."""
    start = [p.detach().clone() for p in stage.parameters()]
    for halvings in range(settings.max_halvings):
        with suppress(FloatingPointError, ConvergenceWarning), warnings.catch_warnings():  # worse than the fresh head
            warnings.simplefilter("error", ConvergenceWarning)
            [record] = train(
                stage,
                source,
                validation_data,
                settings,
                checkpoint_dir=None if checkpoint_dir is None else checkpoint_dir / f"halvings-{halvings}",
                checkpoint_seconds=checkpoint_seconds,
                verbose=verbose,
                callbacks=callbacks,
                group=group,
            )
            if record["mse" if settings.loss == "squared" else "ce"] < constant:
                return record
        _restore(stage, start)
        settings = replace(settings, learning_rate=_rate(stage, source, validation_data, settings, group) / 2)
    raise FloatingPointError(
        f"pre-training with {len(stage.weights)} hidden layers learned nothing in one epoch: the learning rate was cut "
        f"{settings.max_halvings} times, down to {settings.learning_rate:.3g}. Look for huge or constant inputs, give "
        "a smaller learning_rate or batch_size, or train without pre-training if the rows are few."
    )


def _restore(stage: Network, start: list[Tensor]) -> None:
    with torch.no_grad():
        for parameter, value in zip(stage.parameters(), start, strict=True):
            parameter.copy_(value)


def _rate(
    stage: Network, source: Source, validation_data: Source, settings: SGDSettings, group: Workers | None
) -> float:
    """The rate that `train` used: searched again for "auto", with the same result from the same start."""
    if not isinstance(settings.learning_rate, str):
        return settings.learning_rate
    with compute_precision(settings.precision, device_of(stage)):
        return find_rate(stage, source, validation_data, settings, group=group)


def _with_layers(callback: Callback, layers: int, record: Record) -> None:
    callback({**record, "layers": layers})
