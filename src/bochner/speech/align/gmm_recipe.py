"""The settings of GMM training, stage by stage, and how they follow from the size of a corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bochner.checks import nonnegative_int, one_of, positive_int
from bochner.speech.align.forced import Search


@dataclass(frozen=True, kw_only=True)
class Growth:
    """`iterations` of EM, which grow the mixtures evenly to `num_gaussians` by iteration `grow_until`.

    Utterances are aligned anew before the iterations in `realign`, and once more at the end. In the first
    `shared_variance` iterations nothing grows and all Gaussians have one variance in common: a flat start on little
    data else ends with one phone that swallows its neighbours.
    """

    num_gaussians: int
    iterations: int = 35
    grow_until: int = 25
    realign: tuple[int, ...] = (10, 20, 30)
    shared_variance: int = 0

    def __post_init__(self) -> None:
        nonnegative_int("shared_variance", self.shared_variance)
        for name in ("num_gaussians", "iterations", "grow_until"):
            positive_int(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Monophone:
    """States of phones whatever their neighbours, on frames with `deltas` orders of deltas.

    `start` is "equal", where nothing is known and every state lasts equally long, or "known", where utterances carry
    the times of their phones.
    """

    start: str = "equal"
    num_states: int = 3
    num_silence_states: int = 3
    deltas: int = 2
    growth: Growth = Growth(
        num_gaussians=1000,
        iterations=40,
        grow_until=30,
        realign=(*range(2, 11), *range(12, 21, 2), *range(23, 39, 3)),
        shared_variance=10,
    )

    def __post_init__(self) -> None:
        one_of("start", self.start, ("equal", "known"))


@dataclass(frozen=True, kw_only=True)
class Tied:
    """States tied by a tree with at most `num_leaves`, each of at least `min_count` frames.

    A split must make the frames of each of `num_groups` groups of speakers likelier under Gaussians of the others; with
    one group, as in Kaldi, those of training count for themselves.
    """

    num_leaves: int = 2000
    min_count: float = 100.0
    num_groups: int = 6
    growth: Growth = Growth(num_gaussians=10000)

    def __post_init__(self) -> None:
        positive_int("num_groups", self.num_groups)


@dataclass(frozen=True, kw_only=True)
class LdaMllt(Tied):
    """`context` frames on each side projected to `dim`, turned by MLLT in the iterations `adjust`."""

    context: int = 4
    dim: int = 40
    adjust: tuple[int, ...] = (2, 4, 6, 12)


@dataclass(frozen=True, kw_only=True)
class Sat(Tied):
    """Speakers' fMLLR transforms, learned anew in the iterations `adjust`."""

    adjust: tuple[int, ...] = (2, 4, 6, 12)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of all stages. `silence` names phones without a neighbourhood, beside the lexicon's own.

    Frame t stands for offset + frame_shift [t, t + 1) seconds, which matters where phones start from known times.
    """

    monophone: Monophone = Monophone()
    triphone: Tied = Tied()
    lda_mllt: LdaMllt = LdaMllt()
    sat: Sat = Sat()
    search: Search = field(default_factory=Search)
    silence: tuple[str, ...] = ()
    silence_probability: float = 0.5
    frame_shift: float = 0.01
    offset: float = 0.0075
    seed: int = 0

    def __post_init__(self) -> None:
        nonnegative_int("seed", self.seed)


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
