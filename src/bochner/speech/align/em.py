"""Viterbi training: align, re-estimate, grow; the loop that every stage runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bochner.speech.align.corpus import Corpus
from bochner.speech.align.forced import Graphs
from bochner.speech.align.settings import Growth
from bochner.speech.align.stage import Stage
from bochner.speech.align.views import blocks
from bochner.speech.hmm.estimate import MixtureStatistics, accumulate, split, update
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.transitions import count_transitions, update_transitions

Array = NDArray[Any]
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
