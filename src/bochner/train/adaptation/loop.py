"""Adam on an objective of the features, until heldout rows say that it is enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim import Adam, Optimizer
from tqdm import tqdm

from bochner.data.blocks import Block
from bochner.features import FeatureMap
from bochner.train.adaptation.objectives import Objective
from bochner.train.adaptation.patience import Patience
from bochner.train.adaptation.streams import Epoch
from bochner.train.loop import Record, Writer


@dataclass
class Fit:
    """All that one adaptation needs: what is changed, at which rates, for what, and on which rows."""

    feature_map: FeatureMap
    parameters: dict[str, Tensor]
    rates: dict[str, float]
    objective: Objective
    epochs: Epoch
    heldout: Callable[[], Iterable[Block]]


def minimise(
    fit: Fit,
    *,
    patience: Patience,
    decay: float,
    max_epochs: int,
    progress: bool | None,
    writers: Sequence[Writer],
) -> list[Record]:
    """Change the parameters in place and leave them at their best heldout epoch; one record an epoch, from 0."""
    groups = [{"params": [p], "lr": fit.rates[name]} for name, p in fit.parameters.items()]
    optimizer = Adam(groups, fused=True)
    history: list[Record] = []
    for epoch in range(max_epochs + 1):
        train = _train(fit, optimizer, epoch, patience.best, progress) if epoch else math.nan
        heldout = _evaluate(fit)
        if not math.isfinite(heldout):
            raise FloatingPointError(
                f"adaptation diverged in epoch {epoch}; give a smaller learning_rate or head_rate."
            )
        improved = patience.judge(heldout, fit.parameters)
        history.append({"epoch": epoch, "train": train, "heldout": heldout, "improved": improved})
        for writer in writers:
            writer(history[-1])
        if patience.finished:
            break
        if not improved:
            _lower(optimizer, decay)
    patience.restore(fit.parameters)
    return history


def _train(fit: Fit, optimizer: Optimizer, epoch: int, best: float, progress: bool | None) -> float:
    values = []
    hidden = None if progress is None else not progress
    with tqdm(fit.epochs(epoch - 1), desc=f"epoch {epoch}", unit="batch", disable=hidden, leave=False) as bar:
        bar.set_postfix(best=f"{best:.3g}")
        for block in bar:
            optimizer.zero_grad(set_to_none=True)
            value = _value(fit, block)
            value.backward()
            optimizer.step()
            values.append(value.detach())
    return float(torch.stack(values).mean())


def _lower(optimizer: Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] *= factor


def _evaluate(fit: Fit) -> float:
    values, sizes = [], []
    with torch.no_grad():
        for block in fit.heldout():
            values.append(_value(fit, block))
            sizes.append(len(block.X))
    return float(torch.stack(values).double().cpu() @ torch.tensor(sizes).double()) / sum(sizes)


def _value(fit: Fit, block: Block) -> Tensor:
    like = next(fit.feature_map.parameters())
    weight = None if block.weight is None else block.weight.to(like)
    block = Block(block.X.to(like), block.y.to(like.device), weight)
    return fit.objective(fit.feature_map(block.X), block)
