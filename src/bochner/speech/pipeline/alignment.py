"""From a corpus directory to the state of every frame: frames, GMM training, forced alignment."""

from __future__ import annotations

import dataclasses
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.checks import one_of, positive_float
from bochner.speech.align import (
    STAGES,
    Agreement,
    Alignments,
    GmmHmm,
    Recipe,
    adapt_to_speakers,
    align_utterances,
    compare_all,
    phone_segments,
    tied_states,
    train_gmm,
    word_segments,
    write_ctm,
)
from bochner.speech.align.gmm_recipe import CONTEXT_WIDTHS, recipe_for
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.frames import Array, FrameStore, write_frames
from bochner.speech.frontend import Mfcc, Plp, extract, write_normalized
from bochner.speech.frontend.postprocess import average_moments, export_labelled, group_moments
from bochner.speech.manifest import Segment, Utterance
from bochner.speech.runtime import process_pool
from bochner.speech.text_files import Skipped, summarize, write_skipped
from bochner.stages import Stage, locked

logger = logging.getLogger(__name__)
FRONTENDS = {"mfcc": Mfcc, "plp": Plp}
RECORD = "align.json"
ALIGNMENT_SECONDS = 5e-5  # of CPU time, for each frame


@dataclass(frozen=True, kw_only=True)
class AlignSettings:
    """The settings of GMM training and alignment; `bochner speech align --help` explains each."""

    until: str = "sat"
    frontend: str = "mfcc"
    frame_shift: float = 0.01
    pitch: bool = False
    context_width: int = 3
    shared_roots: bool = False
    start: str = "equal"
    num_leaves: int | None = None
    num_gaussians: int | None = None
    context: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        one_of("until", self.until, STAGES)
        one_of("frontend", self.frontend, FRONTENDS)
        positive_float("frame_shift", self.frame_shift)
        one_of("context_width", self.context_width, CONTEXT_WIDTHS)
        one_of("start", self.start, ["equal", "known", "kept"])

    def inputs(self) -> dict[str, Any]:
        """The settings as inputs of a stage; options that are off are left out, as in directories made before them."""
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if value or name not in ("pitch", "shared_roots")}


@dataclass(frozen=True)
class Execution:
    """Number of processes and whether progress bars are shown; neither changes a result."""

    workers: int = 1
    verbose: bool = False


def align_corpus(
    corpus: SpeechCorpus,
    output_dir: Path,
    settings: AlignSettings,
    *,
    export: bool = True,
    execution: Execution | None = None,
) -> dict[str, Any]:
    """Compute frames, train the GMM stages up to `settings.until`, and align every part with the last one.

    `output_dir`/aligned/STAGE holds states/ (the tied state of each frame) and skipped.jsonl. With `export` it also
    holds phones.ctm, words.ctm and rows/PART, which no later step of a recogniser reads, and the result contains the
    agreement with reference times. Frames and finished stages are reused. Returns the result recorded in align.json.
    """
    execution = execution or Execution()
    inputs = {"corpus": str(corpus.directory.resolve()), "fingerprint": corpus.fingerprint}
    inputs |= settings.inputs()
    del inputs["until"]  # one more stage may be added to the same directory
    target = output_dir / "aligned" / settings.until
    stage = Stage(target / RECORD, {"until": settings.until, "export": export})

    def make() -> dict[str, Any]:
        frames, recipe, model = train_on_corpus(corpus, output_dir, settings, execution)
        alignments = _align_all_parts(corpus, frames, recipe, model, output_dir, execution)
        skipped = [*frames.skipped, *(entry for entry in alignments.skipped if entry.id in frames.store)]
        write_skipped(target, skipped)
        states = {name: tied_states(model.hmm, path) for name, path in alignments.paths.items()}
        if not (target / "states").exists():
            write_frames(target / "states", states.items(), about={"labels": "tied states", "stage": settings.until})
        counts = {"utterances": len(states), "skipped": len(skipped), "states": model.hmm.num_pdfs}
        return counts | (_export(corpus, frames, model, alignments, states, target, settings.context) if export else {})

    with locked(output_dir):
        Stage(output_dir / RECORD, inputs).run(dict)  # records the inputs that all stages share
        if stage.result() is not None:
            logger.info("aligned: %s was finished already", target)
        return stage.run(make)


@dataclass(frozen=True)
class CorpusFrames:
    """The normalised frames of all parts; frame t covers offset + shift [t, t + 1) seconds."""

    store: FrameStore
    skipped: list[Skipped]
    shift: float
    offset: float


def corpus_frames(
    corpus: SpeechCorpus,
    output_dir: Path,
    *,
    frontend: str,
    frame_shift: float = 0.01,
    pitch: bool = False,
    execution: Execution | None = None,
) -> CorpusFrames:
    """Cepstra of the recordings (or the frames that the corpus provides), normalised by speaker, below `output_dir`.

    The moments of speakers are smoothed by those of the average speaker of train.
    """
    execution = execution or Execution()
    has_audio = any(utterance.audio is not None for utterance in corpus.utterances)
    front_end = None
    if has_audio:
        front_end = FRONTENDS[frontend](rate=_common_value("rate", corpus), frame_shift=frame_shift, pitch=pitch)
    elif pitch:
        raise ValueError("pitch must be false for a corpus of frames, which has no recordings.")
    raw = extract(
        corpus.utterances, output_dir / "raw", corpus_dir=corpus.directory, frontend=front_end,
        workers=execution.workers, verbose=execution.verbose,
    )  # fmt: skip
    target = output_dir / "frames"
    if target.exists():
        store = FrameStore(target)
    else:
        trained = (utterance for utterance in corpus.part("train") if utterance.id in raw.store)
        prior = average_moments(group_moments((u.speaker, raw.store[u.id]) for u in trained).values())
        store = write_normalized(raw.store, target, groups=corpus.speaker_of, prior=prior)
    if front_end is None:  # the position of the windows is unknown; each frame covers its own shift
        return CorpusFrames(store, raw.skipped, _common_value("frame_shift", corpus), 0.0)
    offset = (front_end.frame_length - front_end.frame_shift) / 2
    return CorpusFrames(store, raw.skipped, front_end.frame_shift, offset)


def front_end_from(options: Mapping[str, Any] | None) -> Mfcc | Plp | None:
    """The front end with these `options()`; None for frames that a corpus provides.

    >>> front_end_from(Mfcc(rate=8000).options()) == Mfcc(rate=8000)
    True
    """
    if options is None:
        return None
    values = dict(options)
    front_end: Mfcc | Plp = FRONTENDS[values.pop("name")](**values)
    return front_end


def _common_value(field: str, corpus: SpeechCorpus) -> int | float:
    """The rate or frame shift of all utterances."""
    values = sorted({getattr(utterance, field) for utterance in corpus.utterances}, key=str)
    if len(values) > 1:
        raise ValueError(f"{corpus.directory} must have one {field}, got {values}; prepare one corpus for each.")
    return values[0]


def train_on_corpus(
    corpus: SpeechCorpus, output_dir: Path, settings: AlignSettings, execution: Execution
) -> tuple[CorpusFrames, Recipe, GmmHmm]:
    """The frames, the recipe that suits their number, and the GMM of the stage `settings.until`."""
    if missing := corpus.missing_words:
        warnings.warn(
            f"{len(missing)} words are not in lexicon.txt; utterances with them are skipped: {', '.join(missing[:20])}",
            stacklevel=3,
        )
    frames = corpus_frames(
        corpus,
        output_dir,
        frontend=settings.frontend,
        frame_shift=settings.frame_shift,
        pitch=settings.pitch,
        execution=execution,
    )
    logger.info("frames: %s of %d numbers; %s", f"{frames.store.num_frames:,}", frames.store.dim,
                summarize(frames.skipped))  # fmt: skip
    train, sizes = corpus.part("train"), frames.store.sizes
    recipe = recipe_for(
        sum(sizes.get(utterance.id, 0) for utterance in train), num_phones=len(corpus.lexicon.phones),
        start=settings.start, num_leaves=settings.num_leaves, num_gaussians=settings.num_gaussians,
        silence=corpus.silence_phones, shift=frames.shift, offset=frames.offset, seed=settings.seed,
        context_width=settings.context_width, shared_roots=settings.shared_roots,
    )  # fmt: skip
    model = train_gmm(
        output_dir, corpus.lexicon, train, frames.store, recipe=recipe, until=settings.until,
        workers=execution.workers, verbose=execution.verbose,
    )  # fmt: skip
    return frames, recipe, model


def _align_all_parts(
    corpus: SpeechCorpus, frames: CorpusFrames, recipe: Recipe, model: GmmHmm, output_dir: Path, execution: Execution
) -> Alignments:
    """The GMM's own alignment of train; forced alignments of the other parts, adapted to their speakers after SAT."""
    others = [utterance for utterance in corpus.utterances if utterance.part != "train"]
    if not others:
        return model.alignments
    if model.transforms:
        unadapted = GmmHmm.load(output_dir / "lda_mllt")
        first = force_align(unadapted, corpus, frames.store, others, recipe, execution)
        speakers = {utterance.id: utterance.speaker for utterance in others}
        model = adapt_to_speakers(model, frames.store, speakers, paths=first.paths, hmm=unadapted.hmm)
    aligned = force_align(model, corpus, frames.store, others, recipe, execution)
    return Alignments({**model.alignments.paths, **aligned.paths}, [*model.alignments.skipped, *aligned.skipped])


def force_align(
    model: GmmHmm,
    corpus: SpeechCorpus,
    frames: FrameStore,
    utterances: Sequence[Utterance],
    recipe: Recipe,
    execution: Execution,
) -> Alignments:
    """Forced alignment of `utterances` with the mixtures of `model`."""
    num_frames = sum(frames.sizes.get(utterance.id, 0) for utterance in utterances)
    with process_pool(execution.workers, seconds=ALIGNMENT_SECONDS * num_frames) as pool:
        return align_utterances(
            model.hmm, corpus.lexicon, utterances, model.scores(frames, corpus.speaker_of), search=recipe.search,
            pool=pool, verbose=execution.verbose,
        )  # fmt: skip


def _export(
    corpus: SpeechCorpus,
    frames: CorpusFrames,
    model: GmmHmm,
    alignments: Alignments,
    states: Mapping[str, Array],
    target: Path,
    context: int,
) -> dict[str, Any]:
    """CTM files and rows for `bochner train`; returns the agreement with reference times."""
    phones = {
        name: phone_segments(model.hmm, path, frame_shift=frames.shift, offset=frames.offset)
        for name, path in alignments.paths.items()
    }
    silence = () if corpus.tokens_are_phones else corpus.silence_phones
    words = {
        utterance.id: word_segments(phones[utterance.id], utterance.tokens, corpus.lexicon, silence=silence)
        for utterance in corpus.utterances
        if utterance.id in phones
    }
    write_ctm(target / "phones.ctm", ((name, phones[name]) for name in words))
    write_ctm(target / "words.ctm", words.items())
    for part in corpus.parts:
        labels = {utterance.id: states[utterance.id] for utterance in corpus.part(part) if utterance.id in states}
        rows = target / "rows" / part
        if labels and not (rows.exists() and any(rows.iterdir())):  # rows are written all or none
            export_labelled(frames.store, labels, rows, left=context, right=context)
    return {"agreement": {part: dataclasses.asdict(a) for part, a in _agreements(corpus, model, phones).items()}}


def _agreements(corpus: SpeechCorpus, model: GmmHmm, phones: Mapping[str, tuple[Segment, ...]]) -> dict[str, Agreement]:
    """Agreement by part, if the corpus has times for the phones of the model."""
    timed = [utterance for utterance in corpus.utterances if utterance.phones and utterance.id in phones]
    labels = {segment.label for utterance in timed for segment in utterance.phones}
    if not timed or not labels <= set(model.hmm.phones):
        return {}
    return {
        part: compare_all((utterance.phones, phones[utterance.id]) for utterance in timed if utterance.part == part)
        for part in corpus.parts
    }
