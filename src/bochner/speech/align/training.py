"""A speaker-adapted stage for speakers that were not in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bochner.checks import nonnegative_int, one_of, positive_int
from bochner.speech.align.corpus import Corpus
from bochner.speech.align.forced import Graphs, Search
from bochner.speech.align.stage import Stage, ViewedFrames, blocks
from bochner.speech.frontend.transforms import AffineStatistics, SemiTiedStatistics, fmllr, mllt
from bochner.speech.hmm.contexts import (
    GROUP,
    EventStatistics,
    collect_events,
    count_transitions,
    event_pdfs,
    frame_events,
    update_transitions,
)
from bochner.speech.hmm.mixtures import Mixtures, MixtureStatistics, accumulate, best_gaussians, split, update
from bochner.speech.hmm.model import Hmm, make_hmm
from bochner.speech.hmm.tree import cluster_phones, context_dependency, grow_tree


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


Paths = Mapping[str, Array]
Events = Mapping[str, Array]
MIN_VARIANCE = 1e-3


def path_events(hmm: Hmm, paths: Paths) -> dict[str, Array]:
    """The events [T, 4] of each path [T] of transition ids of `hmm`."""
    return {name: frame_events(hmm, path) for name, path in paths.items()}


def labels_of(hmm: Hmm, events: Events) -> dict[str, Array]:
    """The pdf of each frame by the tree of `hmm`."""
    return {name: event_pdfs(hmm, rows) for name, rows in events.items()}


def statistics_of(events: Events, frames: ViewedFrames, *, num_groups: int = 1) -> EventStatistics:
    """Sums by event, and by group of speakers where there is more than one."""
    if num_groups == 1:
        return collect_events((frames[name], rows) for name, rows in events.items())
    groups = speaker_groups({name: frames.speaker_of.get(name, name) for name in events}, num_groups=num_groups)
    return collect_events((frames[name], np.insert(rows, GROUP, groups[name], axis=1)) for name, rows in events.items())


def speaker_groups(speaker_of: Mapping[str, str], *, num_groups: int) -> dict[str, int]:
    """The group of each utterance, all of a speaker in one; of a single speaker, utterances are dealt out instead.

    >>> speaker_groups({"a1": "ann", "a2": "ann", "b1": "bob", "c1": "cy"}, num_groups=2)
    {'a1': 0, 'a2': 0, 'b1': 1, 'c1': 0}
    """
    if len(set(speaker_of.values())) == 1:
        speaker_of = {name: name for name in speaker_of}
    place = {speaker: number for number, speaker in enumerate(sorted(set(speaker_of.values())))}
    return {name: place[speaker] % num_groups for name, speaker in speaker_of.items()}


def tie_states(hmm: Hmm, statistics: EventStatistics, *, num_leaves: int, min_count: float) -> Hmm:
    """The same phones with states tied by a tree grown over the statistics; each spoken phone has its own root."""
    silence = [hmm.phone_ids[name] for name in hmm.silence]
    tree = grow_tree(
        statistics,
        cluster_phones(statistics),
        roots=[[number] for number in hmm.phone_ids.values() if number not in silence],
        untied=silence,
        states_of={number: int(hmm.states_of[number]) for number in hmm.phone_ids.values()},
        num_leaves=num_leaves,
        min_count=min_count,
    )
    return make_hmm(phones=hmm.phones, silence=hmm.silence, topology=hmm.topology, tree=context_dependency(tree))


def single_gaussians(hmm: Hmm, statistics: EventStatistics, *, min_count: float = 10.0) -> Mixtures:
    """One Gaussian for each pdf, fitted to its frames; pdfs with fewer than `min_count` get that of all frames."""
    sums = np.zeros((hmm.num_pdfs, statistics.sums.shape[1]))
    np.add.at(sums, event_pdfs(hmm, statistics.events[:, :GROUP]), statistics.sums)
    sums[sums[:, 0] < min_count] = statistics.sums.sum(axis=0)
    first, second = np.split(sums[:, 1:] / sums[:, :1], 2, axis=1)
    variances = np.maximum(second - first**2, MIN_VARIANCE)
    return Mixtures(np.ones(len(sums), dtype=np.int64), np.ones(len(sums)), first, variances)


Labels = Mapping[str, Array]


Adjust = Callable[[Stage, Labels, int], Stage]  # a transform learned anew in some iterations


def train_stage(
    stage: Stage,
    labels: Labels,
    corpus: Corpus,
    growth: Growth,
    *,
    seed: int,
    adjust: Adjust | None = None,
    name: str = "train",
) -> Stage:
    """EM from `stage` with the pdf of each frame given by `labels` until the first realignment."""
    start, generator = stage.mixtures.num_gaussians, np.random.default_rng(seed)
    graphs: Graphs = {}
    bar = tqdm(range(1, growth.iterations + 1), desc=name, unit="iteration", disable=not corpus.progress)
    for iteration in bar:
        if iteration in growth.realign:
            stage = realigned(stage, corpus, graphs)
            labels = stage.labels
        if adjust is not None:
            stage = adjust(stage, labels, iteration)
        statistics = accumulate_labels(stage, labels, corpus)
        stage = _reestimated(stage, statistics, shared_variance=iteration <= growth.shared_variance)
        if growth.shared_variance < iteration <= growth.grow_until:
            share = (iteration - growth.shared_variance) / (growth.grow_until - growth.shared_variance)
            target = start + round((growth.num_gaussians - start) * share)
            stage = dataclasses.replace(stage, mixtures=_grown(stage.mixtures, labels, target, generator))
        bar.set_postfix(log_likelihood=f"{stage.history[-1]:.3f}", gaussians=stage.mixtures.num_gaussians)
    return realigned(stage, corpus, graphs)


def realigned(stage: Stage, corpus: Corpus, graphs: Graphs) -> Stage:
    """The stage with a new alignment and the transition probabilities that it gives."""
    alignments = corpus.align(stage, graphs=graphs)
    counts = sum(count_transitions(stage.hmm, path) for path in alignments.paths.values())
    hmm = update_transitions(stage.hmm, np.asarray(counts))
    return dataclasses.replace(stage, hmm=hmm, alignments=alignments)


def accumulate_labels(stage: Stage, labels: Labels, corpus: Corpus) -> MixtureStatistics:
    total = MixtureStatistics.zeros(num_gaussians=stage.mixtures.num_gaussians, dim=stage.mixtures.dim)
    for X, y in blocks(corpus.seen(stage), labels):
        total += accumulate(stage.mixtures, X, y)
    return total


def _reestimated(stage: Stage, statistics: MixtureStatistics, *, shared_variance: bool) -> Stage:
    per_frame = statistics.log_likelihood / statistics.num_frames
    mixtures = update(stage.mixtures, statistics, shared_variance=shared_variance)
    return dataclasses.replace(stage, mixtures=mixtures, history=(*stage.history, per_frame))


def _grown(mixtures: Mixtures, labels: Labels, target: int, generator: np.random.Generator) -> Mixtures:
    counts = sum(np.bincount(pdfs, minlength=mixtures.num_pdfs) for pdfs in labels.values())
    return split(mixtures, counts=np.asarray(counts), num_gaussians=target, generator=generator)


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
