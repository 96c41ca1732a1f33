"""EM training of one stage: statistics of aligned frames, growing mixtures, realignment, MLLT and fMLLR."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from tqdm import tqdm

from bochner.speech.align.forced import Alignments, Graphs, MixtureScores, Search, align_equally, align_utterances
from bochner.speech.align.gmm_hmm import GmmHmm, View, ViewedFrames, blocks
from bochner.speech.align.gmm_recipe import Growth
from bochner.speech.frames import Array
from bochner.speech.frontend.transforms import AffineStatistics, SemiTiedStatistics, fmllr, mllt
from bochner.speech.hmm.contexts import (
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

CACHE_BYTES = 2**30  # frames of one view are kept in memory up to this size
MIN_VARIANCE = 1e-3  # of frames normalised to unit variance
MIN_PDF_FRAMES = 10.0  # a pdf with fewer frames starts from the Gaussian of all frames
ADAPTATION_ROUNDS = 2  # a second estimate chooses Gaussians by adapted frames; further ones change little
Labels = Mapping[str, Array]  # utterance id -> the pdf of each frame [T]
Paths = Mapping[str, Array]  # utterance id -> the transition id of each frame [T]
Events = Mapping[str, Array]  # utterance id -> [T, 4 or 6], see `frame_events`
Adjust = Callable[[GmmHmm, Labels, int], GmmHmm]  # re-estimates a transform in some iterations


class _ViewCache:
    """Frames computed by the view of one GMM."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.frames: dict[str, Array] = {}


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Utterances with normalised frames and pronunciations, and how they are aligned."""

    lexicon: Lexicon
    utterances: Sequence[Utterance]
    frames: Mapping[str, Array]
    search: Search
    frame_shift: float = 0.01
    offset: float = 0.0075
    pool: Executor | None = None
    verbose: bool = False
    _cache: _ViewCache = field(default_factory=_ViewCache)

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {utterance.id: utterance.speaker for utterance in self.utterances}

    def viewed(self, model: GmmHmm) -> ViewedFrames:
        """The frames as inputs of `model`; small sets keep the result of deltas or splicing in memory."""
        if self._cache.view is not model.view:
            self._cache.view, self._cache.frames = model.view, {}
        small = self.pool is None and self._num_frames * model.mixtures.dim * 4 <= CACHE_BYTES
        cache = self._cache.frames if small else None
        return ViewedFrames(self.frames, model.view, self.speaker_of, model.transforms, cache)

    @cached_property
    def _num_frames(self) -> int:
        return sum(len(self.frames[name]) for name in self.speaker_of if name in self.frames)

    def align(self, model: GmmHmm, *, graphs: Graphs | None = None) -> Alignments:
        """Forced alignment with the mixtures of `model`."""
        scores = MixtureScores(model.mixtures, self.viewed(model))
        return _checked(
            align_utterances(
                model.hmm, self.lexicon, self.utterances, scores, search=self.search, pool=self.pool, graphs=graphs,
                verbose=self.verbose,
            )
        )  # fmt: skip

    def align_equally(self, hmm: Hmm, *, seed: int) -> Alignments:
        """The flat start: every state lasts equally long."""
        return _checked(align_equally(hmm, self.lexicon, self.utterances, self.frames, seed=seed))

    def timed_events(self, hmm: Hmm) -> dict[str, Array]:
        """The events [T, 4] of the utterances whose phones have times."""
        timed = [utterance for utterance in self.utterances if utterance.phones and utterance.id in self.frames]
        if not timed:
            raise ValueError("the utterances' phones have no times to start from; start from an equal alignment.")
        times = {"frame_shift": self.frame_shift, "offset": self.offset}
        return {
            utterance.id: segment_events(hmm, utterance.phones, len(self.frames[utterance.id]), **times)
            for utterance in timed
        }


def _checked(alignments: Alignments) -> Alignments:
    if not alignments.paths:
        reasons = sorted({entry.reason for entry in alignments.skipped})[:3]
        raise ValueError(f"no utterance of {len(alignments.skipped)} could be aligned: {'; '.join(reasons)}.")
    return alignments


def estimate_mllt(
    mixtures: Mixtures,
    frames: Mapping[str, Array],
    pdfs: Labels,
    *,
    ignored: Collection[int] = (),
    max_frames: int = 100_000,
) -> Array:
    """A [d, d] such that diagonal Gaussians fit A x better, from about `max_frames` evenly spaced frames.

    Frames of the pdfs in `ignored` (silence) are left out.
    """
    statistics = SemiTiedStatistics(mixtures.dim)
    step = max(1, -(-sum(map(len, pdfs.values())) // max_frames))
    for X, y in blocks(frames, pdfs):
        _add(statistics, mixtures, X[::step], y[::step], ignored)
    return mllt(statistics).matrix


def estimate_fmllr(
    mixtures: Mixtures,
    frames: ViewedFrames,
    pdfs: Labels,
    *,
    ignored: Collection[int] = (),
    min_count: float = 500.0,
) -> dict[str, Array]:
    """For each speaker [A, b] [d, d + 1] such that A x + b fits the mixtures, where x are unadapted frames.

    A speaker with fewer than `min_count` frames of speech keeps the transform in `frames` (initially the identity).
    Gaussians are chosen by the frames as currently adapted, so a second estimate improves on the first.
    """
    by_speaker: dict[str, dict[str, Array]] = {}
    for name, labels in pdfs.items():
        by_speaker.setdefault(frames.speaker_of[name], {})[name] = labels
    transforms = {}
    for speaker, labels_of_speaker in by_speaker.items():
        statistics = AffineStatistics(mixtures.dim)
        for X, y in blocks(frames, labels_of_speaker):
            _add(statistics, mixtures, X, y, ignored)
        matrix = fmllr(statistics, min_count=min_count).matrix
        transforms[speaker] = _composed(matrix, frames.transforms.get(speaker))
    return transforms


def with_transformed_means(mixtures: Mixtures, matrix: Array) -> Mixtures:
    """The mixtures after frames x became A x: means A m; the variances follow with the next update."""
    return Mixtures(mixtures.sizes, mixtures.weights, mixtures.means @ matrix.T, mixtures.variances)


def _composed(after: Array, before: Array | None) -> Array:
    """`before`, then `after`, both [A, b]."""
    if before is None:
        return after
    product: Array = after[:, :-1] @ before
    product[:, -1] += after[:, -1]
    return product


def _add(
    statistics: SemiTiedStatistics | AffineStatistics, mixtures: Mixtures, X: Array, y: Array, ignored: Collection[int]
) -> None:
    speech = ~np.isin(y, list(ignored))
    if speech.any():
        X, best = X[speech], best_gaussians(mixtures, X[speech], y[speech])
        statistics.add(X, mixtures.means[best], mixtures.variances[best])


def path_events(hmm: Hmm, paths: Paths, *, context_width: int = 3) -> dict[str, Array]:
    """The events [T, 4], or [T, 6] of quinphones, of each path [T] of transition ids of `hmm`."""
    return {name: frame_events(hmm, path, context_width=context_width) for name, path in paths.items()}


def labels_of(hmm: Hmm, events: Events) -> dict[str, Array]:
    """The pdf of each frame by the tree of `hmm`."""
    return {name: event_pdfs(hmm, rows) for name, rows in events.items()}


def statistics_of(events: Events, frames: ViewedFrames, *, num_groups: int = 1) -> EventStatistics:
    """Sums by event, and by group of speakers if there are several."""
    if num_groups == 1:
        return collect_events((frames[name], rows) for name, rows in events.items())
    groups = speaker_groups({name: frames.speaker_of.get(name, name) for name in events}, num_groups=num_groups)
    return collect_events(
        (frames[name], np.insert(rows, rows.shape[1], groups[name], axis=1)) for name, rows in events.items()
    )


def speaker_groups(speaker_of: Mapping[str, str], *, num_groups: int) -> dict[str, int]:
    """The group of each utterance, one group per speaker; with a single speaker, utterances are grouped instead.

    >>> speaker_groups({"a1": "ann", "a2": "ann", "b1": "bob", "c1": "cy"}, num_groups=2)
    {'a1': 0, 'a2': 0, 'b1': 1, 'c1': 0}
    """
    if len(set(speaker_of.values())) == 1:
        speaker_of = {name: name for name in speaker_of}
    place = {speaker: number for number, speaker in enumerate(sorted(set(speaker_of.values())))}
    return {name: place[speaker] % num_groups for name, speaker in speaker_of.items()}


def phone_roots(phones: Mapping[str, int], *, shared: bool) -> list[list[int]]:
    """The phones of each root of a tree, by id: one for each phone, or one for all that differ in final digits only.

    >>> phone_roots({"aa1": 1, "aa2": 2, "ng": 3}, shared=True)
    [[1, 2], [3]]
    """
    roots: dict[str, list[int]] = {}
    for name, number in phones.items():
        roots.setdefault(name.rstrip("0123456789") or name if shared else name, []).append(number)
    return list(roots.values())


def tie_states(
    hmm: Hmm, statistics: EventStatistics, *, num_leaves: int, min_count: float, shared_roots: bool = False
) -> Hmm:
    """The same phones with states tied by a tree grown over the statistics, with the roots of `phone_roots`.

    Silence is not tied.
    """
    silence = [hmm.phone_ids[name] for name in hmm.silence]
    phones = {name: number for name, number in hmm.phone_ids.items() if number not in silence}
    tree = grow_tree(
        statistics,
        cluster_phones(statistics),
        roots=phone_roots(phones, shared=shared_roots),
        untied=silence,
        states_of={number: int(hmm.states_of[number]) for number in hmm.phone_ids.values()},
        num_leaves=num_leaves,
        min_count=min_count,
    )
    return make_hmm(phones=hmm.phones, silence=hmm.silence, topology=hmm.topology, tree=context_dependency(tree))


def single_gaussians(hmm: Hmm, statistics: EventStatistics) -> Mixtures:
    """One Gaussian for each pdf, fitted to its frames."""
    sums = np.zeros((hmm.num_pdfs, statistics.sums.shape[1]))
    np.add.at(sums, event_pdfs(hmm, statistics.events), statistics.sums)
    sums[sums[:, 0] < MIN_PDF_FRAMES] = statistics.sums.sum(axis=0)
    first, second = np.split(sums[:, 1:] / sums[:, :1], 2, axis=1)
    variances = np.maximum(second - first**2, MIN_VARIANCE)
    return Mixtures(np.ones(len(sums), dtype=np.int64), np.ones(len(sums)), first, variances)


def train_stage(
    model: GmmHmm,
    labels: Labels,
    training_set: TrainingSet,
    growth: Growth,
    *,
    seed: int,
    name: str,
    adjust: Adjust | None = None,
) -> GmmHmm:
    """EM from `model`; `labels` gives the pdf of each frame until the first realignment."""
    start, generator = model.mixtures.num_gaussians, np.random.default_rng(seed)
    graphs = Graphs()
    bar = tqdm(range(1, growth.iterations + 1), desc=name, unit="iteration", disable=not training_set.verbose)
    for iteration in bar:
        if iteration in growth.realign:
            model = realign(model, training_set, graphs)
            labels = model.labels
        if adjust is not None:
            model = adjust(model, labels, iteration)
        model = _em_step(model, labels, training_set, shared_variance=iteration <= growth.shared_variance)
        if growth.shared_variance < iteration <= growth.grow_until:
            share = (iteration - growth.shared_variance) / (growth.grow_until - growth.shared_variance)
            target = start + round((growth.num_gaussians - start) * share)
            counts = sum(np.bincount(pdfs, minlength=model.mixtures.num_pdfs) for pdfs in labels.values())
            grown = split(model.mixtures, counts=np.asarray(counts), num_gaussians=target, generator=generator)
            model = dataclasses.replace(model, mixtures=grown)
        bar.set_postfix(log_likelihood=f"{model.history[-1]:.3f}", gaussians=model.mixtures.num_gaussians)
    return realign(model, training_set, graphs)


def realign(model: GmmHmm, training_set: TrainingSet, graphs: Graphs) -> GmmHmm:
    """The model with a new alignment, and transition probabilities estimated from it."""
    alignments = training_set.align(model, graphs=graphs)
    counts = sum(count_transitions(model.hmm, path) for path in alignments.paths.values())
    hmm = update_transitions(model.hmm, np.asarray(counts))
    return dataclasses.replace(model, hmm=hmm, alignments=alignments)


def _em_step(model: GmmHmm, labels: Labels, training_set: TrainingSet, *, shared_variance: bool) -> GmmHmm:
    statistics = MixtureStatistics.zeros(num_gaussians=model.mixtures.num_gaussians, dim=model.mixtures.dim)
    for X, y in blocks(training_set.viewed(model), labels):
        statistics += accumulate(model.mixtures, X, y)
    mixtures = update(model.mixtures, statistics, shared_variance=shared_variance)
    log_likelihood = statistics.log_likelihood / statistics.num_frames
    return dataclasses.replace(model, mixtures=mixtures, history=(*model.history, log_likelihood))


def adapt_to_speakers(
    model: GmmHmm, frames: Mapping[str, Array], speaker_of: Mapping[str, str], *, paths: Paths, hmm: Hmm
) -> GmmHmm:
    """The model with fMLLR transforms of the speakers in `speaker_of` in place of those of its training speakers.

    `paths` are transition ids of `hmm`, from forced alignment or decoding with the stage before, which needs no
    adaptation.
    """
    labels = labels_of(model.hmm, path_events(hmm, paths, context_width=model.hmm.context_width))
    model = dataclasses.replace(model, transforms={})
    for _ in range(ADAPTATION_ROUNDS):
        viewed = model.viewed(frames, speaker_of)
        model = dataclasses.replace(model, transforms=estimate_transforms(model, labels, viewed))
    return model


def estimate_transforms(model: GmmHmm, labels: Labels, viewed: ViewedFrames) -> dict[str, Array]:
    """The fMLLR transforms of all speakers, starting from those in `viewed`; silence is left out."""
    return estimate_fmllr(model.mixtures, viewed, labels, ignored=model.silence_pdfs)
