"""A speaker-adapted stage for speakers that were not in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from bochner.speech.align.adapt import estimate_fmllr
from bochner.speech.align.em import Labels
from bochner.speech.align.stage import Stage
from bochner.speech.align.tying import Paths, labels_of, path_events
from bochner.speech.align.views import ViewedFrames
from bochner.speech.hmm.model import Hmm

Array = NDArray[Any]


def adapt_stage(
    stage: Stage, frames: Mapping[str, Array], speaker_of: Mapping[str, str], *, paths: Paths, hmm: Hmm, rounds: int = 2
) -> Stage:
    """The stage with transforms of the speakers in `speaker_of`, in place of those of its training speakers.

    `paths` says what they said: transition ids of `hmm`, from forced alignment or decoding with the stage before, which
    needs no adaptation. Each of the `rounds` begins from the transforms of the one before.
    """
    labels = labels_of(stage.hmm, path_events(hmm, paths))
    stage = dataclasses.replace(stage, transforms={})
    for _ in range(rounds):
        stage = dataclasses.replace(
            stage, transforms=estimate_transforms(stage, labels, stage.seen(frames, speaker_of))
        )
    return stage


def estimate_transforms(stage: Stage, labels: Labels, seen: ViewedFrames) -> dict[str, Array]:
    """The transforms of all speakers, beginning from those that the stage has; silence does not count."""
    return estimate_fmllr(stage.mixtures, seen, labels, ignored=stage.silence_pdfs)
