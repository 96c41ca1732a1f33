"""An aligned corpus as acoustic models read it, and speed perturbation of its training part."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np

from bochner import checks
from bochner.speech.align import GmmHmm
from bochner.speech.align.em import ADAPTATION_ROUNDS, estimate_fmllr
from bochner.speech.align.gmm_hmm import ViewedFrames, blocks
from bochner.speech.audio import read_audio, resample
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.decode import Search
from bochner.speech.frames import Array, FrameStore, write_frames
from bochner.speech.frontend import Mfcc, Plp
from bochner.speech.frontend.postprocess import group_moments, normalize, smoothed, stored_prior
from bochner.speech.frontend.speaker_prior import SpeakerPrior
from bochner.speech.graph import DecodingGraph
from bochner.speech.hmm.mixtures import Mixtures, MixtureStatistics, accumulate, update
from bochner.speech.lm import NgramModel
from bochner.speech.manifest import Utterance
from bochner.speech.pipeline.alignment import Execution, front_end_from
from bochner.speech.pipeline.decoding import FirstPass, stage_name, train_language_model, with_probabilities
from bochner.speech.pipeline.scoring import protocol_for
from bochner.speech.score import Protocol

logger = logging.getLogger(__name__)
MIN_ADAPTED_FRAMES = 500  # of speech: recordings with fewer are not adapted to their speaker
SINGLE_SPEEDS = (0.9, 1.1)  # of recordings that are too short for adaptation
UNADAPTED_ITERATIONS = 4  # of EM for the mixtures of unadapted frames


@dataclass(frozen=True, eq=False)
class AlignedCorpus:
    """The result of `open_aligned`.

    `frames` [T, d] are the inputs of `gmm`: after LDA and MLLT and, for a GMM with SAT, transformed by speaker. The
    transforms of speakers outside train come from the hypotheses of the stage before, never from their transcripts.
    They are stored in `frames_dir`. `states` are the tied states of all frames, by forced alignment with the
    transcripts. `perturbed` names the utterances of train that `at_speeds` and
    `with_single_recordings` added.
    """

    corpus: SpeechCorpus
    directory: Path
    gmm: GmmHmm
    frames: Mapping[str, Array]
    states: Mapping[str, Array]
    grammar: NgramModel
    graph: DecodingGraph
    frames_dir: Path
    perturbed: tuple[str, ...] = ()

    @property
    def num_states(self) -> int:
        return self.gmm.hmm.num_pdfs

    @property
    def silence_states(self) -> frozenset[int]:
        return self.gmm.silence_pdfs

    @cached_property
    def protocol(self) -> Protocol:
        """The protocol of error rates."""
        return protocol_for(self.corpus, None)

    def ids(self, part: str) -> list[str]:
        """The utterances of a part that have frames and states."""
        names = [utterance.id for utterance in self.corpus.part(part)]
        names += self.perturbed if part == "train" else ()
        return [name for name in names if name in self.frames and name in self.states]

    @cached_property
    def prior(self) -> SpeakerPrior | None:
        """What gives the moments of new speakers, fitted to train once; None in corpora aligned by 0.1."""
        store, file = FrameStore(self.directory / "frames"), self.directory / "speaker_prior.safetensors"
        average = stored_prior(store)
        if average is None:
            return None
        if not file.exists():
            train = [store[utterance.id] for utterance in self.corpus.part("train") if utterance.id in store]
            SpeakerPrior.fit(average, train).save(file)
        return SpeakerPrior.load(file)

    @cached_property
    def unadapted_mixtures(self) -> Mixtures | None:
        """Mixtures of the same states for a recording that is not adapted to its speaker, estimated once.

        The mixtures of SAT expect frames that fMLLR has transformed. Beginning with these, EM estimates Gaussians of
        the frames of `single_recordings`. None without SAT, and where the corpus provides frames. O(iterations T d).
        Kaldi calls such a model final.alimdl.
        """
        if not self.gmm.transforms or self.prior is None or self.front_end is None:
            return None
        frames, states = single_recordings(self)
        file = self.frames_dir / f"unadapted_{frames.directory.name}.safetensors"
        if not file.exists():
            mixtures = self.gmm.mixtures
            for _ in range(UNADAPTED_ITERATIONS):
                sums = MixtureStatistics.zeros(num_gaussians=mixtures.num_gaussians, dim=mixtures.dim)
                for X, y in blocks(frames, states):
                    sums += accumulate(mixtures, X, y)
                mixtures = update(mixtures, sums)
            mixtures.save(file)
        return Mixtures.load(file)

    @property
    def front_end(self) -> Mfcc | Plp | None:
        """The front end of the cepstra; None where the corpus provides frames."""
        return front_end_from(FrameStore(self.directory / "raw").about["frontend"])

    def as_single_recording(self, cepstra: Array) -> Array:
        """The inputs of the GMM of a recording that is normalised by itself and not adapted to its speaker."""
        assert self.prior is not None
        return self.gmm.view(normalize(cepstra, self.prior.moments([cepstra])))

    def gmm_scores(self) -> Callable[[str], Array]:
        """Log likelihoods [T, num_states] of an utterance by the mixtures of the GMM."""
        return lambda name: self.gmm.mixtures.log_likelihoods(self.frames[name])

    def with_states(self, states: Mapping[str, Array]) -> AlignedCorpus:
        """The same corpus with another alignment to the same states."""
        return dataclasses.replace(self, states=states)


def open_aligned(
    corpus: SpeechCorpus,
    aligned_dir: Path,
    *,
    stage: str | None = None,
    order: int = 2,
    pronunciation_probabilities: bool = False,
    execution: Execution | None = None,
) -> AlignedCorpus:
    """Open what `align_corpus` wrote into `aligned_dir`, by its last stage unless `stage` names another.

    The frames are kept in `aligned_dir`/seen_STAGE_orderN; after SAT they take one more decoding pass over each part
    outside train. The graph of an n-gram model of train's transcripts is kept in `aligned_dir`/graphs. With
    `pronunciation_probabilities`, the lexicon has those of train's alignment.
    """
    name = stage_name(aligned_dir, stage)
    grammar = train_language_model(corpus, order)
    first_pass = FirstPass(corpus, aligned_dir, grammar, Search(), execution or Execution())
    gmm = GmmHmm.load(aligned_dir / name)
    target = aligned_dir / f"seen_{name}_order{order}"
    if not (target / "frames").exists():
        logger.info("frames: inputs of %s for %s utterances", name, f"{len(corpus.utterances):,}")
        write_frames(target / "frames", _inputs_of_gmm(first_pass, name, gmm, target), about={"stage": name})
    states = FrameStore(aligned_dir / "aligned" / name / "states")
    if pronunciation_probabilities:
        corpus = dataclasses.replace(corpus, lexicon=with_probabilities(corpus, gmm))
    graph = first_pass.graph(gmm, corpus.lexicon)
    return AlignedCorpus(corpus, aligned_dir, gmm, FrameStore(target / "frames"), states, grammar, graph, target)


def _inputs_of_gmm(first_pass: FirstPass, name: str, gmm: GmmHmm, target: Path) -> Iterator[tuple[str, Array]]:
    for part in first_pass.corpus.parts:
        utterances = [utterance for utterance in first_pass.corpus.part(part) if utterance.id in first_pass.frames]
        model = gmm if part == "train" else first_pass.adapted(name, utterances, target)
        frames = model.viewed(first_pass.frames, first_pass.corpus.speaker_of)
        yield from ((utterance.id, frames[utterance.id]) for utterance in utterances)


def at_speeds(aligned: AlignedCorpus, speeds: Sequence[float] = (0.9, 1.1)) -> AlignedCorpus:
    """Speed perturbation: the corpus with train's utterances also at other speeds, named UTTERANCE@SPEED.

    At 1.1 times the speed the pitch and formants of a voice are higher as well, almost those of another speaker, so its
    frames are normalised and adapted separately. Frame t has the state of frame 1.1 t of the original. The frames are
    kept in `frames_dir`; a corpus without recordings is returned unchanged. O(hours of train) per speed.
    Source: Ko, Peddinti, Povey & Khudanpur 2015.
    """
    speeds = [checks.positive_float("speeds", speed) for speed in speeds]
    front_end = aligned.front_end
    if front_end is None or not speeds:
        return aligned
    stores = [_perturbed_frames(aligned, front_end, speed) for speed in speeds]
    frames = {**aligned.frames, **{name: store[name] for store in stores for name in store}}
    states = {
        name: _perturbed_states(aligned, name, size, speed)
        for store, speed in zip(stores, speeds, strict=True)
        for name, size in store.sizes.items()
    }
    return dataclasses.replace(aligned, frames=frames, states={**aligned.states, **states}, perturbed=tuple(states))


def with_single_recordings(aligned: AlignedCorpus) -> AlignedCorpus:
    """The corpus with train's utterances also as they are when transcribed alone, see `single_recordings`.

    Where every utterance is a speaker of its own already, nothing is added.
    """
    utterances = aligned.corpus.part("train")
    if len({utterance.speaker for utterance in utterances}) == len(utterances) or aligned.prior is None:
        return aligned
    frames, states = single_recordings(aligned)
    return dataclasses.replace(
        aligned, frames={**aligned.frames, **frames}, states={**aligned.states, **states},
        perturbed=(*aligned.perturbed, *frames),
    )  # fmt: skip


def single_recordings(aligned: AlignedCorpus) -> tuple[FrameStore, dict[str, Array]]:
    """Frames and states of train's utterances as they are when transcribed alone, named UTTERANCE@alone.

    Each is normalised by the moments that `SpeakerPrior` estimates from it, and not adapted to its speaker. If most
    utterances are too short for `bochner transcribe` to adapt to their speakers, they are included at other speeds, too
    (UTTERANCE@0.9@alone): without a transform, models need more voices than those of train. The frames are kept in
    `frames_dir`. O(hours of train) per speed.
    """
    front_end = aligned.front_end
    utterances = [u for u in aligned.corpus.part("train") if u.id in aligned.frames and u.id in aligned.states]
    is_short = np.median([len(aligned.frames[u.id]) for u in utterances]) < MIN_ADAPTED_FRAMES
    speeds = SINGLE_SPEEDS if is_short and front_end is not None else ()
    directory = aligned.frames_dir / "_".join(["alone", *(f"{speed:g}" for speed in speeds)])
    if not directory.exists():
        raw = FrameStore(aligned.directory / "raw")
        cepstra = chain(
            ((utterance.id, raw[utterance.id]) for utterance in utterances),
            *(_cepstra(aligned.corpus, utterances, front_end, speed) for speed in speeds if front_end is not None),
        )
        frames = ((f"{name}@alone", aligned.as_single_recording(x)) for name, x in cepstra)
        write_frames(directory, frames, about={"speeds": [1.0, *speeds]})
    store = FrameStore(directory)
    speed_of = {_perturbed_name(u, speed): speed for u in utterances for speed in speeds}
    states = {}
    for name, size in store.sizes.items():
        source = name.removesuffix("@alone")
        changed = source in speed_of
        states[name] = _perturbed_states(aligned, source, size, speed_of[source]) if changed else aligned.states[source]
    return store, states


def _perturbed_frames(aligned: AlignedCorpus, front_end: Mfcc | Plp, speed: float) -> FrameStore:
    directory = aligned.frames_dir / f"speed_{speed:g}"
    if not directory.exists():
        utterances = [
            utterance
            for utterance in aligned.corpus.part("train")
            if utterance.id in aligned.frames and utterance.id in aligned.states
        ]
        cepstra = dict(_cepstra(aligned.corpus, utterances, front_end, speed))
        speakers = {_perturbed_name(utterance, speed): utterance.speaker for utterance in utterances}
        frames = _adapted_frames(aligned, cepstra, speakers, speed)
        write_frames(directory, frames.items(), about={"speed": speed})
    return FrameStore(directory)


def _perturbed_name(utterance: Utterance, speed: float) -> str:
    return f"{utterance.id}@{speed:g}"


def _cepstra(
    corpus: SpeechCorpus, utterances: Sequence[Utterance], front_end: Mfcc | Plp, speed: float
) -> Iterator[tuple[str, Array]]:
    lost: list[Exception] = []
    for utterance in utterances:
        try:
            samples = read_audio(utterance, corpus_dir=corpus.directory)
            assert utterance.rate is not None
            resampled = resample(samples, rate=round(utterance.rate * speed), new_rate=utterance.rate)
            yield _perturbed_name(utterance, speed), front_end(resampled)
        except ValueError as error:  # not readable, or shorter than one frame at this speed
            lost.append(error)
    if lost:
        counts = f"{len(lost)} of {len(utterances)} recordings"
        logger.warning("%s at %g times the speed are left out of train, such as %s", counts, speed, lost[0])


def _perturbed_states(aligned: AlignedCorpus, name: str, num_frames: int, speed: float) -> Array:
    """The states of the original, resampled to the number of frames at another speed."""
    states = np.asarray(aligned.states[name.rpartition("@")[0]])
    return states[np.rint(np.arange(num_frames) * speed).astype(int).clip(0, len(states) - 1)]


def _adapted_frames(
    aligned: AlignedCorpus, cepstra: Mapping[str, Array], speakers: Mapping[str, str], speed: float
) -> dict[str, Array]:
    """The inputs of the GMM, with each speaker normalised and adapted at this speed."""
    moments = group_moments((speakers[name], frames) for name, frames in cepstra.items())
    if aligned.prior is not None:
        moments = {speaker: smoothed(own, aligned.prior.average) for speaker, own in moments.items()}
    normal = {name: normalize(frames, moments[speakers[name]]) for name, frames in cepstra.items()}
    states = {name: _perturbed_states(aligned, name, len(frames), speed) for name, frames in cepstra.items()}
    gmm = aligned.gmm
    viewed = ViewedFrames(normal, gmm.view, speakers, {})
    for _ in range(ADAPTATION_ROUNDS if gmm.transforms else 0):
        transforms = estimate_fmllr(gmm.mixtures, viewed, states, ignored=gmm.silence_pdfs)
        viewed = dataclasses.replace(viewed, transforms=transforms)
    return dict(viewed)
