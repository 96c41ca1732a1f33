"""An aligned corpus as acoustic models read it, and speed perturbation of its training part."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner import checks
from bochner.speech.align import GmmHmm
from bochner.speech.align.em import estimate_fmllr
from bochner.speech.align.gmm_hmm import ViewedFrames
from bochner.speech.audio import AudioError, read_audio, resample
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.decode import Search
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend import Mfcc, Plp
from bochner.speech.frontend.postprocess import group_moments, normalize
from bochner.speech.graph import DecodingGraph
from bochner.speech.lm.ngram import NgramModel
from bochner.speech.pipeline.alignment import Work, front_end_from
from bochner.speech.pipeline.decoding import FirstPass, language_model, stage_name
from bochner.speech.pipeline.scoring import protocol_for
from bochner.speech.score import Protocol

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class AlignedCorpus:
    """What `open_aligned` gives.

    `frames` are as the stage sees them [T, d]: LDA, MLLT and, after SAT, moved towards the model by a transform for
    each speaker, which for speakers outside train comes from what the stage before recognised, never from what they
    said; they lie in the folder `seen`. `states` are the tied states of all frames, by forced alignment with the
    transcripts. `extra` names utterances of train that were made of others (see `at_speeds`).
    """

    corpus: SpeechCorpus
    folder: Path
    stage: GmmHmm
    frames: Mapping[str, Array]
    states: Mapping[str, Array]
    grammar: NgramModel
    graph: DecodingGraph
    seen: Path
    extra: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        return self.stage.hmm.num_pdfs

    @property
    def silence_states(self) -> frozenset[int]:
        return self.stage.silence_pdfs

    @cached_property
    def protocol(self) -> Protocol:
        """By which errors are counted."""
        return protocol_for(self.corpus, None)

    def ids(self, part: str) -> list[str]:
        """The utterances of a part that have frames and states."""
        names = [said.id for said in self.corpus.part(part)] + list(self.extra if part == "train" else ())
        return [name for name in names if name in self.frames and name in self.states]

    @property
    def front_end(self) -> Mfcc | Plp | None:
        """What made the cepstra; None where the corpus gave frames."""
        return front_end_from(FrameStore(self.folder / "raw").about["frontend"])

    def gmm_scores(self) -> Callable[[str], Array]:
        """Log likelihoods [T, num_states] of an utterance by the stage's own mixtures."""

        def scores(name: str) -> Array:
            return self.stage.mixtures.log_likelihoods(self.frames[name])

        return scores

    def with_states(self, states: Mapping[str, Array]) -> AlignedCorpus:
        """The same with other labels of the same states."""
        return dataclasses.replace(self, states=states)


def open_aligned(
    corpus: Path, aligned: Path, *, stage: str | None = None, order: int = 2, work: Work | None = None
) -> AlignedCorpus:
    """The corpus that `align_corpus` aligned into the folder `aligned`, by its last stage unless one is named.

    The frames, one more pass of decoding for each part outside train after SAT, are kept in
    `aligned`/seen_STAGE_orderN; the graph of an n-gram of train's texts in `aligned`/graphs.
    """
    work, name = work or Work(), stage_name(aligned, stage)
    spoken = SpeechCorpus.read(corpus)
    grammar = language_model(spoken, order)
    first = FirstPass(spoken, aligned, grammar, Search(), work)
    trained = GmmHmm.load(aligned / name)
    target = aligned / f"seen_{name}_order{order}"
    if not (target / "frames").exists():
        work.say("frames", f"as {name} sees them: {len(spoken.utterances):,} utterances")
        write_frames(target / "frames", _seen(first, name, trained, target), about={"stage": name})
    states = FrameStore(aligned / "aligned" / name / "states")
    return AlignedCorpus(
        spoken, aligned, trained, FrameStore(target / "frames"), states, grammar, first.graph(trained), target
    )


def _seen(first: FirstPass, name: str, trained: GmmHmm, target: Path) -> Iterator[tuple[str, Array]]:
    for part in first.corpus.parts:
        said = [one for one in first.corpus.part(part) if one.id in first.frames]
        stage = trained if part == "train" else first.adapted(name, said, target)
        seen = stage.seen(first.frames, first.corpus.speaker_of)
        yield from ((one.id, seen[one.id]) for one in said)


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
        write_frames(kept, _speeds_seen(aligned, cepstra, speakers, states).items(), about={"speed": speed})
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


def _speeds_seen(
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
