"""Several acoustic models heard as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from bochner import checks
from bochner.acoustic.decoding import Weights, decode_parts, tune_weights
from bochner.acoustic.model import AcousticModel
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution
from bochner.storage import Storable

SHARES = (0.25, 0.5, 0.75)


class Combination(Storable):
    """log p(s | x) = sum_i w_i log p_i(s | x) - log Z(x): the weighted mean of log posteriors, or of logits.

    Both are the same model: they differ by a constant for each x. X [N, d] -> [N, S]. The cost of all models.
    Source: Lu et al. 2016 (blocks of features); system combination, Hinton et al. 2012.

    >>> Combination([nn.Identity(), nn.Identity()], torch.tensor([0.5, 0.5]))(torch.zeros(1, 2)).exp()
    tensor([[0.5000, 0.5000]])
    """

    shares: Tensor

    def __init__(self, models: Sequence[nn.Module], shares: Tensor) -> None:
        super().__init__()
        if len(models) == 0 or shares.shape != (len(models),):
            raise ValueError(f"shares must be one number a model, got {tuple(shares.shape)} for {len(models)} models.")
        self.models = nn.ModuleList(models)
        self.register_buffer("shares", checks.finite("shares", shares))

    def forward(self, X: Tensor) -> Tensor:
        logs = (share * model(X).log_softmax(dim=1) for share, model in zip(self.shares, self.models, strict=True))
        return torch.stack(list(logs)).sum(dim=0)


def combine(models: Sequence[AcousticModel], *, shares: Sequence[float] | None = None) -> AcousticModel:
    """One model of several that see the same frames and states; equal shares unless some are given."""
    first = models[0]
    for other in models[1:]:
        if str(other.splicer) != str(first.splicer) or other.hmm.num_pdfs != first.hmm.num_pdfs:
            raise ValueError("models must be trained on rows of the same frames, context and states to be combined.")
    given = [1 / len(models)] * len(models) if shares is None else list(shares)
    module = Combination([model.module for model in models], torch.tensor(given))
    about = {"combination": [dict(model.about) for model in models], "shares": given}
    return replace(first, module=module, about=about)


def best_combination(
    models: Sequence[AcousticModel],
    aligned: AlignedCorpus,
    *,
    folder: Path,
    work: Execution | None = None,
) -> tuple[AcousticModel, dict[float, float]]:
    """Two models with the shares of least error on dev, and the error of each share of the first.

    Acoustic weight and word penalty are tuned for equal shares, and kept for the others.
    """
    if len(models) != 2:
        raise ValueError(f"models must be two, one share between them, got {len(models)}.")
    weights: Weights | None = None
    errors = {}
    for share in sorted(SHARES, key=lambda one: abs(one - 0.5)):
        scores = combine(models, shares=[share, 1 - share]).scores(aligned.frames)
        place = folder / f"share_{share:g}"
        weights = weights or tune_weights(scores, aligned, folder=place, work=work)
        errors[share] = decode_parts(scores, aligned, folder=place, weights=weights, work=work)["dev"].ter
    best = min(errors, key=lambda share: errors[share])
    assert weights is not None
    return replace(combine(models, shares=[best, 1 - best]), weights=weights), errors
