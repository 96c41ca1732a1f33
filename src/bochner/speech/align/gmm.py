"""The recipe of GMM training, read from top to bottom: monophone, triphone, LDA + MLLT, SAT."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.checks import one_of, positive_int
from bochner.speech.align.em import (
    Corpus,
    Labels,
    estimate_mllt,
    estimate_transforms,
    labels_of,
    path_events,
    single_gaussians,
    statistics_of,
    tie_states,
    train_stage,
    with_turned_means,
)
from bochner.speech.align.gmm_hmm import GmmHmm, View, ViewedFrames, blocks, read_about
from bochner.speech.align.gmm_recipe import Recipe, Tied
from bochner.speech.frames import FrameStore
from bochner.speech.frontend.transforms import ClassMoments, lda
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance

Array = NDArray[Any]
STAGES = ("monophone", "triphone", "lda_mllt", "sat")


def train_gmm(
    directory: str | os.PathLike[str],
    lexicon: Lexicon,
    utterances: Sequence[Utterance],
    frames: Mapping[str, Array],
    *,
    recipe: Recipe | None = None,
    until: str = "sat",
    workers: int = 1,
    progress: bool = False,
) -> GmmHmm:
    """Train stage after stage up to `until`, each saved in a folder of its name; gives the last.

    `frames` maps utterance ids to arrays [T, d], normalised by speaker; `lexicon` holds every word's pronunciations. A
    stage that is there already is loaded, not trained again; one made with other settings is an error. With `workers`
    above 1 as many processes align; `frames` must then be a FrameStore, which they can open themselves, and a script be
    guarded by `if __name__ == "__main__"`.

    Source: the order and the numbers of Kaldi's train_mono, train_deltas, train_lda_mllt and train_sat.
    """
    one_of("until", until, STAGES)
    if positive_int("workers", workers) > 1 and not isinstance(frames, FrameStore):
        raise ValueError(f"frames must be a FrameStore for workers {workers}, got {type(frames).__name__}.")
    recipe, stage = recipe or Recipe(), None
    with _pool(workers) as pool:
        corpus = Corpus(
            lexicon,
            utterances,
            frames,
            recipe.search,
            recipe.silence_probability,
            recipe.frame_shift,
            recipe.offset,
            pool,
            progress,
        )
        for name in STAGES[: STAGES.index(until) + 1]:
            stage = _loaded_or_trained(Path(directory) / name, stage, corpus, recipe)
    assert stage is not None
    return stage


def train_monophone(corpus: Corpus, recipe: Recipe) -> GmmHmm:
    """States of phones whatever their neighbours: an equal alignment, then EM that often aligns anew."""
    settings, lexicon = recipe.monophone, corpus.lexicon
    silence = {lexicon.silence, *recipe.silence}
    hmm = monophone_hmm(
        phones=lexicon.phones,
        silence=[phone for phone in lexicon.phones if phone in silence],
        num_states=settings.num_states,
        num_silence_states=settings.num_silence_states,
    )
    if settings.start == "known":
        events = corpus.known_events(hmm)
    else:
        events = path_events(hmm, corpus.align_equally(hmm, seed=recipe.seed).paths)
    view = View(deltas=settings.deltas)
    statistics = statistics_of(events, ViewedFrames(corpus.frames, view))
    stage = GmmHmm(hmm, single_gaussians(hmm, statistics), view)
    return train_stage(stage, labels_of(hmm, events), corpus, settings.growth, seed=recipe.seed, name="monophone")


def train_triphone(before: GmmHmm, corpus: Corpus, recipe: Recipe) -> GmmHmm:
    """States tied by a tree that was grown over the monophones' alignment, on the same frames."""
    stage, labels = tied_start(before, before.view, {}, corpus, recipe.triphone)
    return train_stage(stage, labels, corpus, recipe.triphone.growth, seed=recipe.seed, name="triphone")


def train_lda_mllt(before: GmmHmm, corpus: Corpus, recipe: Recipe) -> GmmHmm:
    """Spliced frames, projected so that the tied states part best and turned so that diagonal Gaussians fit."""
    settings = recipe.lda_mllt
    view = View(context=settings.context)
    moments = _class_moments(ViewedFrames(corpus.frames, view), before)
    view = dataclasses.replace(view, matrix=lda(moments, dim=settings.dim))
    stage, labels = tied_start(before, view, {}, corpus, settings)

    def turn(stage: GmmHmm, labels: Labels, iteration: int) -> GmmHmm:
        if iteration not in settings.adjust:
            return stage
        matrix = estimate_mllt(stage.mixtures, corpus.seen(stage), labels, ignored=stage.silence_pdfs)
        view = dataclasses.replace(stage.view, matrix=matrix @ stage.view.matrix)
        return dataclasses.replace(stage, view=view, mixtures=with_turned_means(stage.mixtures, matrix))

    return train_stage(stage, labels, corpus, settings.growth, seed=recipe.seed, adjust=turn, name="lda_mllt")


def train_sat(before: GmmHmm, corpus: Corpus, recipe: Recipe) -> GmmHmm:
    """Each speaker's frames moved towards the model, and the model trained on the moved frames."""
    settings = recipe.sat
    transforms = estimate_transforms(before, before.labels, corpus.seen(before))
    stage, labels = tied_start(before, before.view, transforms, corpus, settings)

    def adapt(stage: GmmHmm, labels: Labels, iteration: int) -> GmmHmm:
        if iteration not in settings.adjust:
            return stage
        transforms = estimate_transforms(stage, labels, corpus.seen(stage))
        return dataclasses.replace(stage, transforms=transforms)

    return train_stage(stage, labels, corpus, settings.growth, seed=recipe.seed, adjust=adapt, name="sat")


def tied_start(
    before: GmmHmm, view: View, transforms: Mapping[str, Array], corpus: Corpus, settings: Tied
) -> tuple[GmmHmm, Labels]:
    """A stage with a new tree and one Gaussian a leaf, and the pdf of each frame by the last stage's alignment."""
    events = path_events(before.hmm, before.alignments.paths)
    frames = ViewedFrames(corpus.frames, view, corpus.speaker_of, transforms)
    statistics = statistics_of(events, frames, num_groups=settings.num_groups)
    hmm = tie_states(before.hmm, statistics, num_leaves=settings.num_leaves, min_count=settings.min_count)
    stage = GmmHmm(hmm, single_gaussians(hmm, statistics), view, transforms=transforms)
    return stage, labels_of(hmm, events)


def _class_moments(frames: ViewedFrames, before: GmmHmm) -> ClassMoments:
    dim = frames[next(iter(before.labels))].shape[1]
    moments = ClassMoments(before.hmm.num_pdfs, dim)
    for X, y in blocks(frames, before.labels):
        speech = ~np.isin(y, list(before.silence_pdfs))
        moments.add(X[speech], y[speech])
    return moments


def _loaded_or_trained(folder: Path, before: GmmHmm | None, corpus: Corpus, recipe: Recipe) -> GmmHmm:
    """Settings of this stage and of those before it must be what the saved one was made with."""
    name = folder.name
    settings = json.loads(json.dumps(_settings_until(name, recipe)))
    if folder.exists():
        made_with = read_about(folder)["settings"]
        if made_with != settings:
            raise ValueError(
                f"{folder} was trained with {made_with}, now asked for {settings}; "
                f"ask for the same, or remove that folder to train it anew."
            )
        return GmmHmm.load(folder)
    stage = _trained(name, before, corpus, recipe)
    stage.save(folder, settings=settings)
    return stage


def _trained(name: str, before: GmmHmm | None, corpus: Corpus, recipe: Recipe) -> GmmHmm:
    if before is None:
        return train_monophone(corpus, recipe)
    train = {"triphone": train_triphone, "lda_mllt": train_lda_mllt, "sat": train_sat}[name]
    return train(before, corpus, recipe)


def _settings_until(name: str, recipe: Recipe) -> dict[str, Any]:
    later = STAGES[STAGES.index(name) + 1 :]
    return {key: value for key, value in dataclasses.asdict(recipe).items() if key not in later}


def _pool(workers: int) -> AbstractContextManager[Executor | None]:
    if workers == 1:
        return nullcontext()
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))  # a fork would share the threads' locks
