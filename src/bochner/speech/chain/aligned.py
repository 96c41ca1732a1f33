"""An aligned corpus as an acoustic model sees it: frames, states, language model and graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.speech.align import Stage
from bochner.speech.chain.alignment import Work
from bochner.speech.chain.cepstra import front_end_from
from bochner.speech.chain.corpus import SpeechCorpus
from bochner.speech.chain.protocols import protocol_for
from bochner.speech.chain.recognition import FirstPass, language_model, stage_name
from bochner.speech.decode import Search
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend import Mfcc, Plp
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.lm.model import NgramModel
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
    stage: Stage
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
    trained = Stage.load(aligned / name)
    target = aligned / f"seen_{name}_order{order}"
    if not (target / "frames").exists():
        work.say("frames", f"as {name} sees them: {len(spoken.utterances):,} utterances")
        write_frames(target / "frames", _seen(first, name, trained, target), about={"stage": name})
    states = FrameStore(aligned / "aligned" / name / "states")
    return AlignedCorpus(
        spoken, aligned, trained, FrameStore(target / "frames"), states, grammar, first.graph(trained), target
    )


def _seen(first: FirstPass, name: str, trained: Stage, target: Path) -> Iterator[tuple[str, Array]]:
    for part in first.corpus.parts:
        said = [one for one in first.corpus.part(part) if one.id in first.frames]
        stage = trained if part == "train" else first.adapted(name, said, target)
        seen = stage.seen(first.frames, first.corpus.speaker_of)
        yield from ((one.id, seen[one.id]) for one in said)
