"""H o C o L o G: from transition ids to words in one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.graph.grammar import grammar_fst
from bochner.speech.graph.lexicon import lexicon_fst, phone_labels
from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_hmm_gmm, kaldifst
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm.model import NgramModel


def compose_graph(
    *,
    hmm: Hmm,
    lexicon: Lexicon,
    grammar: NgramModel,
    silence_probability: float = 0.5,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> DecodingGraph:
    """min(det(H o min(det(C o min(det(L o G)))))) with disambiguation symbols taken out and self-loops put in.

    Seconds for thousands of words; `cached_graph` keeps the result. The scales weigh the log probabilities of the HMM's
    transitions against those of the grammar. Source: Mohri, Pereira & Riley 2008; Kaldi's mkgraph.sh.

    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import estimate
    >>> lexicon = Lexicon({"no": [("n", "ow")], "yes": [("y", "eh", "s")]})
    >>> grammar = estimate(["yes no", "no"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> hmm = monophone_hmm(phones=lexicon.phones, silence=["SIL"])
    >>> graph = compose_graph(hmm=hmm, lexicon=lexicon, grammar=grammar)
    >>> graph.words, graph.num_pdfs
    (('no', 'yes'), 18)
    """
    marks = phone_labels(lexicon, hmm.phones).marks
    L = lexicon_fst(lexicon, phones=hmm.phones, silence_probability=silence_probability)
    LG = _optimised(_composed(L, grammar_fst(grammar, words=lexicon.words)))
    CLG, contexts = kaldifst.compose_context(marks, hmm.tree.context_width, hmm.tree.central_position, LG)
    config = kaldi_hmm_gmm.HTransducerConfig(transition_scale=transition_scale)
    H, marks = kaldi_hmm_gmm.get_h_transducer(contexts, hmm.tree, hmm.transitions, config)
    HCLG = _composed(H, CLG)
    kaldifst.determinize_star(HCLG, use_log=True)
    HCLG = _without(HCLG, marks, num_labels=hmm.num_transition_ids)
    kaldifst.minimize_encoded(HCLG)
    looped = kaldi_hmm_gmm.add_self_loops(
        self_loop_scale=self_loop_scale, disambig_syms=[], reorder=True, trans_model=hmm.transitions, ifst=HCLG
    )
    return DecodingGraph(looped, lexicon.words, np.array(hmm.table.pdf[1:], dtype=np.int32))


def _composed(left: Any, right: Any) -> Any:
    kaldifst.arcsort(left, "olabel")
    kaldifst.arcsort(right, "ilabel")
    fst = kaldifst.StdVectorFst(kaldifst.compose(left, right))
    if fst.num_states == 0:
        raise ValueError("the graph is empty: no sentence of the grammar can be said with this lexicon.")
    return fst


def _optimised(fst: Any) -> Any:
    kaldifst.determinize_star(fst, use_log=True)
    kaldifst.minimize_encoded(fst)
    return fst


def _without(fst: Any, marks: Sequence[int], *, num_labels: int) -> Any:
    """The same graph with its disambiguation symbols as epsilons: composed with a map that writes them from nothing."""
    eraser = kaldifst.StdVectorFst()
    eraser.start = eraser.add_state()
    eraser.set_final(eraser.start, 0.0)
    for label in {*range(1, num_labels + 1), *marks}:
        eraser.add_arc(eraser.start, kaldifst.StdArc(0 if label in marks else label, label, 0.0, eraser.start))
    return _composed(eraser, fst)
