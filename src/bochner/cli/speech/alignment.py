"""What `bochner speech align` does: frames, stages of training, and the alignment of every part."""

from __future__ import annotations

import dataclasses
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bochner.cli.failures import warn
from bochner.cli.report import say
from bochner.cli.speech.cepstra import Frames, frames_of
from bochner.cli.speech.corpus import SpeechCorpus, missing_words
from bochner.cli.speech.recipes import recipe_for
from bochner.cli.speech.steps import Step
from bochner.speech.align import (
    STAGES,
    Agreement,
    Alignments,
    Recipe,
    Stage,
    adapt_stage,
    align_utterances,
    compare_all,
    phone_segments,
    tied_states,
    train_gmm,
    word_segments,
    write_ctm,
)
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.labelled import export_labelled
from bochner.speech.manifest import Segment, Utterance
from bochner.speech.skipped import summarize, write_skipped

RECORD = "align.json"


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    until: str
    frontend: str
    start: str
    num_leaves: int | None
    num_gaussians: int | None
    context: int
    seed: int


def align_corpus(folder: Path, out: Path, asked: Asked, *, workers: int) -> None:
    """Frames, stages up to the one asked for, labels of every part; what is there already is kept."""
    corpus, began = SpeechCorpus.read(folder), time.perf_counter()
    settings = {"corpus": str(folder.resolve()), "fingerprint": corpus.fingerprint, **dataclasses.asdict(asked)}
    del settings["until"]  # the same folder takes one stage more
    Step(out / RECORD, settings).begin()
    target = out / "aligned" / asked.until
    done = Step(target / RECORD, {"until": asked.until})
    found = done.begin()
    if found is None:
        frames, recipe, stage = trained(corpus, out, asked, workers=workers)
        found = write_alignments(corpus, frames, recipe, stage, target, asked, workers=workers)
        done.finish({**found, "seconds": round(time.perf_counter() - began, 1)})
    else:
        say("aligned", f"{target} was finished already")
    say_aligned(corpus, found, folder, out, asked.until)


def trained(corpus: SpeechCorpus, out: Path, asked: Asked, *, workers: int) -> tuple[Frames, Recipe, Stage]:
    """The frames, and the last stage of training asked for."""
    progress = sys.stderr.isatty()
    if missing := missing_words(corpus.utterances, corpus.lexicon):
        warn(f"{len(missing)} words are not in lexicon.txt, what they stand in is skipped: {', '.join(missing[:20])}")
    frames = frames_of(corpus, out, frontend=asked.frontend, workers=workers, progress=progress)
    say("frames", f"{frames.store.num_frames:,} of {frames.store.dim} numbers; {summarize(frames.skipped)}")
    train = corpus.part("train")
    sizes = frames.store.sizes
    recipe = recipe_for(
        sum(sizes.get(said.id, 0) for said in train),
        num_phones=len(corpus.lexicon.phones), start=asked.start, num_leaves=asked.num_leaves,
        num_gaussians=asked.num_gaussians, silence=corpus.pauses, shift=frames.shift, offset=frames.offset,
        seed=asked.seed,
    )  # fmt: skip
    for name in STAGES[: STAGES.index(asked.until) + 1]:
        began = time.perf_counter()
        stage = train_gmm(
            out, corpus.lexicon, train, frames.store, recipe=recipe, until=name, workers=workers, progress=progress
        )
        say_stage(name, stage, time.perf_counter() - began)
    return frames, recipe, stage


def say_stage(name: str, stage: Stage, seconds: float) -> None:
    size = f"{stage.hmm.num_pdfs:,} states, {stage.mixtures.num_gaussians:,} Gaussians"
    say(name, f"{size}, log likelihood a frame {stage.history[-1]:.2f}, {seconds:.1f} s")


def write_alignments(
    corpus: SpeechCorpus, frames: Frames, recipe: Recipe, stage: Stage, target: Path, asked: Asked, *, workers: int
) -> dict[str, Any]:
    """Labels, times and rows of every part below `target`; how many there are, and how well they agree."""
    aligned = align_parts(corpus, frames, recipe, stage, target.parents[1], workers=workers)
    phones = {
        name: phone_segments(stage.hmm, path, frame_shift=frames.shift, offset=frames.offset)
        for name, path in aligned.paths.items()
    }
    spoken = [said for said in corpus.utterances if said.id in phones]
    write_ctm(target / "phones.ctm", ((said.id, phones[said.id]) for said in spoken))
    write_ctm(target / "words.ctm", ((said.id, _words(corpus, said, phones[said.id])) for said in spoken))
    labels = {name: tied_states(stage.hmm, path) for name, path in aligned.paths.items()}
    if not (target / "states").exists():
        write_frames(target / "states", labels.items(), about={"labels": "tied states", "stage": asked.until})
    for part in corpus.parts:
        _write_rows(corpus, part, frames.store, labels, target / "rows" / part, asked.context)
    skipped = [*frames.skipped, *(one for one in aligned.skipped if one.id in frames.store)]
    write_skipped(target, skipped)
    agreement = agreements(corpus, stage, phones)
    return {
        "utterances": len(spoken), "skipped": len(skipped), "states": stage.hmm.num_pdfs,
        "agreement": {part: dataclasses.asdict(one) for part, one in agreement.items()},
    }  # fmt: skip


def align_parts(
    corpus: SpeechCorpus, frames: Frames, recipe: Recipe, stage: Stage, out: Path, *, workers: int
) -> Alignments:
    """train as the stage itself aligned it; the other parts by the stage, adapted to their speakers after SAT."""
    others = [said for said in corpus.utterances if said.part != "train"]
    if not others:
        return stage.alignments
    if stage.transforms:
        before = Stage.load(out / "lda_mllt")
        first = forced(before, corpus, frames.store, others, recipe, workers=workers)
        speakers = {said.id: said.speaker for said in others}
        stage = adapt_stage(stage, frames.store, speakers, paths=first.paths, hmm=before.hmm)
    found = forced(stage, corpus, frames.store, others, recipe, workers=workers)
    return Alignments({**stage.alignments.paths, **found.paths}, [*stage.alignments.skipped, *found.skipped])


def forced(
    stage: Stage, corpus: SpeechCorpus, frames: FrameStore, utterances: list[Utterance], recipe: Recipe, *, workers: int
) -> Alignments:
    """Forced alignment with a stage as it is."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn")) if workers > 1 else nullcontext()
    with pool as processes:
        return align_utterances(
            stage.hmm, corpus.lexicon, utterances, stage.scores(frames, corpus.speaker_of), search=recipe.search,
            silence_probability=recipe.silence_probability, pool=processes, progress=sys.stderr.isatty(),
        )  # fmt: skip


def agreements(corpus: SpeechCorpus, stage: Stage, phones: dict[str, tuple[Segment, ...]]) -> dict[str, Agreement]:
    """By part, where the corpus knows the times of the same phones."""
    known = {said.id: said for said in corpus.utterances if said.phones and said.id in phones}
    labels = {one.label for said in known.values() for one in said.phones}
    if not known or not labels <= set(stage.hmm.phones):
        return {}
    return {
        part: compare_all((said.phones, phones[said.id]) for said in known.values() if said.part == part)
        for part in corpus.parts
    }


def say_aligned(corpus: SpeechCorpus, found: dict[str, Any], folder: Path, out: Path, stage: str) -> None:
    target = out / "aligned" / stage
    say("aligned", f"{found['utterances']:,} utterances with {found['states']:,} states; {found['skipped']} skipped")
    for part, counts in found["agreement"].items():
        one = Agreement(**counts)
        near, right = f"{100 * one.boundaries_within:.1f} %", f"{100 * one.frames_right:.1f} %"
        say(
            "",
            f"{part}: {near} of {one.boundaries:,} phone boundaries within 20 ms, {right} of frames in the right phone",
        )
    say("labels", f"{target}/rows/train (for bochner train --task classify), {target}/phones.ctm, {target}/words.ctm")
    part = "test" if "test" in corpus.parts else corpus.parts[-1]
    say("next", shlex.join(["bochner", "speech", "decode", str(folder), str(out), "--part", part]))


def _words(corpus: SpeechCorpus, said: Utterance, phones: tuple[Segment, ...]) -> tuple[Segment, ...]:
    return word_segments(phones, said.tokens, corpus.lexicon, silence=() if corpus.says_phones else corpus.pauses)


def _write_rows(
    corpus: SpeechCorpus, part: str, store: FrameStore, labels: dict[str, Any], folder: Path, context: int
) -> None:
    theirs = {said.id: labels[said.id] for said in corpus.part(part) if said.id in labels}
    if theirs and not (folder.exists() and any(folder.iterdir())):  # rows are there whole or not at all
        export_labelled(store, theirs, folder, left=context, right=context)
