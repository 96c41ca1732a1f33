"""How a model is trained by whole utterances, as one small record."""

from __future__ import annotations

from dataclasses import dataclass

from bochner import checks


@dataclass(frozen=True, kw_only=True)
class SequenceRecipe:
    """How a model is trained by the MMI objective.

    Args:
        acoustic_weight: What log likelihoods are multiplied by beside the graph's log probabilities.
        frame_weight: Weight of the cross-entropy that is minimised at the same time ("F-smoothing").
        learning_rate: At the beginning; "auto" is the inverse of the largest curvature that the preconditioner leaves.
        preconditioner_rank: Top eigenvectors of the features that gradients are preconditioned with (see
            `Preconditioner`); "auto" as many as a batch can resolve; 0 for anything but a LinearHead on features.
        batch_utterances: How many utterances make a step.
        max_epochs: An upper bound; the schedule usually ends earlier.
        improvement: The gain of the heldout loss, in nats a frame, under which the rate is halved.
        max_halvings: Training ends after so many.
        seed: For the order of the batches.

    Source: Vesely et al. 2013; Su et al. 2013 (smoothing).
    """

    acoustic_weight: float = 0.1
    frame_weight: float = 0.1
    learning_rate: float | str = "auto"
    preconditioner_rank: int | str = "auto"
    batch_utterances: int = 8
    max_epochs: int = 20
    improvement: float = 0.01
    max_halvings: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive_float("acoustic_weight", self.acoustic_weight)
        if self.learning_rate != "auto":
            checks.positive_float("learning_rate", self.learning_rate)
        elif self.preconditioner_rank == 0:
            raise ValueError("learning_rate must be a number with preconditioner_rank=0, got 'auto'.")
        for name in ("frame_weight", "improvement"):
            checks.nonnegative_float(name, getattr(self, name))
        for name in ("batch_utterances", "max_epochs", "max_halvings"):
            checks.positive_int(name, getattr(self, name))
