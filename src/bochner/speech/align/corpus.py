"""What a recipe trains on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from bochner.speech.align.forced import Alignments, Graphs, MixtureScores, Search, align_equally, align_utterances
from bochner.speech.align.stage import Stage, View, ViewedFrames
from bochner.speech.hmm.contexts import segment_events
from bochner.speech.hmm.model import Hmm
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance

Array = NDArray[Any]


KEPT_BYTES = 2**30


class _Kept:
    """Frames that one view made."""

    def __init__(self) -> None:
        self.view: View | None = None
        self.frames: dict[str, Array] = {}


@dataclass(frozen=True, eq=False)
class Corpus:
    """Utterances, their frames (normalised already), the words' pronunciations, and how to align them."""

    lexicon: Lexicon
    utterances: Sequence[Utterance]
    frames: Mapping[str, Array]
    search: Search
    silence_probability: float = 0.5
    frame_shift: float = 0.01
    offset: float = 0.0075
    pool: Executor | None = None
    progress: bool = False
    _kept: _Kept = field(default_factory=lambda: _Kept())

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {said.id: said.speaker for said in self.utterances}

    def seen(self, stage: Stage) -> ViewedFrames:
        """The frames as a stage sees them; what deltas or splicing made is kept in memory while it is small."""
        if self._kept.view is not stage.view:
            self._kept.view, self._kept.frames = stage.view, {}
        small = self.pool is None and self._num_frames * stage.mixtures.dim * 4 <= KEPT_BYTES
        return ViewedFrames(
            self.frames, stage.view, self.speaker_of, stage.transforms, self._kept.frames if small else None
        )

    @cached_property
    def _num_frames(self) -> int:
        return sum(len(self.frames[said.id]) for said in self.utterances if said.id in self.frames)

    def align(self, stage: Stage, *, graphs: Graphs | None = None) -> Alignments:
        """With the mixtures of a stage."""
        return _checked(
            align_utterances(
                stage.hmm,
                self.lexicon,
                self.utterances,
                MixtureScores(stage.mixtures, self.seen(stage)),
                search=self.search,
                silence_probability=self.silence_probability,
                pool=self.pool,
                graphs=graphs,
                progress=self.progress,
            )
        )

    def align_equally(self, hmm: Hmm, *, seed: int) -> Alignments:
        """Without any: every state lasts equally long."""
        return _checked(
            align_equally(
                hmm,
                self.lexicon,
                self.utterances,
                self.frames,
                seed=seed,
                silence_probability=self.silence_probability,
            )
        )

    def known_events(self, hmm: Hmm) -> dict[str, Array]:
        """The events [T, 4] of the utterances whose phones have times."""
        timed = [said for said in self.utterances if said.phones and said.id in self.frames]
        if not timed:
            raise ValueError("the utterances' phones have no times to start from; start from an equal alignment.")
        times = {"frame_shift": self.frame_shift, "offset": self.offset}
        return {said.id: segment_events(hmm, said.phones, len(self.frames[said.id]), **times) for said in timed}


def _checked(alignments: Alignments) -> Alignments:
    if not alignments.paths:
        reasons = sorted({one.reason for one in alignments.skipped})[:3]
        raise ValueError(f"no utterance of {len(alignments.skipped)} could be aligned: {'; '.join(reasons)}.")
    return alignments
