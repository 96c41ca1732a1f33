"""Layer-wise discriminative pre-training of networks."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Generator

from bochner.data.blocks import Source
from bochner.models.network import Network
from bochner.solvers.learning_rate import constant_loss, find_rate
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import Callback, Record, train
from bochner.solvers.step import compute_precision


def pretrain(
    network: Network,
    source: Source,
    validation_data: Source,
    settings: SGDSettings,
    *,
    generator: Generator,
    checkpoint_dir: Path | None = None,
    callbacks: Sequence[Callback] = (),
    **options: Any,
) -> list[Record]:
    """Train one epoch with the first hidden layer of `network`, one with the first two, and so on, in place.

    Stage l trains the hidden layers 1 .. l together, under a new head drawn by `generator`; layer l starts from the
    network's own random weights, and the last stage uses the network's own head. Then `train` fine-tunes the whole.
    Time-delay layers begin together, since a head needs the last of them.
    Returns one record per stage: those of `train`, with "layers" = l. L epochs in all.

    Each stage is `train` with `max_epochs` = 1, at the initial `settings.learning_rate` ("auto" searches again) and
    with its own order of rows. Halvings do not carry over, and a stage is not compared with the previous one, since a
    new layer may raise the loss at first. A stage is repeated at half the rate if it diverged or its units died: if it
    ends worse than its new head, or no better in ce (mse) than the best constant scores. After `settings.max_halvings`
    failures a FloatingPointError is raised; `callbacks` see every attempt. The next stage starts at the initial rate
    again.

    With a `checkpoint_dir`, each attempt is checkpointed in a separate directory, layers-1/halvings-0 and so on. The
    same call, from the same start of network and generator, resumes, bit-equal on a CPU. `options` go to `train`.
    Source: Seide et al. 2011, whose stages also stop far from convergence; May 2018, Section 4.3.

    >>> from bochner.data import ArraySource
    >>> X = torch.randn(600, 2, generator=Generator().manual_seed(0))
    >>> rows = ArraySource(X, torch.bucketize(X.norm(dim=1), torch.tensor([0.8, 1.5])))
    >>> network = Network.draw(num_inputs=2, hidden=[16, 16], num_outputs=3, generator=Generator().manual_seed(0))
    >>> settings = SGDSettings(learning_rate=0.5, batch_size=16)
    >>> history = pretrain(network, rows, rows, settings, generator=Generator().manual_seed(1), verbose=False)
    >>> [(record["layers"], record["decision"]) for record in history]
    [(1, 'go on'), (2, 'go on')]
    """
    history: list[Record] = []
    constant = constant_loss(validation_data, settings.loss)
    for layers in range(max(1, len(network.dilations)), len(network.weights) + 1):
        stage = network if layers == len(network.weights) else network.lower(layers, generator=generator)
        start = [p.detach().clone() for p in stage.parameters()]
        attempt = replace(settings, max_epochs=1, schedule="halving", seed=settings.seed + layers)
        for halvings in range(settings.max_halvings):
            with suppress(FloatingPointError, ConvergenceWarning), warnings.catch_warnings():
                warnings.simplefilter("error", ConvergenceWarning)  # worse than the new head
                # `train` resumes with equal settings only, hence a directory for each rate
                directory = None if checkpoint_dir is None else checkpoint_dir / f"layers-{layers}/halvings-{halvings}"
                [record] = train(
                    stage,
                    source,
                    validation_data,
                    attempt,
                    checkpoint_dir=directory,
                    callbacks=[partial(_add_layers, callback, layers) for callback in callbacks],
                    **options,
                )
                if record["mse" if settings.loss == "squared" else "ce"] < constant:
                    history.append({**record, "layers": layers})
                    break
            with torch.no_grad():
                for parameter, value in zip(stage.parameters(), start, strict=True):
                    parameter.copy_(value)
            rate = attempt.learning_rate
            if isinstance(rate, str):  # the rate that `train` used: the search has the same result from the same start
                with compute_precision(settings.precision, next(stage.parameters()).device):
                    rate = find_rate(stage, source, validation_data, attempt, group=options.get("group"))
            attempt = replace(attempt, learning_rate=rate / 2)
        else:
            raise FloatingPointError(
                f"pre-training with {layers} hidden layers learned nothing in one epoch: the learning rate was halved "
                f"{settings.max_halvings} times, down to {attempt.learning_rate:.3g}. Check for huge or constant "
                "inputs, give a smaller learning_rate or batch_size, or train without pre-training if the rows are few."
            )
    return history


def _add_layers(callback: Callback, layers: int, record: Record) -> None:
    callback({**record, "layers": layers})
