"""The settings of GMM training, stage by stage, and how they follow from the size of a corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from bochner.checks import nonnegative_int, one_of, positive_int
from bochner.speech.align.forced import Search

MAX_LEAVES, MAX_GAUSSIANS, MAX_MONOPHONE_GAUSSIANS = 2000, 10_000, 1000  # Kaldi's, for hours of speech
LEAVES_PER_ROOT = 1.6  # leaves / sqrt(frames of train)
FRAMES_PER_GAUSSIAN = 60  # the same in every stage, so that later stages do not gain by size alone
MIN_LEAF_FRAMES = 20.0
CONTEXT_WIDTHS = (1, 3, 5)  # phones that the states of a phone depend on: itself, triphones, quinphones


@dataclass(frozen=True, kw_only=True)
class Growth:
    """`iterations` of EM, during which the mixtures grow linearly to `num_gaussians` by iteration `grow_until`.

    Utterances are realigned before the iterations in `realign`, and once at the end. In the first `shared_variance`
    iterations nothing grows and all Gaussians share one variance; otherwise a flat start on little data tends to end
    with one phone that absorbs its neighbours.
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
    """Context-independent states, on frames with `deltas` orders of deltas.

    `start` is "equal" (flat start: every state lasts equally long) or "known" (from the times of the phones).
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
    """States tied by a tree with at most `num_leaves` leaves of at least `min_count` frames.

    The tree asks about the phones in a window of `context_width`: 3 is a phone with its neighbours (triphones), 5 has
    two on each side (quinphones). 1 keeps the context-independent states of the monophones, whatever `num_leaves`.
    A split must raise the cross-validated likelihood over `num_groups` groups of speakers, where the frames of each
    group are scored by Gaussians of the others; one group means the training likelihood, as in Kaldi.
    With `shared_roots`, phones whose names differ only in digits at the end (stress, tones) share a root of the tree,
    so that they are separate states only where that helps.
    """

    num_leaves: int = 2000
    min_count: float = 100.0
    num_groups: int = 6
    context_width: int = 3
    shared_roots: bool = False
    growth: Growth = Growth(num_gaussians=10000)

    def __post_init__(self) -> None:
        positive_int("num_groups", self.num_groups)
        one_of("context_width", self.context_width, CONTEXT_WIDTHS)


@dataclass(frozen=True, kw_only=True)
class LdaMllt(Tied):
    """`context` frames on each side projected to `dim` by LDA; MLLT is estimated in the iterations `adjust`."""

    context: int = 4
    dim: int = 40
    adjust: tuple[int, ...] = (2, 4, 6, 12)


@dataclass(frozen=True, kw_only=True)
class Sat(Tied):
    """Speaker adaptive training; fMLLR transforms are estimated in the iterations `adjust`."""

    adjust: tuple[int, ...] = (2, 4, 6, 12)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of all stages. `silence` names context-independent phones besides the lexicon's silence.

    Frame t covers offset + frame_shift [t, t + 1) seconds, which matters for a start from known times.
    """

    monophone: Monophone = Monophone()
    triphone: Tied = Tied()
    lda_mllt: LdaMllt = LdaMllt()
    sat: Sat = Sat()
    search: Search = field(default_factory=Search)
    silence: tuple[str, ...] = ()
    frame_shift: float = 0.01
    offset: float = 0.0075
    seed: int = 0

    def __post_init__(self) -> None:
        nonnegative_int("seed", self.seed)


TIED = Growth(num_gaussians=1, iterations=15, grow_until=10, realign=(5, 10))
TIMED = Growth(num_gaussians=1, iterations=10, grow_until=8, realign=())  # frames keep their reference phones


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
    context_width: int = 3,
    shared_roots: bool = False,
) -> Recipe:
    """The settings for `num_frames` frames of train: Kaldi's for hours of speech, smaller models for minutes.

    The number of leaves grows with the square root of the number of frames, since more speech has more contexts and
    more examples of each; it is smaller where splits do not help held-out speakers. `start` is "equal" (flat start),
    "known" (monophones start from reference times, later stages realign) or "kept" (no stage realigns).

    >>> recipe = recipe_for(30_000, num_phones=48, start="equal", num_leaves=None, num_gaussians=None, silence=("SIL",),
    ...                     shift=0.01, offset=0.0075, seed=0)
    >>> recipe.monophone.growth.num_gaussians, recipe.triphone.num_leaves, recipe.triphone.growth.num_gaussians
    (500, 277, 500)
    >>> few = recipe_for(3_000, num_phones=48, start="equal", num_leaves=None, num_gaussians=None, silence=("SIL",),
    ...                  shift=0.01, offset=0.0075, seed=0)
    >>> few.triphone.num_leaves, few.monophone.growth.num_gaussians  # three states for each phone
    (144, 144)
    >>> recipe.triphone.growth.realign
    (5, 10)
    """
    states = 3 * num_phones
    leaves = num_leaves or max(states, min(round(LEAVES_PER_ROOT * math.sqrt(num_frames)), MAX_LEAVES))
    gaussians = num_gaussians or max(leaves, min(num_frames // FRAMES_PER_GAUSSIAN, MAX_GAUSSIANS))
    monophone_gaussians = max(states, min(num_frames // FRAMES_PER_GAUSSIAN, MAX_MONOPHONE_GAUSSIANS))
    growth = replace(TIED, num_gaussians=gaussians, realign=() if start == "kept" else TIED.realign)
    tied: dict[str, Any] = {"num_leaves": leaves, "min_count": MIN_LEAF_FRAMES, "growth": growth}
    tied |= {"context_width": context_width, "shared_roots": shared_roots}
    first = Monophone().growth if start == "equal" else TIMED
    return Recipe(
        monophone=Monophone(
            start="equal" if start == "equal" else "known", growth=replace(first, num_gaussians=monophone_gaussians)
        ),
        triphone=Tied(**tied),
        lda_mllt=LdaMllt(**tied),
        sat=Sat(**tied),
        silence=silence,
        frame_shift=shift,
        offset=offset,
        seed=seed,
    )
