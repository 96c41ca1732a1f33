"""Settings of GMM training for as much speech as there is."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from bochner.speech.align import Growth, LdaMllt, Monophone, Recipe, Sat, Tied

MOST_LEAVES, MOST_GAUSSIANS, MOST_MONOPHONE_GAUSSIANS = 2000, 10_000, 1000  # Kaldi's, for hours of speech
LEAVES_A_ROOT = 1.6  # leaves / sqrt(frames)
FRAMES_A_GAUSSIAN = 60  # in every stage: what tied states do better is then not by size
FEWEST_FRAMES = 20.0  # of a leaf
TIED = Growth(num_gaussians=1, iterations=15, grow_until=10, realign=(5, 10))
LABELLED = Growth(num_gaussians=1, iterations=10, grow_until=8, realign=())  # frames keep the phones they are known by


def recipe_for(
    num_frames: int,
    *,
    num_phones: int,
    start: str,
    num_leaves: int | None,
    num_gaussians: int | None,
    silence: tuple[str, ...],
    shift: float,
    offset: float,
    seed: int,
) -> Recipe:
    """Kaldi's numbers for hours of speech, fewer states and Gaussians for minutes.

    At most as many leaves as grow with the square root of the number of frames, as more speech has more contexts but
    also more of each; fewer where splits help no speaker that they were not learned from. `start` is "equal", "known"
    (monophones learn from the known times of phones, later stages realign), or "kept" (no stage ever realigns).

    >>> recipe = recipe_for(30_000, num_phones=48, start="equal", num_leaves=None, num_gaussians=None, silence=("SIL",),
    ...                     shift=0.01, offset=0.0075, seed=0)
    >>> recipe.monophone.growth.num_gaussians, recipe.triphone.num_leaves, recipe.triphone.growth.num_gaussians
    (500, 277, 500)
    >>> recipe.triphone.growth.realign
    (5, 10)
    """
    states = 3 * num_phones
    leaves = num_leaves or max(states, min(round(LEAVES_A_ROOT * math.sqrt(num_frames)), MOST_LEAVES))
    gaussians = num_gaussians or max(leaves, min(num_frames // FRAMES_A_GAUSSIAN, MOST_GAUSSIANS))
    alone = max(states, min(num_frames // FRAMES_A_GAUSSIAN, MOST_MONOPHONE_GAUSSIANS))
    growth = replace(TIED, num_gaussians=gaussians, realign=() if start == "kept" else TIED.realign)
    tied: dict[str, Any] = {"num_leaves": leaves, "min_count": FEWEST_FRAMES, "growth": growth}
    return Recipe(
        monophone=_monophone(start, alone),
        triphone=Tied(**tied),
        lda_mllt=LdaMllt(**tied),
        sat=Sat(**tied),
        silence=silence,
        frame_shift=shift,
        offset=offset,
        seed=seed,
    )


def _monophone(start: str, num_gaussians: int) -> Monophone:
    growth = Monophone().growth if start == "equal" else LABELLED
    return Monophone(
        start="equal" if start == "equal" else "known", growth=replace(growth, num_gaussians=num_gaussians)
    )
