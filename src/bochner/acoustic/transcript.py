"""From a recording to words with their times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from bochner.speech.align import GmmHmm, phone_segments, tied_states, word_segments
from bochner.speech.align.em import estimate_fmllr
from bochner.speech.audio import read_samples, recording_length, resample
from bochner.speech.decode import Hypothesis, decode
from bochner.speech.frontend.postprocess import group_moments, normalize
from bochner.speech.manifest import Segment

if TYPE_CHECKING:
    from bochner.acoustic.model import AcousticModel

Array = NDArray[Any]
SPEAKER = "speaker"


@dataclass(frozen=True)
class Transcript:
    """Words with their times in seconds; `complete` is False where the recording broke off within a sentence."""

    words: tuple[Segment, ...]
    complete: bool

    @property
    def text(self) -> str:
        return " ".join(word.label for word in self.words)


def transcribe(model: AcousticModel, audio: Path) -> Transcript:
    """Cepstra, normalised over the recording; what is heard; where the model was trained on adapted speakers, the
    transform that fits what was heard, and what is heard then.

    A recording with too little speech for a transform (5 s) is taken as it is. O(T) of each step.
    """
    cepstra = _cepstra(model, audio)
    found = _heard(model, model.stage.view(cepstra))
    if model.adapted:
        found = _heard(model, _adapted(model.stage, cepstra, found))
    return _timed(model, found)


def _cepstra(model: AcousticModel, audio: Path) -> Array:
    if model.front_end is None:
        raise ValueError("the model was trained on frames that a corpus gave; it cannot hear recordings.")
    _, rate = recording_length(audio)
    samples = resample(read_samples(audio, rate=rate), rate=rate, new_rate=model.front_end.rate)
    frames = model.front_end(samples)
    return normalize(frames, group_moments([(SPEAKER, frames)])[SPEAKER])


def _heard(model: AcousticModel, frames: Array) -> Hypothesis:
    graph = model.graph.with_word_penalty(model.weights.word_penalty)
    return decode(graph, model.log_likelihoods(frames), acoustic_weight=model.weights.acoustic_weight)


def _adapted(stage: GmmHmm, cepstra: Array, heard: Hypothesis) -> Array:
    """The frames moved towards the stage's mixtures of the states that were heard."""
    alone = {SPEAKER: SPEAKER}
    seen = stage.viewed({SPEAKER: cepstra}, alone)
    states = {SPEAKER: tied_states(stage.hmm, heard.transition_ids)}
    transforms = estimate_fmllr(stage.mixtures, seen, states, ignored=stage.silence_pdfs)
    return replace(stage, transforms=transforms).viewed({SPEAKER: cepstra}, alone)[SPEAKER]


def _timed(model: AcousticModel, heard: Hypothesis) -> Transcript:
    made = model.front_end
    assert made is not None
    offset = (made.frame_length - made.frame_shift) / 2
    phones = phone_segments(model.hmm, heard.transition_ids, frame_shift=made.frame_shift, offset=offset)
    silence = () if model.lexicon.silence is None else model.hmm.silence
    return Transcript(word_segments(phones, heard.words, model.lexicon, silence=silence), heard.complete)
