"""Decoding with acoustic models: weights tuned on dev, error rates of the parts, and transcripts of recordings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from bochner.speech.align import phone_segments, tied_states, word_segments
from bochner.speech.align.em import estimate_fmllr
from bochner.speech.audio import read_samples
from bochner.speech.decode import Hypothesis, Search, decode, decode_utterances
from bochner.speech.frontend.postprocess import group_moments, normalize
from bochner.speech.manifest import Segment
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution
from bochner.speech.pipeline.decoding import read_tuning, tune_on_dev
from bochner.speech.pipeline.scoring import score_hypotheses, write_score
from bochner.stages import write_json

if TYPE_CHECKING:
    from bochner.acoustic.model import AcousticModel

logger = logging.getLogger(__name__)
Array = NDArray[Any]
Scores = Callable[[str], Array]
"""Log likelihoods [T, num_states] of an utterance id."""
# The first of equal errors is chosen, so usual values come before extreme ones.
ACOUSTIC_WEIGHTS = (0.1, 0.07, 0.14, 0.05, 0.2, 0.035, 0.28, 0.025, 0.4, 0.56, 0.8)
WORD_PENALTIES = (-0.5, 0.5, -1.0, 1.0, -2.0, 2.0)
MIN_SPEAKERS = 10  # with fewer, the bootstrap resamples utterances: so few speakers say nothing about their variance
TUNING = "tuning.json"
SPEAKER = "speaker"  # the name of the only speaker of a recording


@dataclass(frozen=True)
class Weights:
    """The weight of acoustic against language model scores and the cost of each word; `protocol` is their source."""

    acoustic_weight: float = 0.1
    word_penalty: float = 0.0
    protocol: str = "as given"


@dataclass(frozen=True)
class PartScore:
    """The token error rate `ter` of a part with its 95 % interval [low, high], as fractions."""

    part: str
    protocol: str
    errors: int
    tokens: int
    ter: float
    low: float
    high: float
    acoustic_weight: float
    word_penalty: float


def decode_parts(
    scores: Scores,
    aligned: AlignedCorpus,
    *,
    output_dir: Path,
    parts: Sequence[str] = ("dev",),
    weights: Weights | None = None,
    search: Search | None = None,
    seed: int = 0,
    execution: Execution | None = None,
) -> dict[str, PartScore]:
    """Decode and score `parts` with `weights`, or with those of least error on dev.

    `scores` are those of an `AcousticModel`, a combination, or the GMM. Tuned weights and hypotheses are kept below
    `output_dir` (tuning.json, decoded/PART) and reused. `seed` is that of the bootstrap.
    """
    execution = execution or Execution()
    weights = weights or tune_weights(scores, aligned, output_dir=output_dir, search=search, execution=execution)
    results = {}
    for part in parts:
        target = output_dir / "decoded" / part
        decoded = decode_utterances(
            target,
            graph=aligned.graph,
            likelihoods=scores,
            ids=[utterance.id for utterance in aligned.corpus.part(part)],
            acoustic_weight=weights.acoustic_weight,
            word_penalty=weights.word_penalty,
            search=search,
            workers=execution.workers,
            verbose=execution.verbose,
        )
        texts = {name: " ".join(words) for name, words in decoded.words.items()}
        score = score_hypotheses(aligned.corpus, texts, aligned.protocol)
        write_score(target, score, part, seed=seed)
        logger.info("%s: %s %.2f %%, %d errors", part, score.protocol.name, 100 * score.rate, score.counts.errors)
        by = "speaker" if len(score.by_speaker) >= MIN_SPEAKERS else "utterance"
        low, high, _ = score.interval(seed=seed, by=by)
        results[part] = PartScore(
            part, score.protocol.name, score.counts.errors, score.counts.tokens, score.rate, low, high,
            weights.acoustic_weight, weights.word_penalty,
        )  # fmt: skip
    return results


def tune_weights(
    scores: Scores, aligned: AlignedCorpus, *, output_dir: Path, search: Search | None = None, execution: Execution
) -> Weights:
    """The acoustic weight of least error on dev, then the word penalty of least error with it."""
    file = output_dir / TUNING
    if not file.exists():
        settings: dict[str, Any] = {"search": search, "verbose": execution.verbose}
        corpus, graph = aligned.corpus, aligned.graph
        first = tune_on_dev(corpus, graph, scores, acoustic_weights=ACOUSTIC_WEIGHTS, word_penalties=(0.0,), **settings)
        grid: dict[str, Any] = {"acoustic_weights": (first["acoustic_weight"],), "word_penalties": WORD_PENALTIES}
        second = tune_on_dev(corpus, graph, scores, **grid, **settings)
        best = min((first, second), key=lambda tuning: min(error for *_, error in tuning["errors"]))
        write_json(file, {**best, "errors": first["errors"] + second["errors"]})
    return Weights(*read_tuning(file))


@dataclass(frozen=True)
class Transcript:
    """Words with their times in seconds; `complete` is False if the recording ends within a sentence."""

    words: tuple[Segment, ...]
    complete: bool

    @property
    def text(self) -> str:
        return " ".join(word.label for word in self.words)


def transcribe(model: AcousticModel, audio: Path) -> Transcript:
    """Decode a recording of one speaker, whose cepstra are normalised over the recording.

    A model of adapted speakers decodes twice: the first hypothesis gives the transform of the speaker (fMLLR). A
    recording with less than 5 s of speech is not adapted. O(T) in time.
    """
    if model.front_end is None:
        raise ValueError("the model was trained on frames that a corpus provides; it cannot transcribe recordings.")
    samples = read_samples(audio, rate=model.front_end.rate)
    cepstra = model.front_end(samples)
    cepstra = normalize(cepstra, group_moments([(SPEAKER, cepstra)])[SPEAKER])
    hypothesis = _decode(model, model.stage.view(cepstra))
    if model.adapted:
        hypothesis = _decode(model, _adapt(model, cepstra, hypothesis))
    return _with_times(model, hypothesis)


def _decode(model: AcousticModel, frames: Array) -> Hypothesis:
    graph = model.graph.with_word_penalty(model.weights.word_penalty)
    return decode(graph, model.log_likelihoods(frames), acoustic_weight=model.weights.acoustic_weight)


def _adapt(model: AcousticModel, cepstra: Array, hypothesis: Hypothesis) -> Array:
    """The frames after the transform that fits them to the mixtures of the hypothesised states."""
    gmm, speakers = model.stage, {SPEAKER: SPEAKER}
    states = {SPEAKER: tied_states(gmm.hmm, hypothesis.transition_ids)}
    frames = gmm.viewed({SPEAKER: cepstra}, speakers)
    transforms = estimate_fmllr(gmm.mixtures, frames, states, ignored=gmm.silence_pdfs)
    return replace(gmm, transforms=transforms).viewed({SPEAKER: cepstra}, speakers)[SPEAKER]


def _with_times(model: AcousticModel, hypothesis: Hypothesis) -> Transcript:
    front_end = model.front_end
    assert front_end is not None
    offset = (front_end.frame_length - front_end.frame_shift) / 2
    phones = phone_segments(model.hmm, hypothesis.transition_ids, frame_shift=front_end.frame_shift, offset=offset)
    silence = () if model.lexicon.silence is None else model.hmm.silence
    return Transcript(word_segments(phones, hypothesis.words, model.lexicon, silence=silence), hypothesis.complete)
