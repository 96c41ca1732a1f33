"""EM training of one stage: statistics of aligned frames, growing mixtures, realignment, MLLT and fMLLR."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bochner.speech.align.forced import Alignments, Graphs, MixtureScores, Search, align_equally, align_utterances
from bochner.speech.align.gmm_hmm import GmmHmm, View, ViewedFrames, blocks
from bochner.speech.align.gmm_recipe import Growth
from bochner.speech.frontend.transforms import AffineStatistics, SemiTiedStatistics, fmllr, mllt
from bochner.speech.hmm.contexts import (
    GROUP,
    EventStatistics,
    collect_events,
    count_transitions,
    event_pdfs,
    frame_events,
    segment_events,
    update_transitions,
)
from bochner.speech.hmm.mixtures import Mixtures, MixtureStatistics, accumulate, best_gaussians, split, update
from bochner.speech.hmm.model import Hmm, make_hmm
from bochner.speech.hmm.tree import cluster_phones, context_dependency, grow_tree
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance

Array = NDArray[Any]


KEPT_BYTES = 2**30


class _Kept:
    """Frames that one view made."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.frames: dict[str, Array] = {}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Utterances, their frames (normalised already), the words' pronunciations, and how to align them."""

    lexicon: Lexicon
    utterances: Sequence[Utterance]
    frames: Mapping[str, Array]
    search: Search
    silence_probability: float = 0.5
    frame_shift: float = 0.01
    offset: float = 0.0075
    pool: Executor | None = None
    progress: bool = False
    _kept: _Kept = field(default_factory=lambda: _Kept())

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {said.id: said.speaker for said in self.utterances}

    def seen(self, stage: GmmHmm) -> ViewedFrames:
        """The frames as a stage sees them; what deltas or splicing made is kept in memory while it is small."""
        if self._kept.view is not stage.view:
            self._kept.view, self._kept.frames = stage.view, {}
        small = self.pool is None and self._num_frames * stage.mixtures.dim * 4 <= KEPT_BYTES
        return ViewedFrames(
            self.frames, stage.view, self.speaker_of, stage.transforms, self._kept.frames if small else None
        )

    @cached_property
    def _num_frames(self) -> int:
        return sum(len(self.frames[said.id]) for said in self.utterances if said.id in self.frames)

    def align(self, stage: GmmHmm, *, graphs: Graphs | None = None) -> Alignments:
        """With the mixtures of a stage."""
        return _checked(
            align_utterances(
                stage.hmm,
                self.lexicon,
                self.utterances,
                MixtureScores(stage.mixtures, self.seen(stage)),
                search=self.search,
                silence_probability=self.silence_probability,
                pool=self.pool,
                graphs=graphs,
                progress=self.progress,
            )
        )

    def align_equally(self, hmm: Hmm, *, seed: int) -> Alignments:
        """Without any: every state lasts equally long."""
        return _checked(
            align_equally(
                hmm,
                self.lexicon,
                self.utterances,
                self.frames,
                seed=seed,
                silence_probability=self.silence_probability,
            )
        )

    def known_events(self, hmm: Hmm) -> dict[str, Array]:
        """The events [T, 4] of the utterances whose phones have times."""
        timed = [said for said in self.utterances if said.phones and said.id in self.frames]
        if not timed:
            raise ValueError("the utterances' phones have no times to start from; start from an equal alignment.")
        times = {"frame_shift": self.frame_shift, "offset": self.offset}
        return {said.id: segment_events(hmm, said.phones, len(self.frames[said.id]), **times) for said in timed}


def _checked(alignments: Alignments) -> Alignments:
    if not alignments.paths:
        reasons = sorted({one.reason for one in alignments.skipped})[:3]
        raise ValueError(f"no utterance of {len(alignments.skipped)} could be aligned: {'; '.join(reasons)}.")
    return alignments


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


Adjust = Callable[[GmmHmm, Labels, int], GmmHmm]  # a transform learned anew in some iterations


def train_stage(
    stage: GmmHmm,
    labels: Labels,
    corpus: Corpus,
    growth: Growth,
    *,
    seed: int,
    adjust: Adjust | None = None,
    name: str = "train",
) -> GmmHmm:
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


def realigned(stage: GmmHmm, corpus: Corpus, graphs: Graphs) -> GmmHmm:
    """The stage with a new alignment and the transition probabilities that it gives."""
    alignments = corpus.align(stage, graphs=graphs)
    counts = sum(count_transitions(stage.hmm, path) for path in alignments.paths.values())
    hmm = update_transitions(stage.hmm, np.asarray(counts))
    return dataclasses.replace(stage, hmm=hmm, alignments=alignments)


def accumulate_labels(stage: GmmHmm, labels: Labels, corpus: Corpus) -> MixtureStatistics:
    total = MixtureStatistics.zeros(num_gaussians=stage.mixtures.num_gaussians, dim=stage.mixtures.dim)
    for X, y in blocks(corpus.seen(stage), labels):
        total += accumulate(stage.mixtures, X, y)
    return total


def _reestimated(stage: GmmHmm, statistics: MixtureStatistics, *, shared_variance: bool) -> GmmHmm:
    per_frame = statistics.log_likelihood / statistics.num_frames
    mixtures = update(stage.mixtures, statistics, shared_variance=shared_variance)
    return dataclasses.replace(stage, mixtures=mixtures, history=(*stage.history, per_frame))


def _grown(mixtures: Mixtures, labels: Labels, target: int, generator: np.random.Generator) -> Mixtures:
    counts = sum(np.bincount(pdfs, minlength=mixtures.num_pdfs) for pdfs in labels.values())
    return split(mixtures, counts=np.asarray(counts), num_gaussians=target, generator=generator)


def adapt_stage(
    stage: GmmHmm,
    frames: Mapping[str, Array],
    speaker_of: Mapping[str, str],
    *,
    paths: Paths,
    hmm: Hmm,
    rounds: int = 2,
) -> GmmHmm:
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


def estimate_transforms(stage: GmmHmm, labels: Labels, seen: ViewedFrames) -> dict[str, Array]:
    """The transforms of all speakers, beginning from those that the stage has; silence does not count."""
    return estimate_fmllr(stage.mixtures, seen, labels, ignored=stage.silence_pdfs)
