"""Artificial speech: the pdfs of the states of a sentence, and likelihoods that are largest for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bochner.speech.graph import DecodingGraph
from bochner.speech.hmm.contexts import CENTRE, LEFT, STATE
from bochner.speech.hmm.model import Hmm, make_hmm, monophone_hmm
from bochner.speech.hmm.tree import Leaf, Split, Table, Tree, context_dependency
from bochner.speech.lexicon import Lexicon


def triphone_hmm(phones: Sequence[str], *, silence: Sequence[str] = (), asked: int = 1) -> Hmm:
    """Two pdfs for each of a phone's three states: chosen by whether the number of the phone before it, modulo 2, is
    `asked`."""
    numbers = range(1, len(phones) + 1)
    odd = frozenset(number for number in numbers if number % 2 == asked)
    pdf = iter(range(6 * len(phones)))

    def states() -> Table:
        splits = (Split(LEFT, odd, Leaf(next(pdf)), Leaf(next(pdf))) for _ in range(3))
        return Table(STATE, dict(enumerate(splits)))

    tree = context_dependency(Tree(Table(CENTRE, {number: states() for number in numbers}), 6 * len(phones)))
    flat = monophone_hmm(phones=phones, silence=silence)
    return make_hmm(phones=phones, silence=silence, topology=flat.topology, tree=tree)


def passed_pdfs(hmm: Hmm, phones: Sequence[str], *, frames_per_state: int = 2) -> list[int]:
    """The pdf of each frame of a sequence of phones."""
    numbers = [0, *(hmm.phone_ids[phone] for phone in phones), 0]
    pdfs = []
    for i in range(1, len(numbers) - 1):
        window = numbers[i - 1 : i + 2] if hmm.context_width == 3 else [numbers[i]]
        for state in range(3):
            found, pdf = hmm.tree.compute(window, state)
            assert found
            pdfs += [pdf] * frames_per_state
    return pdfs


def pointing_at(
    pdfs: Sequence[int], *, num_pdfs: int, height: float = 10.0, noise: float = 0.0, seed: int = 0
) -> NDArray[np.float32]:
    """Log posteriors [T, num_pdfs], higher by `height` at each frame's pdf."""
    scores = noise * np.random.default_rng(seed).normal(size=(len(pdfs), num_pdfs))
    scores[np.arange(len(pdfs)), pdfs] += height
    return (scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)).astype(np.float32)


class Recogniser(NamedTuple):
    hmm: Hmm
    lexicon: Lexicon
    graph: DecodingGraph

    def likelihoods(
        self, sentence: str, *, height: float = 10.0, noise: float = 0.0, seed: int = 0
    ) -> NDArray[np.float32]:
        """Silence, the words, silence."""
        phones = ["SIL", *(phone for word in sentence.split() for phone in self.lexicon[word][0]), "SIL"]
        pdfs = passed_pdfs(self.hmm, phones)
        return pointing_at(pdfs, num_pdfs=self.hmm.num_pdfs, height=height, noise=noise, seed=seed)
