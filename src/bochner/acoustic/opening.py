"""From a recipe to the speech its models are compared on: corpus, alignment and graph, made or found."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

from bochner.acoustic.contest import Contest
from bochner.acoustic.corpora import CorpusDirectory
from bochner.acoustic.recipe import AsrRecipe
from bochner.acoustic.stages import Done, Found, Stages
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.manifest import PARTS
from bochner.speech.pipeline.aligned_corpus import at_speeds, open_aligned
from bochner.speech.pipeline.alignment import AlignSettings, Execution, align_corpus

logger = logging.getLogger(__name__)


def open_contest(recipe: AsrRecipe, root: Path, *, device: str, work: Execution) -> Contest:
    """The contest of a recipe below `root`, ready for its first model; what lies there already is not made again."""
    stages = Stages(root)
    corpus = make_corpus(recipe, stages, work)
    speech = SpeechCorpus.read(corpus_folder(recipe, corpus))
    check_parts(speech)
    alignment = align(recipe, stages, corpus, speech, work)
    aligned = open_aligned(
        speech, alignment.folder, stage=recipe.alignment.until, order=recipe.decoding.order, execution=work
    )
    return Contest(recipe, stages, alignment, at_speeds(aligned, recipe.frontend.speeds), work, device)


def make_corpus(recipe: AsrRecipe, stages: Stages, work: Execution) -> Done:
    """The corpus stage: what to say of it, and the fingerprint of its texts."""
    settings, source = recipe.plain()["corpus"], recipe.corpus
    if isinstance(source, CorpusDirectory):  # which may change where it lies
        settings["fingerprint"] = SpeechCorpus.read(source.source).fingerprint

    def make(folder: Path) -> Found:
        if not isinstance(source, CorpusDirectory):
            logger.info("%s", source.make(folder, workers=work.workers, progress=work.verbose))
        return {"fingerprint": SpeechCorpus.read(corpus_folder(recipe, folder)).fingerprint}

    return stages.run("corpus", settings["kind"], settings, make=make)


def corpus_folder(recipe: AsrRecipe, made: Done | Path) -> Path:
    if isinstance(recipe.corpus, CorpusDirectory):
        return recipe.corpus.source
    return made if isinstance(made, Path) else made.folder


def check_parts(corpus: SpeechCorpus) -> None:
    if missing := [part for part in PARTS if part not in corpus.parts]:
        raise ValueError(
            f"{corpus.directory} must have the parts {', '.join(PARTS)}, but has no {' and no '.join(missing)}; "
            "give it one by the corpus's sizes, or by hand in utterances.jsonl."
        )


def align(recipe: AsrRecipe, stages: Stages, corpus: Done, speech: SpeechCorpus, work: Execution) -> Done:
    """The state of every frame, by the recipe's GMM."""
    asked = AlignSettings(**asdict(recipe.alignment), frontend=recipe.frontend.cepstra, context=0)
    settings = {**asdict(asked), "fingerprint": corpus.found["fingerprint"]}

    def make(out: Path) -> Found:
        return align_corpus(speech, out, asked, export=False, execution=work)

    return stages.run("alignment", asked.until, settings, after=[corpus], make=make)
