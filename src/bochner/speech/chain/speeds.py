"""More speech than was recorded: train played faster and slower, higher and lower."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner import checks
from bochner.speech.align.adapt import estimate_fmllr
from bochner.speech.align.views import ViewedFrames
from bochner.speech.audio import AudioError, read_audio, resample
from bochner.speech.chain.aligned import AlignedCorpus
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend.cmvn import group_moments, normalize

Array = NDArray[Any]
ROUNDS = 2  # of estimating a speaker's transform, as for new speakers


def at_speeds(aligned: AlignedCorpus, speeds: Sequence[float] = (0.9, 1.1)) -> AlignedCorpus:
    """The corpus with train's utterances played at other speeds beside them, as UTTERANCE@SPEED.

    Played 1.1 times as fast a voice is also higher, and so are its formants: almost another speaker, whose frames are
    normalised and adapted to apart. Frame t has the state of frame 1.1 t of the original. The frames are kept beside
    the others; a corpus without recordings is given back as it is. O(hours of train) for each speed.
    Source: Ko, Peddinti, Povey & Khudanpur 2015.
    """
    speeds = [checks.positive_float("speeds", speed) for speed in speeds]
    if aligned.front_end is None or not speeds:
        return aligned
    made = [_at_speed(aligned, speed) for speed in speeds]
    frames = {**aligned.frames, **{name: store[name] for store, _ in made for name in store}}
    states = {**aligned.states, **{name: y for _, given in made for name, y in given.items()}}
    extra = tuple(name for store, _ in made for name in store)
    return dataclasses.replace(aligned, frames=frames, states=states, extra=extra)


def _at_speed(aligned: AlignedCorpus, speed: float) -> tuple[FrameStore, dict[str, Array]]:
    said = [one for one in aligned.corpus.part("train") if one.id in aligned.frames and one.id in aligned.states]
    kept = aligned.seen / f"speed_{speed:g}"
    if not kept.exists():
        cepstra = dict(_cepstra(aligned, said, speed))
        speakers = {_name(one.id, speed): one.speaker for one in said}
        states = {name: _stretched(aligned, name, len(x), speed) for name, x in cepstra.items()}
        write_frames(kept, _seen(aligned, cepstra, speakers, states).items(), about={"speed": speed})
    store = FrameStore(kept)
    return store, {name: _stretched(aligned, name, size, speed) for name, size in store.sizes.items()}


def _name(utterance: str, speed: float) -> str:
    return f"{utterance}@{speed:g}"


def _cepstra(aligned: AlignedCorpus, said: Sequence[Any], speed: float) -> Iterator[tuple[str, Array]]:
    made = aligned.front_end
    assert made is not None
    for one in said:
        try:
            samples = read_audio(one, folder=aligned.corpus.folder)
            yield _name(one.id, speed), made(resample(samples, rate=round(one.rate * speed), new_rate=one.rate))
        except (AudioError, ValueError):  # too short when it is faster
            continue


def _stretched(aligned: AlignedCorpus, name: str, num_frames: int, speed: float) -> Array:
    """The states of an original for as many frames as it has at another speed."""
    states = np.asarray(aligned.states[name.rpartition("@")[0]])
    return states[np.rint(np.arange(num_frames) * speed).astype(int).clip(0, len(states) - 1)]


def _seen(
    aligned: AlignedCorpus, cepstra: Mapping[str, Array], speakers: Mapping[str, str], states: Mapping[str, Array]
) -> dict[str, Array]:
    """The frames as the stage sees them, each speaker normalised and adapted to anew."""
    moments = group_moments((speakers[name], frames) for name, frames in cepstra.items())
    normal = {name: normalize(frames, moments[speakers[name]]) for name, frames in cepstra.items()}
    stage = aligned.stage
    seen = ViewedFrames(normal, stage.view, speakers, {})
    for _ in range(ROUNDS if stage.transforms else 0):
        transforms = estimate_fmllr(stage.mixtures, seen, states, ignored=stage.silence_pdfs)
        seen = dataclasses.replace(seen, transforms=transforms)
    return dict(seen)
