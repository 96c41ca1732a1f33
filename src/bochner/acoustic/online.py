"""Online decoding: the words of a stream of samples as it arrives."""

from __future__ import annotations

import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bochner import checks
from bochner.acoustic.transcription import delayed, with_times
from bochner.speech.audio import Samples, resampled_blocks
from bochner.speech.decode import Hypothesis, NoPathError, StreamDecoder
from bochner.speech.frontend.postprocess import Moments, normalize
from bochner.speech.levels import LEVEL_SECONDS, LevelMeter, shows_speech
from bochner.speech.manifest import Segment

if TYPE_CHECKING:
    from bochner.acoustic.model import AcousticModel

Array = NDArray[Any]
CHUNK_SECONDS = 0.1  # read from a stream at a time
MOMENT_FRAMES = 3000  # the last 30 s, from which the moments of the speaker are estimated
SAMPLE_TYPES = {1: "u1", 2: "<i2", 4: "<i4"}  # bytes per sample of PCM


@dataclass(frozen=True)
class PartialTranscript:
    """The words of a sentence so far; `final` if the sentence has ended and its words no longer change.

    `start` and `end` are the seconds of the stream that were decoded for them. `words` have times if final.
    """

    text: str
    start: float
    end: float
    final: bool
    words: tuple[Segment, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StreamSettings:
    """When sentences end, and how frames are normalised.

    Args:
        pause: Seconds of silence after words that end a sentence.
        max_seconds: The length at which a sentence is ended in any case. It bounds memory.
        moments: Those of the speaker, if known, which normalise all frames. None estimates them from the last 30 s
            before each frame by the prior of the model.
    """

    pause: float = 0.5
    max_seconds: float = 30.0
    moments: Moments | None = None

    def __post_init__(self) -> None:
        checks.positive_float("pause", self.pause)
        checks.positive_float("max_seconds", self.max_seconds)


def transcribe_stream(
    model: AcousticModel, blocks: Iterable[Samples], settings: StreamSettings | None = None
) -> Iterator[PartialTranscript]:
    """The words of a stream of samples at the rate of `model.front_end`, in blocks [n] of any sizes.

    Yields the sentence so far after each block that changes it, and each sentence once more when it has ended. A block
    is decoded as soon as it arrives, but for the last `latency(model)` seconds, the context of its last frames. The
    frames of a speaker-adapted model are not adapted to the speaker of the stream; `bochner adapt` makes a model that
    is. Each frame is scored once. Memory of a sentence and of 30 s of frames.
    """
    settings = settings or StreamSettings()
    model = model.speaker_independent if model.adapted else model
    front_end = model.front_end
    if front_end is None:
        raise ValueError("the model was trained on frames provided by a corpus; it cannot transcribe recordings.")
    if settings.moments is None and model.prior is None:
        raise ValueError("the model was saved by 0.1 and has no prior of speakers; settings.moments must be given.")
    meter = LevelMeter(front_end.rate)
    sentence = _Sentence(model, settings, 0)
    recent: list[Array] = []
    last_text = ""
    try:
        for frames in front_end.stream(meter.through(blocks)):
            recent.append(frames)
            while sum(map(len, recent[1:])) > MOMENT_FRAMES:
                del recent[0]
            sentence.add(frames, _moments(model, settings, recent))
            transcript = sentence.transcript(meter, final=sentence.has_ended())
            if transcript.final:
                sentence = sentence.next()
            if transcript.text if transcript.final else transcript.text != last_text:
                yield transcript
            last_text = "" if transcript.final else transcript.text
    except ValueError:
        if recent:
            raise
        return  # shorter than one frame
    sentence.finish(_moments(model, settings, recent))
    transcript = sentence.transcript(meter, final=True)
    if transcript.text:
        yield transcript


def latency(model: AcousticModel) -> float:
    """Seconds from the time that a frame represents to the last sample that its score depends on."""
    assert model.front_end is not None
    shift, offset = model.frame_times
    return shift * (_view_reach(model) + model.splicer.right) + model.front_end.frame_length - offset


def _view_reach(model: AcousticModel) -> int:
    """Frames on each side of a frame that its view depends on: deltas of order k are filters of 4 k + 1 taps."""
    return 2 * model.stage.view.deltas + model.stage.view.context


def _moments(model: AcousticModel, settings: StreamSettings, recent: list[Array]) -> Moments:
    if settings.moments is not None:
        return settings.moments
    assert model.prior is not None
    return model.prior.moments(recent)


class _Sentence:
    """Frames since the last end of a sentence, and the decoder that has read those whose context is complete.

    Frames are scored once, with the moments of that time. The context of a frame is normalised by the same moments.
    """

    def __init__(self, model: AcousticModel, settings: StreamSettings, first: int) -> None:
        self.model, self.settings, self.first = model, settings, first
        self.frames = np.zeros((0, 0), np.float32)
        self.decoder = StreamDecoder(model.penalized_graph, acoustic_weight=model.weights.acoustic_weight)

    def add(self, frames: Array, moments: Moments) -> None:
        self.frames = np.concatenate([self.frames, frames]) if len(self.frames) else frames
        self._advance(len(self.frames) - _view_reach(self.model) - self.model.splicer.right, moments)

    def finish(self, moments: Moments) -> None:
        """Decode the last frames, whose context is the end of the stream."""
        self._advance(len(self.frames), moments)

    def _advance(self, stop: int, moments: Moments) -> None:
        done = self.num_decoded
        if stop <= done:
            return
        model, reach = self.model, _view_reach(self.model)
        start = max(0, done - model.splicer.left - reach)
        window = normalize(self.frames[start : stop + model.splicer.right + reach], moments)
        self.decoder.advance(model.log_likelihoods(model.stage.view(window))[done - start : stop - start])

    @property
    def num_decoded(self) -> int:
        return self.decoder.num_frames

    def hypothesis(self, *, ended: bool) -> Hypothesis | None:
        if not self.num_decoded:
            return None
        try:
            return self.decoder.hypothesis(ended=ended)
        except NoPathError:
            return None

    @property
    def start(self) -> float:
        return self.first * self.model.frame_times[0]

    def has_ended(self) -> bool:
        """Whether the last frames are silence, for as long as a pause, after words; or the sentence is too long."""
        shift, _ = self.model.frame_times
        if self.num_decoded * shift >= self.settings.max_seconds:
            return True
        hypothesis = self.hypothesis(ended=False)
        if hypothesis is None or not hypothesis.words:
            return False
        hmm = self.model.hmm
        silence = [hmm.phone_ids[name] for name in hmm.silence]
        is_speech = ~np.isin(hmm.table.phone[hypothesis.transition_ids], silence)
        num_silent = len(is_speech) - 1 - int(np.flatnonzero(is_speech).max(initial=-1))
        return num_silent * shift >= self.settings.pause

    def next(self) -> _Sentence:
        """The sentence after this one, with the frames that were not decoded yet."""
        following = _Sentence(self.model, self.settings, self.first + self.num_decoded)
        following.frames = self.frames[self.num_decoded :]
        return following

    def transcript(self, meter: LevelMeter, *, final: bool) -> PartialTranscript:
        """The words so far; none if the stream has been silent or a hum."""
        shift, _ = self.model.frame_times
        times = (round(self.start, 6), round(self.start + self.num_decoded * shift, 6))
        hypothesis = self.hypothesis(ended=final)
        levels = meter.levels[int(self.start / LEVEL_SECONDS) :]
        if hypothesis is None or not len(levels) or not shows_speech(levels):
            return PartialTranscript("", *times, final)
        if not final:
            return PartialTranscript(" ".join(hypothesis.words), *times, final)
        whole = with_times(self.model, hypothesis.words, hypothesis.transition_ids, complete=hypothesis.complete)
        return PartialTranscript(whole.text, *times, final, delayed(whole, self.start).words)


def wave_blocks(stream: BinaryIO, *, rate: int, channel: int | None = None) -> Iterator[Samples]:
    """The samples of a WAV file of PCM as they are read from a pipe, at `rate`, in blocks of 0.1 s.

    Of several channels the mean is read, or the given `channel`, counted from 0. The length in the header, which
    recorders do not know in advance, may exceed the stream.
    """
    try:
        file = wave.open(stream)  # noqa: SIM115  # the caller's stream
    except (wave.Error, EOFError) as error:
        raise ValueError(f"the stream must be a WAV file of PCM: {error or 'no header'}.") from error
    if file.getsampwidth() not in SAMPLE_TYPES:
        raise ValueError(f"the stream must have 8, 16 or 32 bits per sample, got {8 * file.getsampwidth()}.")
    if channel is not None and not 0 <= channel < file.getnchannels():
        raise ValueError(f"channel must be below {file.getnchannels()}, the channels of the stream, got {channel}.")
    blocks = _read_blocks(file, channel)
    return blocks if file.getframerate() == rate else resampled_blocks(blocks, rate=file.getframerate(), new_rate=rate)


def _read_blocks(file: wave.Wave_read, channel: int | None) -> Iterator[Samples]:
    width = file.getsampwidth()
    while content := file.readframes(round(CHUNK_SECONDS * file.getframerate())):
        whole = len(content) // (width * file.getnchannels()) * width * file.getnchannels()
        integers = np.frombuffer(content[:whole], SAMPLE_TYPES[width]).astype(np.float64)
        samples = ((integers - 128 * (width == 1)) / 2 ** (8 * width - 1)).astype(np.float32)
        channels = samples.reshape(-1, file.getnchannels())
        yield channels.mean(axis=1) if channel is None else channels[:, channel]
