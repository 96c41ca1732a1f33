"""GMM training from top to bottom: monophone, triphone, LDA + MLLT, SAT."""

from __future__ import annotations

import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bochner.checks import one_of, positive_int
from bochner.speech.align.em import (
    Labels,
    TrainingSet,
    estimate_mllt,
    estimate_transforms,
    labels_of,
    path_events,
    single_gaussians,
    statistics_of,
    tie_states,
    train_stage,
    with_transformed_means,
)
from bochner.speech.align.gmm_hmm import RECORD, GmmHmm, View, ViewedFrames, blocks, read_description
from bochner.speech.align.gmm_recipe import Recipe, Tied
from bochner.speech.frames import Array, FrameStore
from bochner.speech.frontend.transforms import ClassMoments, lda
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.runtime import process_pool
from bochner.speech.text_files import FilePath
from bochner.stages import check_inputs

logger = logging.getLogger(__name__)
STAGES = ("monophone", "triphone", "lda_mllt", "sat")
CPU_SECONDS = 2e-4  # of all alignments, for each frame


def train_gmm(
    directory: FilePath,
    lexicon: Lexicon,
    utterances: Sequence[Utterance],
    frames: Mapping[str, Array],
    *,
    recipe: Recipe | None = None,
    until: str = "sat",
    workers: int = 1,
    verbose: bool = False,
) -> GmmHmm:
    """Train stage by stage up to `until`, each saved in a directory of its name; returns the last.

    `frames` maps utterance ids to arrays [T, d], normalised by speaker; `lexicon` holds every word's pronunciations. A
    stage that was trained before is loaded; one trained with other settings is an error. With `workers` above 1, that
    many processes align; `frames` must then be a FrameStore, which they open themselves, and a script needs the guard
    `if __name__ == "__main__"`.

    Source: the order and the numbers of Kaldi's train_mono, train_deltas, train_lda_mllt and train_sat.
    """
    one_of("until", until, STAGES)
    if positive_int("workers", workers) > 1 and not isinstance(frames, FrameStore):
        raise ValueError(f"frames must be a FrameStore for workers {workers}, got {type(frames).__name__}.")
    recipe, model = recipe or Recipe(), None
    num_frames = sum(len(frames[utterance.id]) for utterance in utterances if utterance.id in frames)
    with process_pool(workers, seconds=CPU_SECONDS * num_frames) as pool:
        times = (recipe.frame_shift, recipe.offset)
        training_set = TrainingSet(lexicon, utterances, frames, recipe.search, *times, pool, verbose)
        for name in STAGES[: STAGES.index(until) + 1]:
            start = time.perf_counter()
            model = _load_or_train(Path(directory) / name, model, training_set, recipe)
            logger.info(
                "%s: %s states, %s Gaussians, log likelihood per frame %.2f, %.1f s", name, f"{model.hmm.num_pdfs:,}",
                f"{model.mixtures.num_gaussians:,}", model.history[-1], time.perf_counter() - start,
            )  # fmt: skip
    assert model is not None
    return model


def train_monophone(training_set: TrainingSet, recipe: Recipe) -> GmmHmm:
    """Context-independent states: a flat or timed start, then EM with frequent realignment."""
    settings, lexicon = recipe.monophone, training_set.lexicon
    silence = {lexicon.silence, *recipe.silence}
    hmm = monophone_hmm(
        phones=lexicon.phones,
        silence=[phone for phone in lexicon.phones if phone in silence],
        num_states=settings.num_states,
        num_silence_states=settings.num_silence_states,
    )
    if settings.start == "known":
        events = training_set.timed_events(hmm)
    else:
        events = path_events(hmm, training_set.align_equally(hmm, seed=recipe.seed).paths)
    view = View(deltas=settings.deltas)
    statistics = statistics_of(events, ViewedFrames(training_set.frames, view))
    model = GmmHmm(hmm, single_gaussians(hmm, statistics), view)
    return train_stage(model, labels_of(hmm, events), training_set, settings.growth, seed=recipe.seed, name="monophone")


def train_triphone(before: GmmHmm, training_set: TrainingSet, recipe: Recipe) -> GmmHmm:
    """States tied by a tree grown from the monophones' alignment, on the same frames."""
    model, labels = tied_start(before, before.view, {}, training_set, recipe.triphone)
    return train_stage(model, labels, training_set, recipe.triphone.growth, seed=recipe.seed, name="triphone")


def train_lda_mllt(before: GmmHmm, training_set: TrainingSet, recipe: Recipe) -> GmmHmm:
    """Spliced frames, projected by LDA between tied states and rotated by MLLT to suit diagonal Gaussians."""
    settings = recipe.lda_mllt
    view = View(context=settings.context)
    moments = _class_moments(ViewedFrames(training_set.frames, view), before)
    view = dataclasses.replace(view, matrix=lda(moments, dim=settings.dim))
    model, labels = tied_start(before, view, {}, training_set, settings)

    def apply_mllt(model: GmmHmm, labels: Labels, iteration: int) -> GmmHmm:
        if iteration not in settings.adjust:
            return model
        matrix = estimate_mllt(model.mixtures, training_set.viewed(model), labels, ignored=model.silence_pdfs)
        view = dataclasses.replace(model.view, matrix=matrix @ model.view.matrix)
        return dataclasses.replace(model, view=view, mixtures=with_transformed_means(model.mixtures, matrix))

    return train_stage(
        model, labels, training_set, settings.growth, seed=recipe.seed, adjust=apply_mllt, name="lda_mllt"
    )


def train_sat(before: GmmHmm, training_set: TrainingSet, recipe: Recipe) -> GmmHmm:
    """Speaker adaptive training: fMLLR transforms of the speakers, and a model of the transformed frames."""
    settings = recipe.sat
    transforms = estimate_transforms(before, before.labels, training_set.viewed(before))
    model, labels = tied_start(before, before.view, transforms, training_set, settings)

    def apply_fmllr(model: GmmHmm, labels: Labels, iteration: int) -> GmmHmm:
        if iteration not in settings.adjust:
            return model
        transforms = estimate_transforms(model, labels, training_set.viewed(model))
        return dataclasses.replace(model, transforms=transforms)

    return train_stage(model, labels, training_set, settings.growth, seed=recipe.seed, adjust=apply_fmllr, name="sat")


def tied_start(
    before: GmmHmm, view: View, transforms: Mapping[str, Array], training_set: TrainingSet, settings: Tied
) -> tuple[GmmHmm, Labels]:
    """A model with a new tree and one Gaussian per leaf, and the pdf of each frame by the alignment of `before`.

    Context-independent states have no tree: they are those of `before`.
    """
    events = path_events(before.hmm, before.alignments.paths, context_width=settings.context_width)
    frames = ViewedFrames(training_set.frames, view, training_set.speaker_of, transforms)
    statistics = statistics_of(events, frames, num_groups=settings.num_groups)
    hmm = before.hmm
    if settings.context_width > 1:
        hmm = tie_states(
            hmm, statistics, num_leaves=settings.num_leaves, min_count=settings.min_count,
            shared_roots=settings.shared_roots,
        )  # fmt: skip
    model = GmmHmm(hmm, single_gaussians(hmm, statistics), view, transforms=transforms)
    return model, labels_of(hmm, events)


def _class_moments(frames: ViewedFrames, before: GmmHmm) -> ClassMoments:
    dim = frames[next(iter(before.labels))].shape[1]
    moments = ClassMoments(before.hmm.num_pdfs, dim)
    for X, y in blocks(frames, before.labels):
        speech = ~np.isin(y, list(before.silence_pdfs))
        moments.add(X[speech], y[speech])
    return moments


def _load_or_train(directory: Path, before: GmmHmm | None, training_set: TrainingSet, recipe: Recipe) -> GmmHmm:
    """A saved stage must have been trained with these settings of its own and of the stages before it."""
    name = directory.name
    later = STAGES[STAGES.index(name) + 1 :]
    settings = {key: value for key, value in dataclasses.asdict(recipe).items() if key not in later}
    settings = json.loads(json.dumps(settings))  # tuples become lists, as in the file
    if directory.exists():
        check_inputs(directory / RECORD, read_description(directory)["settings"], settings)
        return GmmHmm.load(directory)
    if before is None:
        model = train_monophone(training_set, recipe)
    else:
        train = {"triphone": train_triphone, "lda_mllt": train_lda_mllt, "sat": train_sat}[name]
        model = train(before, training_set, recipe)
    model.save(directory, settings=settings)
    return model
