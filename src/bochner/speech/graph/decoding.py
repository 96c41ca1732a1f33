"""Graphs kept on disk under a hash of all that went into them."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.speech.files import parse_json
from bochner.speech.graph.transducers import grammar_fst, lexicon_fst, phone_labels
from bochner.speech.hmm.model import Hmm, tree_bytes
from bochner.speech.kaldi import kaldi_hmm_gmm, kaldifst
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm.model import NgramModel
from bochner.storage import write_atomically

FST, LABELS = "HCLG.fst", "labels.json"


@dataclass(frozen=True, eq=False)
class DecodingGraph:
    """From transition ids to words.

    fst: kaldifst.StdVectorFst; words: those of labels 1, 2, ...; pdfs [ids]: those of transition ids 1, 2, ...
    """

    fst: Any
    words: tuple[str, ...]
    pdfs: NDArray[np.int32]

    @property
    def num_pdfs(self) -> int:
        """The least number of columns that log likelihoods must have."""
        return int(self.pdfs.max()) + 1

    def spelled(self, labels: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.words[label - 1] for label in labels)

    def with_word_penalty(self, penalty: float) -> Self:
        """The same graph with `penalty` added to the cost of every word: above 0 gives fewer words."""
        if not math.isfinite(penalty):
            raise ValueError(f"penalty must be a finite number, got {penalty}.")
        if penalty == 0.0:
            return self
        fst = kaldifst.StdVectorFst(self.fst)
        kaldifst.arcsort(fst, "olabel")
        return replace(self, fst=kaldifst.StdVectorFst(kaldifst.compose(fst, _toll(len(self.words), penalty))))

    def fingerprint(self) -> str:
        """A hash of all that is in the graph."""
        with tempfile.TemporaryDirectory() as folder:
            self.save(folder)
            return _hash(Path(folder) / LABELS)  # which holds that of the FST

    def save(self, directory: str | os.PathLike[str]) -> None:
        """HCLG.fst in OpenFst's format and labels.json, in an existing or new directory."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        if not self.fst.write(str(folder / FST)):
            raise OSError(f"{folder / FST} could not be written; is there space left?")
        labels = {"words": self.words, "pdfs": self.pdfs.tolist(), "fst_sha256": _hash(folder / FST)}
        write_atomically(folder / LABELS, json.dumps(labels, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> DecodingGraph:
        folder = Path(directory)
        try:
            stored = parse_json((folder / LABELS).read_bytes())
            words, pdfs = tuple(stored["words"]), np.array(stored["pdfs"], dtype=np.int32)
            if _hash(folder / FST) != stored["fst_sha256"]:  # a label out of range would end the process
                raise ValueError(f"{FST} is not what was saved")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{directory} does not hold a whole decoding graph: {error!r}; delete it.") from error
        return cls(kaldifst.StdVectorFst.read(str(folder / FST)), words, pdfs)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _toll(num_words: int, cost: float) -> Any:
    """An acceptor of any words that asks `cost` for each."""
    fst = kaldifst.StdVectorFst()
    fst.start = fst.add_state()
    fst.set_final(fst.start, 0.0)
    for label in range(1, num_words + 1):
        fst.add_arc(fst.start, kaldifst.StdArc(label, label, cost, fst.start))
    return fst


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


FORMAT_VERSION = 1  # to be raised when compose_graph makes another graph of the same parts


def cached_graph(
    directory: str | os.PathLike[str],
    *,
    hmm: Hmm,
    lexicon: Lexicon,
    grammar: NgramModel,
    silence_probability: float = 0.5,
    transition_scale: float = 1.0,
    self_loop_scale: float = 0.1,
) -> DecodingGraph:
    """What `compose_graph` gives, read from `directory` where the same parts have been composed before.

    A graph lies in a folder named by the hash of its parts, put there whole or not at all; any of them may be deleted.
    """
    scales = (silence_probability, transition_scale, self_loop_scale)
    folder = Path(directory) / _fingerprint(hmm, lexicon, grammar, scales)
    if folder.exists():
        return DecodingGraph.load(folder)
    graph = compose_graph(
        hmm=hmm,
        lexicon=lexicon,
        grammar=grammar,
        silence_probability=silence_probability,
        transition_scale=transition_scale,
        self_loop_scale=self_loop_scale,
    )
    _keep(graph, folder)
    return graph


def _fingerprint(hmm: Hmm, lexicon: Lexicon, grammar: NgramModel, scales: tuple[float, ...]) -> str:
    total = hashlib.sha256(repr((FORMAT_VERSION, scales, hmm.phones, hmm.topology)).encode())
    total.update(repr((lexicon.silence, list(lexicon.pairs()), grammar.words)).encode())
    total.update(tree_bytes(hmm.tree))
    total.update(np.asarray(hmm.transitions.log_probs, dtype=np.float64).tobytes())
    for level in grammar.levels:
        for column in (level.context, level.word, level.log_prob, level.back_off):
            total.update(np.ascontiguousarray(column).tobytes())
    return total.hexdigest()[:24]


def _keep(graph: DecodingGraph, folder: Path) -> None:
    temporary = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.part")
    try:
        graph.save(temporary)
        temporary.rename(folder)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.exists():  # else another process put the same graph there first
            raise
