"""Transcripts of recordings: words with times and confidences, alternatives, rescoring with another language model."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bochner import checks
from bochner.speech.align import FunctionScores, align_utterances, phone_segments, tied_states, word_segments
from bochner.speech.align.em import ADAPTATION_ROUNDS, estimate_fmllr
from bochner.speech.audio import AudioError, sample_blocks
from bochner.speech.decode import Hypothesis, NoPathError, decode, decode_lattice
from bochner.speech.frontend.postprocess import group_moments, normalize
from bochner.speech.frontend.speaker_clusters import cluster_recordings
from bochner.speech.lattice import WordLattice
from bochner.speech.levels import LevelMeter, shows_speech
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm import NgramModel
from bochner.speech.manifest import Segment, Utterance
from bochner.speech.pipeline.aligned_corpus import MIN_ADAPTED_FRAMES
from bochner.speech.score.error_rates import align

if TYPE_CHECKING:
    from bochner.acoustic.model import AcousticModel

logger = logging.getLogger(__name__)
Array = NDArray[Any]
SPEAKER = "speaker"  # the name of the only speaker of some recordings
CHUNK_FRAMES = 25  # frames of speech, about a word, whose mean log likelihood is compared with that of heldout
UNLIKELY = 0.01  # words whose likelihood is below this quantile of heldout lose confidence
MAX_GROUP_FRAMES = 360_000  # of recordings that `group_by_speaker` finds to be of one speaker
ADAPTATION_PASSES = 2  # hypotheses from which the transform is estimated
RESCORED = 100  # sentences rescored by another language model


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """Words and phones with their times in seconds.

    `confidences` are those of the words, in [0, 1]; empty if none were requested, as are `alternatives`, the best
    distinct texts with their posterior probabilities, and `lattices`, one for each part of a long recording. `complete`
    is False if the recording, or a part of it, ends within a sentence.
    """

    words: tuple[Segment, ...] = ()
    phones: tuple[Segment, ...] = ()
    confidences: tuple[float, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()
    lattices: tuple[WordLattice, ...] = ()
    complete: bool = True
    duration: float = 0.0

    @property
    def text(self) -> str:
        return " ".join(word.label for word in self.words)

    @property
    def confidence(self) -> float:
        """The mean confidence of the words; 0 for none."""
        return float(np.mean(self.confidences)) if self.confidences else 0.0


@dataclass(frozen=True, kw_only=True)
class TranscriptSettings:
    """Outputs besides the words.

    Args:
        nbest: Number of alternative sentences.
        confidences: Whether words have confidences: posterior probabilities by the lattice, lowered for words that are
            less likely than nearly all speech of the heldout part.
        min_confidence: Words with a lower confidence are left out, such as those of noise.
        rescoring: A language model that rescores the best sentences of the lattice in place of the model's own.
        channel: The channel of recordings with several, counted from 0; None is their mean.
    """

    nbest: int = 1
    confidences: bool = False
    min_confidence: float = 0.0
    rescoring: NgramModel | None = None
    channel: int | None = None

    def __post_init__(self) -> None:
        checks.positive_int("nbest", self.nbest)
        if not 0.0 <= self.min_confidence <= 1.0:
            raise ValueError(f"min_confidence must lie between 0 and 1, got {self.min_confidence}.")

    @property
    def needs_lattice(self) -> bool:
        return self.confidences or self.nbest > 1 or self.min_confidence > 0 or self.rescoring is not None


def transcribe(
    model: AcousticModel, recordings: Sequence[Path], settings: TranscriptSettings | None = None
) -> list[Transcript]:
    """Decode the recordings of one speaker; cepstra are normalised by moments of all of them, given the model's prior.

    A speaker-adapted model decodes three times: the hypotheses of the first two passes give the transform of the
    speaker (fMLLR), if they have 5 s of speech. Silence and stationary noise give no words. A recording of more than 30
    s is cut at its pauses into parts of 10 to 30 s, which are decoded separately. O(T) in time; memory of the cepstra
    and model inputs of all recordings, and of the likelihoods of one part.
    """
    settings = settings or TranscriptSettings()
    durations: list[float] = []
    parts: dict[tuple[int, int], Array] = {}  # frames by the place of their recording and their first frame
    for place, path in enumerate(recordings):
        duration, own = _speech_parts(model, path, settings.channel)
        durations.append(duration)
        parts |= {(place, first): frames for first, frames in own.items()}
    if not parts:
        return [Transcript(duration=duration) for duration in durations]
    if model.prior is not None:
        moments = model.prior.moments(parts.values())
    else:
        moments = group_moments((SPEAKER, frames) for frames in parts.values())[SPEAKER]
    normalized = {f"{place} {first}": normalize(frames, moments) for (place, first), frames in parts.items()}
    model, inputs = _inputs(model, normalized)
    decoded: list[list[Transcript]] = [[] for _ in durations]
    shift, _ = model.frame_times
    for place, first in parts:
        transcript = _transcript(model, inputs.pop(f"{place} {first}"), settings)
        decoded[place].append(delayed(transcript, shift * first))
    return [
        replace(_joined(transcripts, settings.nbest), duration=duration)
        for transcripts, duration in zip(decoded, durations, strict=True)
    ]


def group_by_speaker(
    model: AcousticModel, recordings: Sequence[Path], *, channel: int | None = None
) -> list[list[Path]]:
    """The recordings of each speaker and microphone, for `transcribe`; see `cluster_recordings`.

    A group has at most an hour of speech, for the sake of memory. Recordings without speech are groups by themselves,
    and so are all recordings if the model, of version 0.1, has no prior of speakers.
    """
    if model.prior is None or len(recordings) < 2:
        return [[path] for path in recordings]
    lengths: dict[int, int] = {}

    def cepstra() -> Iterator[Array]:
        for place, path in enumerate(recordings):
            if parts := _speech_parts(model, path, channel)[1]:
                frames = np.concatenate(list(parts.values()))
                lengths[place] = len(frames)
                yield frames

    clusters = cluster_recordings(model.prior, cepstra())
    places, groups = list(lengths), [[place] for place in range(len(recordings)) if place not in lengths]
    for members in clusters:
        size = MAX_GROUP_FRAMES
        for place in (places[k] for k in members):
            size += lengths[place]
            if size > MAX_GROUP_FRAMES:
                groups.append([])
                size = lengths[place]
            groups[-1].append(place)
    return [[recordings[place] for place in group] for group in sorted(groups)]


def _speech_parts(model: AcousticModel, path: Path, channel: int | None) -> tuple[float, dict[int, Array]]:
    """The duration of a recording, and the cepstra [T, d] of its parts that are not silent by their first frames."""
    front_end = model.front_end
    if front_end is None:
        raise ValueError("the model was trained on frames provided by a corpus; it cannot transcribe recordings.")
    shift, offset = model.frame_times
    meter = LevelMeter(front_end.rate)
    try:
        frames = front_end.of_blocks(meter.through(sample_blocks(path, rate=front_end.rate, channel=channel)))
    except AudioError:
        raise
    except ValueError:  # shorter than one frame
        return meter.duration, {}
    starts, levels = zip(*meter.parts(), strict=True)
    edges = [*(max(0, round((start - offset) / shift)) for start in starts), len(frames)]
    spoken = zip(pairwise(edges), levels, strict=True)
    return meter.duration, {first: frames[first:last] for (first, last), level in spoken if shows_speech(level)}


def speech_likelihood(model: AcousticModel, frames: Array, states: Array) -> Array:
    """Mean log likelihoods by the mixtures of chunks of frames of speech, given the state of each frame."""
    speech = ~np.isin(states, list(model.stage.silence_pdfs))
    scores = model.stage.mixtures.log_likelihoods(np.asarray(frames))[np.arange(len(states)), states][speech]
    chunks = max(1, len(scores) // CHUNK_FRAMES)
    return np.array([chunk.mean() for chunk in np.array_split(scores, chunks) if len(chunk)])


def _inputs(model: AcousticModel, cepstra: dict[str, Array]) -> tuple[AcousticModel, dict[str, Array]]:
    """The inputs of the model, adapted to the speaker of the recordings if that is possible, and the model of these.

    The second of two passes estimates the transform from hypotheses of the adapted frames.
    """
    gmm, speakers = model.stage, dict.fromkeys(cepstra, SPEAKER)
    frames, current = gmm.viewed(cepstra, speakers), model.speaker_independent if model.adapted else model
    for _ in range(ADAPTATION_PASSES if model.adapted else 0):
        states = {}
        for name in cepstra:
            hypothesis = _decode(current, current.log_likelihoods(frames[name]))
            if hypothesis is not None:
                states[name] = tied_states(gmm.hmm, hypothesis.transition_ids)
        speech = sum(int((~np.isin(y, list(gmm.silence_pdfs))).sum()) for y in states.values())
        if speech < MIN_ADAPTED_FRAMES:
            break
        for _ in range(ADAPTATION_ROUNDS):
            transforms = estimate_fmllr(gmm.mixtures, frames, states, ignored=gmm.silence_pdfs)
            frames = replace(frames, transforms=transforms)
        current = model
    return current, dict(frames)


def _decode(model: AcousticModel, likelihoods: Array) -> Hypothesis | None:
    """The best path, or None if none survives."""
    try:
        return decode(model.penalized_graph, likelihoods, acoustic_weight=model.weights.acoustic_weight)
    except NoPathError as error:
        logger.warning("no words: %s", error)
        return None


def _transcript(model: AcousticModel, frames: Array, settings: TranscriptSettings) -> Transcript:
    likelihoods = model.log_likelihoods(frames)
    hypothesis = _decode(model, likelihoods)
    if hypothesis is None:
        return Transcript(complete=False)
    lattice, sentences, words = None, [], hypothesis.words
    ids: Array = hypothesis.transition_ids
    confidences: list[float] = []
    if settings.needs_lattice:
        lattice = decode_lattice(model.penalized_graph, likelihoods, acoustic_weight=model.weights.acoustic_weight)
        sentences = _sentences(model, lattice, settings)
        confidences = lattice_confidences(lattice, words)
    if settings.rescoring is not None and sentences and sentences[0][0] != words:
        path = _aligned(model, sentences[0][0], likelihoods)
        if path is not None:
            words, ids = sentences[0][0], path
            confidences = nbest_confidences(words, sentences)
    transcript = with_times(model, words, ids, complete=hypothesis.complete)
    if settings.needs_lattice:
        likely = _likely(model, frames, ids, transcript.words)
        confidences = [p * share for p, share in zip(confidences[: len(likely)], likely, strict=True)]
        transcript = replace(
            transcript, confidences=tuple(confidences), lattices=() if lattice is None else (lattice,),
            alternatives=tuple((" ".join(tokens), p) for tokens, p in sentences[: settings.nbest]),
        )  # fmt: skip
    return _confident(transcript, settings.min_confidence)


def _sentences(
    model: AcousticModel, lattice: WordLattice, settings: TranscriptSettings
) -> list[tuple[tuple[str, ...], float]]:
    """The best distinct sentences with their posterior probabilities among those considered, best first."""
    count = max(settings.nbest, RESCORED if settings.rescoring is not None else 1)
    best = lattice.nbest(count)
    costs = np.array([cost for _, cost in best])
    if settings.rescoring is not None:
        if model.grammar is None:
            raise ValueError("the model has no language model of its own to replace; give the new one as --lm instead.")
        texts = [" ".join(words) for words, _ in best]
        costs += _log_probs(model.grammar, texts) - _log_probs(settings.rescoring, texts)
    order = np.argsort(costs, kind="stable")
    weights = np.exp(costs.min() - costs)
    return [(best[place][0], float(weights[place] / weights.sum())) for place in order]


def _log_probs(grammar: NgramModel, texts: Sequence[str]) -> Array:
    """ln p of each sentence."""
    return np.array([math.log(10) * grammar.score(grammar.encode([text])).sum() for text in texts])


def lattice_confidences(lattice: WordLattice, words: Sequence[str]) -> list[float]:
    """The posterior probability of each of `words`; 0 for one that is not on the best path of the lattice."""
    posteriors = lattice.word_posteriors()
    pairs = align(words, [entry.word for entry in posteriors])
    confidences, place = [], 0
    for word, other in pairs:
        if word is not None:
            confidences.append(posteriors[place].confidence if word == other else 0.0)
        place += other is not None
    return confidences


def nbest_confidences(words: Sequence[str], sentences: Iterable[tuple[tuple[str, ...], float]]) -> list[float]:
    """The total probability of the sentences that have each of `words` at its place, by minimum edit alignment.

    >>> nbest_confidences(("a", "b"), [(("a", "b"), 0.75), (("a",), 0.25)])
    [1.0, 0.75]
    """
    totals = np.zeros(len(words))
    for sentence, probability in sentences:
        reference = [pair for pair in align(words, sentence) if pair[0] is not None]
        totals += [probability * (word == other) for word, other in reference]
    return [min(1.0, float(total)) for total in totals]


def _likely(model: AcousticModel, frames: Array, ids: Array, words: Sequence[Segment]) -> list[float]:
    """A factor for each word: 1, or less if the speech there is less likely than 99 % of that of heldout.

    A word of fewer than 25 frames is judged with the frames of speech around it, since heldout was judged in chunks of
    25: some frames of noise always look like speech.
    """
    if model.likelihood is None:
        return [1.0] * len(words)
    mean, std = model.likelihood
    states = tied_states(model.hmm, ids)
    speech = np.flatnonzero(~np.isin(states, list(model.stage.silence_pdfs)))
    scores = model.stage.mixtures.log_likelihoods(np.asarray(frames)[speech])[np.arange(len(speech)), states[speech]]
    shift, offset = model.frame_times
    factors = []
    for word in words:
        edges = [round((time - offset) / shift) for time in (word.start, word.end)]
        first, last = np.searchsorted(speech, edges).tolist()
        missing = max(0, CHUNK_FRAMES - (last - first))
        first = max(0, min(first - missing // 2, len(speech) - CHUNK_FRAMES))
        own = scores[first : max(last, first + CHUNK_FRAMES)]
        factors.append(min(1.0, float(norm.cdf((own.mean() - mean) / std)) / UNLIKELY) if len(own) else 0.0)
    return factors


def _confident(transcript: Transcript, min_confidence: float) -> Transcript:
    if min_confidence == 0.0:
        return transcript
    kept = [k for k, confidence in enumerate(transcript.confidences) if confidence >= min_confidence]
    return replace(
        transcript, words=tuple(transcript.words[k] for k in kept),
        confidences=tuple(transcript.confidences[k] for k in kept),
    )  # fmt: skip


def delayed(transcript: Transcript, seconds: float) -> Transcript:
    """The transcript of a part that begins later in its recording."""
    words, phones = (
        tuple(s._replace(start=round(s.start + seconds, 6), end=round(s.end + seconds, 6)) for s in segments)
        for segments in (transcript.words, transcript.phones)
    )
    return replace(transcript, words=words, phones=phones)


def _joined(parts: Sequence[Transcript], nbest: int) -> Transcript:
    """The transcript of a recording from those of its parts, whose alternatives are independent."""
    if len(parts) == 1:
        return parts[0]
    alternatives = [("", 1.0)] if any(part.alternatives for part in parts) else []
    for part in parts:
        pairs = product(alternatives, part.alternatives) if part.alternatives else ()
        longer = [(f"{before} {text}".strip(), p * q) for (before, p), (text, q) in pairs]
        alternatives = sorted(longer, key=lambda pair: -pair[1])[:nbest] or alternatives
    return Transcript(
        words=tuple(chain.from_iterable(part.words for part in parts)),
        phones=tuple(chain.from_iterable(part.phones for part in parts)),
        confidences=tuple(chain.from_iterable(part.confidences for part in parts)),
        alternatives=tuple(alternatives),
        lattices=tuple(chain.from_iterable(part.lattices for part in parts)),
        complete=all(part.complete for part in parts),
    )


def _aligned(model: AcousticModel, words: Sequence[str], likelihoods: Array) -> Array | None:
    """The transition ids of the words by forced alignment."""
    shift, _ = model.frame_times
    utterance = Utterance(
        id=SPEAKER, speaker=SPEAKER, part="test", text=" ".join(words), frames="likelihoods", frame_shift=shift,
        duration=shift * len(likelihoods),
    )  # fmt: skip
    scores = FunctionScores(lambda _: likelihoods)
    return align_utterances(model.hmm, model.lexicon, [utterance], scores).paths.get(SPEAKER)


def with_times(model: AcousticModel, words: Sequence[str], ids: Array, *, complete: bool) -> Transcript:
    shift, offset = model.frame_times
    phones = phone_segments(model.hmm, ids, frame_shift=shift, offset=offset)
    silence = () if model.lexicon.silence is None else model.hmm.silence
    try:
        timed = word_segments(phones, words, model.lexicon, silence=silence)
    except ValueError:
        if complete:
            raise
        timed = _without_last_word(phones, words, model.lexicon, silence)
    return Transcript(words=timed, phones=phones, complete=complete)


def _without_last_word(
    phones: Sequence[Segment], words: Sequence[str], lexicon: Lexicon, silence: Sequence[str]
) -> tuple[Segment, ...]:
    """All words but the last, of which a recording that ends within it has only the first phones."""
    for stop in range(len(phones), -1, -1):
        try:
            return word_segments(phones[:stop], words[:-1], lexicon, silence=silence)
        except ValueError:
            continue
    return ()
