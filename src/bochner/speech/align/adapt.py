"""Transforms learned under mixtures: one for all speakers (MLLT), or one for each (fMLLR)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.align.views import ViewedFrames, blocks
from bochner.speech.frontend.fmllr import AffineStatistics, fmllr
from bochner.speech.frontend.mllt import SemiTiedStatistics, mllt
from bochner.speech.hmm.estimate import best_gaussians
from bochner.speech.hmm.mixtures import Mixtures

Array = NDArray[Any]


def estimate_mllt(
    mixtures: Mixtures,
    frames: Mapping[str, Array],
    pdfs: Mapping[str, Array],
    *,
    ignored: Collection[int] = (),
    max_frames: int = 100_000,
) -> Array:
    """A [d, d], so that A x fits diagonal Gaussians better; at most about `max_frames` frames, evenly spread, are used.

    Frames of the pdfs in `ignored` (silence) do not count.
    """
    statistics = SemiTiedStatistics(mixtures.dim)
    step = max(1, -(-sum(map(len, pdfs.values())) // max_frames))
    for X, y in blocks(frames, pdfs):
        _add(statistics, mixtures, X[::step], y[::step], ignored)
    return mllt(statistics).matrix


def estimate_fmllr(
    mixtures: Mixtures,
    frames: ViewedFrames,
    pdfs: Mapping[str, Array],
    *,
    ignored: Collection[int] = (),
    min_count: float = 500.0,
) -> dict[str, Array]:
    """For each speaker [A, b] [d, d + 1], so that A x + b fits the mixtures, x being frames before any adaptation.

    A speaker with fewer than `min_count` frames of speech keeps the transform that `frames` has (at first none: the
    identity). Frames choose their Gaussians as they are adapted now, so estimating again does better.
    """
    said: dict[str, dict[str, Array]] = {}
    for name, labels in pdfs.items():
        said.setdefault(frames.speaker_of[name], {})[name] = labels
    return {
        speaker: _composed(_one_speaker(mixtures, frames, theirs, ignored, min_count), frames.transforms.get(speaker))
        for speaker, theirs in said.items()
    }


def with_turned_means(mixtures: Mixtures, matrix: Array) -> Mixtures:
    """The mixtures after frames x became A x: means A m; the variances wait for the next update."""
    return Mixtures(mixtures.sizes, mixtures.weights, mixtures.means @ matrix.T, mixtures.variances)


def _one_speaker(
    mixtures: Mixtures,
    frames: Mapping[str, Array],
    pdfs: Mapping[str, Array],
    ignored: Collection[int],
    min_count: float,
) -> Array:
    statistics = AffineStatistics(mixtures.dim)
    for X, y in blocks(frames, pdfs):
        _add(statistics, mixtures, X, y, ignored)
    return fmllr(statistics, min_count=min_count).matrix


def _composed(after: Array, before: Array | None) -> Array:
    """First `before`, then `after`, both [A, b]."""
    if before is None:
        return after
    turned: Array = after[:, :-1] @ before
    turned[:, -1] += after[:, -1]
    return turned


def _add(
    statistics: SemiTiedStatistics | AffineStatistics, mixtures: Mixtures, X: Array, y: Array, ignored: Collection[int]
) -> None:
    speech = ~np.isin(y, list(ignored))
    if speech.any():
        X, best = X[speech], best_gaussians(mixtures, X[speech], y[speech])
        statistics.add(X, mixtures.means[best], mixtures.variances[best])
