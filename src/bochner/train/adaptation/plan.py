"""How a basis is adapted, as one small record."""

from __future__ import annotations

from dataclasses import dataclass

from bochner import checks
from bochner.features import FeatureMap, FourierMap
from bochner.learn.losses import LOSSES

PATIENCE, STRUCTURED_PATIENCE = 10, 20


@dataclass(frozen=True)
class Plan:
    """Adam with early stopping; batches, epochs and patience are those of Alber et al. 2017, Section 4.1.

    Args:
        batch_size: Rows a step. Alignment is that of a batch, so its size is part of that objective.
        learning_rate: Adam's rate, times the median size of the entries it changes: a step then means the same for
            frequencies of any bandwidth, and is that on G where the paper writes W = G / sigma.
        decay: The factor of all rates after an epoch without improvement; 1 keeps them, as in the paper.
        head_rate: How far a step may move the scores of a typical row through the head.
        batches: Training batches an epoch; None is 10,000, or one pass over the rows for objective "loss".
        heldout_batches: Heldout batches, the same ones every epoch; None is 1,000, or all heldout rows for "loss".
        patience: Epochs without improvement after which the best one is taken; None is 10, 20 for structured maps.
        max_epochs: An upper bound.
        loss: "softmax", "logistic" or "squared"; for objective "loss" only.
        seed: For the order of the rows.
    """

    batch_size: int = 64
    learning_rate: float = 3e-3
    decay: float = 0.5
    head_rate: float = 0.1
    batches: int | None = None
    heldout_batches: int | None = None
    patience: int | None = None
    max_epochs: int = 200
    loss: str = "softmax"
    seed: int = 0

    def __post_init__(self) -> None:
        if checks.positive_int("batch_size", self.batch_size) < 2:
            raise ValueError("batch_size must be at least 2, since kernels are seen through pairs of rows, got 1.")
        for name in ("batches", "heldout_batches", "patience"):
            if getattr(self, name) is not None:
                checks.positive_int(name, getattr(self, name))
        checks.positive_int("max_epochs", self.max_epochs)
        checks.positive_float("learning_rate", self.learning_rate)
        checks.positive_float("head_rate", self.head_rate)
        if checks.positive_float("decay", self.decay) > 1:
            raise ValueError(f"decay must be at most 1, since rates fall, got {self.decay!r}.")
        checks.one_of("loss", self.loss, LOSSES)
        checks.nonnegative_int("seed", self.seed)

    def patience_for(self, feature_map: FeatureMap) -> int:
        """Epochs without improvement that are waited for."""
        if self.patience is not None:
            return self.patience
        structured = isinstance(feature_map, FourierMap) and feature_map.projection.structured
        return STRUCTURED_PATIENCE if structured else PATIENCE
