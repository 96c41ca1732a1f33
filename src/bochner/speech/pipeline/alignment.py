"""From a corpus directory to the state of every frame: frames, GMM training, forced alignment."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bochner.checks import one_of
from bochner.speech.align import (
    STAGES,
    Agreement,
    Alignments,
    GmmHmm,
    Recipe,
    adapt_stage,
    align_utterances,
    compare_all,
    phone_segments,
    tied_states,
    train_gmm,
    word_segments,
    write_ctm,
)
from bochner.speech.align.gmm_recipe import recipe_for
from bochner.speech.corpora.corpus_directory import SpeechCorpus, missing_words
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend import Mfcc, Plp, extract, write_normalized
from bochner.speech.labelled import export_labelled
from bochner.speech.manifest import Segment, Utterance
from bochner.speech.pipeline.steps import Say, Step, silent
from bochner.speech.text_files import Skipped, summarize, write_skipped

FRONTENDS = {"mfcc": Mfcc, "plp": Plp}


@dataclass(frozen=True)
class Frames:
    """The normalised frames of all parts; frame t stands for offset + shift [t, t + 1) seconds."""

    store: FrameStore
    skipped: list[Skipped]
    shift: float
    offset: float


def frames_of(corpus: SpeechCorpus, folder: Path, *, frontend: str, workers: int, progress: bool) -> Frames:
    """What `folder` holds already, or the frames made anew."""
    given = all(said.audio is None for said in corpus.utterances)
    made = None if given else FRONTENDS[frontend](rate=_only("rate", corpus))
    raw = extract(
        corpus.utterances, folder / "raw", folder=corpus.folder, frontend=made, workers=workers, progress=progress
    )
    normal = folder / "frames"
    store = FrameStore(normal) if normal.exists() else write_normalized(raw.store, normal, groups=corpus.speaker_of)
    if made is None:  # how windows lie is unknown: the frame's own stretch is the best guess
        return Frames(store, raw.skipped, _only("frame_shift", corpus), 0.0)
    return Frames(store, raw.skipped, made.frame_shift, (made.frame_length - made.frame_shift) / 2)


def front_end_from(options: Mapping[str, Any] | None) -> Mfcc | Plp | None:
    """The front end whose `options()` are given; None for frames that a corpus gave.

    >>> front_end_from(Mfcc(rate=8000).options()) == Mfcc(rate=8000)
    True
    """
    if options is None:
        return None
    values = dict(options)
    made: Mfcc | Plp = FRONTENDS[values.pop("name")](**values)
    return made


def _only(field: str, corpus: SpeechCorpus) -> int | float:
    """The rate, or the frame shift, that all utterances have in common."""
    found = sorted({getattr(said, field) for said in corpus.utterances}, key=str)
    if len(found) > 1:
        raise ValueError(f"{corpus.folder} must have one {field}, got {found}; prepare each as a corpus of its own.")
    return found[0]


RECORD = "align.json"


@dataclass(frozen=True, kw_only=True)
class AlignSettings:
    """What a GMM-HMM is trained to be; `bochner speech align --help` explains each."""

    until: str = "sat"
    frontend: str = "mfcc"
    start: str = "equal"
    num_leaves: int | None = None
    num_gaussians: int | None = None
    context: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("until", self.until, STAGES)
        one_of("frontend", self.frontend, ["mfcc", "plp"])
        one_of("start", self.start, ["equal", "known", "kept"])


@dataclass(frozen=True)
class Work:
    """How the work is done, which changes no result."""

    workers: int = 1
    say: Say = silent
    progress: bool = False


def align_corpus(folder: Path, out: Path, settings: AlignSettings, *, work: Work | None = None) -> dict[str, Any]:
    """Frames, stages up to the one asked for, labels of every part below `out`; what is there already is kept.

    Returns what `out`/aligned/STAGE/align.json says: numbers of utterances and states, and how well times agree.
    """
    work = work or Work()
    corpus, began = SpeechCorpus.read(folder), time.perf_counter()
    asked = {"corpus": str(folder.resolve()), "fingerprint": corpus.fingerprint, **dataclasses.asdict(settings)}
    del asked["until"]  # the same folder takes one stage more
    Step(out / RECORD, asked).begin()
    target = out / "aligned" / settings.until
    done = Step(target / RECORD, {"until": settings.until})
    found = done.begin()
    if found is None:
        frames, recipe, stage = trained(corpus, out, settings, work)
        found = write_alignments(corpus, frames, recipe, stage, target, settings, work)
        found = {**found, "seconds": round(time.perf_counter() - began, 1)}
        done.finish(found)
    else:
        work.say("aligned", f"{target} was finished already")
    return found


def trained(corpus: SpeechCorpus, out: Path, settings: AlignSettings, work: Work) -> tuple[Frames, Recipe, GmmHmm]:
    """The frames, and the last stage of training asked for."""
    if missing := missing_words(corpus.utterances, corpus.lexicon):
        warnings.warn(
            f"{len(missing)} words are not in lexicon.txt, what they stand in is skipped: {', '.join(missing[:20])}",
            stacklevel=3,
        )
    frames = frames_of(corpus, out, frontend=settings.frontend, workers=work.workers, progress=work.progress)
    work.say("frames", f"{frames.store.num_frames:,} of {frames.store.dim} numbers; {summarize(frames.skipped)}")
    train, sizes = corpus.part("train"), frames.store.sizes
    recipe = recipe_for(
        sum(sizes.get(said.id, 0) for said in train),
        num_phones=len(corpus.lexicon.phones), start=settings.start, num_leaves=settings.num_leaves,
        num_gaussians=settings.num_gaussians, silence=corpus.pauses, shift=frames.shift, offset=frames.offset,
        seed=settings.seed,
    )  # fmt: skip
    for name in STAGES[: STAGES.index(settings.until) + 1]:
        began = time.perf_counter()
        stage = train_gmm(
            out, corpus.lexicon, train, frames.store, recipe=recipe, until=name, workers=work.workers,
            progress=work.progress,
        )  # fmt: skip
        work.say(name, f"{_size(stage)}, {time.perf_counter() - began:.1f} s")
    return frames, recipe, stage


def _size(stage: GmmHmm) -> str:
    size = f"{stage.hmm.num_pdfs:,} states, {stage.mixtures.num_gaussians:,} Gaussians"
    return f"{size}, log likelihood a frame {stage.history[-1]:.2f}"


def write_alignments(
    corpus: SpeechCorpus,
    frames: Frames,
    recipe: Recipe,
    stage: GmmHmm,
    target: Path,
    settings: AlignSettings,
    work: Work,
) -> dict[str, Any]:
    """Labels, times and rows of every part below `target`; how many there are, and how well they agree."""
    aligned = align_parts(corpus, frames, recipe, stage, target.parents[1], work)
    phones = {
        name: phone_segments(stage.hmm, path, frame_shift=frames.shift, offset=frames.offset)
        for name, path in aligned.paths.items()
    }
    spoken = [said for said in corpus.utterances if said.id in phones]
    write_ctm(target / "phones.ctm", ((said.id, phones[said.id]) for said in spoken))
    write_ctm(target / "words.ctm", ((said.id, _words(corpus, said, phones[said.id])) for said in spoken))
    labels = {name: tied_states(stage.hmm, path) for name, path in aligned.paths.items()}
    if not (target / "states").exists():
        write_frames(target / "states", labels.items(), about={"labels": "tied states", "stage": settings.until})
    for part in corpus.parts:
        _write_rows(corpus, part, frames.store, labels, target / "rows" / part, settings.context)
    skipped = [*frames.skipped, *(one for one in aligned.skipped if one.id in frames.store)]
    write_skipped(target, skipped)
    agreement = agreements(corpus, stage, phones)
    return {
        "utterances": len(spoken), "skipped": len(skipped), "states": stage.hmm.num_pdfs,
        "agreement": {part: dataclasses.asdict(one) for part, one in agreement.items()},
    }  # fmt: skip


def align_parts(
    corpus: SpeechCorpus, frames: Frames, recipe: Recipe, stage: GmmHmm, out: Path, work: Work
) -> Alignments:
    """train as the stage itself aligned it; the other parts by the stage, adapted to their speakers after SAT."""
    others = [said for said in corpus.utterances if said.part != "train"]
    if not others:
        return stage.alignments
    if stage.transforms:
        before = GmmHmm.load(out / "lda_mllt")
        first = forced(before, corpus, frames.store, others, recipe, work)
        speakers = {said.id: said.speaker for said in others}
        stage = adapt_stage(stage, frames.store, speakers, paths=first.paths, hmm=before.hmm)
    found = forced(stage, corpus, frames.store, others, recipe, work)
    return Alignments({**stage.alignments.paths, **found.paths}, [*stage.alignments.skipped, *found.skipped])


def forced(
    stage: GmmHmm, corpus: SpeechCorpus, frames: FrameStore, utterances: Sequence[Utterance], recipe: Recipe, work: Work
) -> Alignments:
    """Forced alignment with a stage as it is."""
    pool = ProcessPoolExecutor(work.workers, mp_context=get_context("spawn")) if work.workers > 1 else nullcontext()
    with pool as processes:
        return align_utterances(
            stage.hmm, corpus.lexicon, utterances, stage.scores(frames, corpus.speaker_of), search=recipe.search,
            silence_probability=recipe.silence_probability, pool=processes, progress=work.progress,
        )  # fmt: skip


def agreements(corpus: SpeechCorpus, stage: GmmHmm, phones: Mapping[str, tuple[Segment, ...]]) -> dict[str, Agreement]:
    """By part, where the corpus knows the times of the same phones."""
    known = {said.id: said for said in corpus.utterances if said.phones and said.id in phones}
    labels = {one.label for said in known.values() for one in said.phones}
    if not known or not labels <= set(stage.hmm.phones):
        return {}
    return {
        part: compare_all((said.phones, phones[said.id]) for said in known.values() if said.part == part)
        for part in corpus.parts
    }


def _words(corpus: SpeechCorpus, said: Utterance, phones: tuple[Segment, ...]) -> tuple[Segment, ...]:
    return word_segments(phones, said.tokens, corpus.lexicon, silence=() if corpus.says_phones else corpus.pauses)


def _write_rows(
    corpus: SpeechCorpus, part: str, store: FrameStore, labels: dict[str, Any], folder: Path, context: int
) -> None:
    theirs = {said.id: labels[said.id] for said in corpus.part(part) if said.id in labels}
    if theirs and not (folder.exists() and any(folder.iterdir())):  # rows are there whole or not at all
        export_labelled(store, theirs, folder, left=context, right=context)
