"""The graph of all ways in which a transcript can pass through the states of its phones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.speech.graph.lexicon import lexicon_fst
from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_hmm_gmm, kaldifst
from bochner.speech.lexicon import Lexicon

Array = NDArray[Any]


class AlignmentGraph(NamedTuple):
    """A graph whose input label i + 1 stands for transition_ids[i]: an utterance knows few of all ids.

    No transition probability is in it: they are added to the scores of frames, so a graph lasts as long as its tree.
    """

    fst: Any
    transition_ids: Array


class GraphCompiler:
    """Transcripts to graphs: every pronunciation in the lexicon, silence of `silence_probability` around each word."""

    def __init__(self, hmm: Hmm, lexicon: Lexicon, *, silence_probability: float = 0.5) -> None:
        if strange := sorted(set(lexicon.phones) - set(hmm.phones)):
            raise ValueError(f"the lexicon's phones must be known to the model, but {strange} are not.")
        if not 0.0 < silence_probability < 1.0:
            raise ValueError(f"silence_probability must lie between 0 and 1, got {silence_probability}.")
        self.hmm, self.lexicon, self.silence_probability = hmm, lexicon, silence_probability
        scales = {"transition_scale": 0.0, "self_loop_scale": 0.0}
        self._options = kaldi_hmm_gmm.TrainingGraphCompilerOptions(**scales)

    def min_frames(self, tokens: Sequence[str]) -> int:
        """The fewest frames in which the tokens can be said."""
        return sum(min(self._length(phones) for phones in self.lexicon[token]) for token in tokens)

    def compile(self, tokens: Sequence[str]) -> AlignmentGraph:
        """From a lexicon of these tokens alone, so that the size of the whole one does not matter."""
        lexicon = Lexicon({token: self.lexicon[token] for token in tokens}, self.lexicon.silence)
        numbers = {word: number for number, word in enumerate(lexicon.words, start=1)}
        words_of_phones = lexicon_fst(
            lexicon, phones=self.hmm.phones, disambiguate=False, silence_probability=self.silence_probability
        )
        model = self.hmm.transitions, self.hmm.tree
        compiler = kaldi_hmm_gmm.TrainingGraphCompiler(*model, words_of_phones, [], self._options)
        return _relabelled(compiler.compile_graph_from_text([numbers[token] for token in tokens]))

    def _length(self, phones: Sequence[str]) -> int:
        return sum(self.hmm.min_frames[phone] for phone in phones)


def _relabelled(fst: Any) -> AlignmentGraph:
    """The graph's own ids numbered from 1. Through text: walking its arcs in Python would take four times as long."""
    rows = [line.split() for line in fst.to_str().splitlines()]
    ids = sorted({int(row[2]) for row in rows if len(row) > 2} - {0})
    label = {"0": "0"} | {str(number): str(place) for place, number in enumerate(ids, start=1)}
    for row in rows:
        if len(row) > 2:
            row[2] = label[row[2]]
    return AlignmentGraph(kaldifst.compile("\n".join(map(" ".join, rows)) + "\n"), np.array(ids, dtype=np.int32))
