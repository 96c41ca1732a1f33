"""Decoding graphs H o C o L o G from an HMM, a lexicon and a language model, cached by their inputs."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bochner.speech.frames import new_directory
from bochner.speech.hmm.model import Hmm, tree_bytes
from bochner.speech.kaldi import kaldi_hmm_gmm, kaldifst
from bochner.speech.lexicon import Lexicon, disambiguated
from bochner.speech.lm.ngram import BEGIN, END, Ids, NgramModel, values_at
from bochner.speech.text_files import FilePath, parse_json
from bochner.storage import write_atomically

Floats = NDArray[np.float64]
ROOT = 0  # the empty history
MIN_LOG_PROB = -98.0  # ARPA files write -99 for a probability of 0
EPSILON_ID = 0
START, LOOP, SILENCE_STATE = 0, 1, 2
FST, LABELS = "HCLG.fst", "labels.json"
FORMAT_VERSION = 1  # increase it when compose_graph returns another graph for the same inputs


def grammar_fst(model: NgramModel, *, words: Sequence[str]) -> Any:
    """G as kaldifst.StdVectorFst, costs -ln p; labels are places in `words` from 1, and the next number is #0.

    The cost of a path along the highest orders is exactly that of the model. #0 is an input label only. N-grams with a
    word outside `words` are left out, and words that the model lacks are unreachable. Source: Kaldi's arpa2fst.

    >>> from bochner.speech.lm import estimate
    >>> model = estimate(["a b", "a c", "b"], order=2, fallback_discounts=(0.5, 1.0, 1.5))
    >>> grammar_fst(model, words=["a", "b", "c"]).num_states  # histories: none, <s>, a, b, c
    5
    """
    label = _labels(model, words)
    states = _states(model)
    fst = kaldifst.StdVectorFst()
    for _ in range(1 + sum(int((s >= 0).sum()) for s in states)):
        fst.add_state()
    fst.start = max(int(states[0][BEGIN]), ROOT) if model.order > 1 else ROOT
    for n in range(1, model.order + 1):
        _add_grams(fst, model, n, states, label)
        _add_back_offs(fst, model, n, states, len(words) + 1)
    kaldifst.connect(fst)
    if fst.num_states == 0:
        raise ValueError("the language model accepts no sentence of these words.")
    kaldifst.arcsort(fst, "ilabel")
    return fst


def _labels(model: NgramModel, words: Sequence[str]) -> Ids:
    """The graph's label of each word of the model, -1 where it is not in the graph."""
    place = {word: number for number, word in enumerate(words, start=1)}
    label = np.array([place.get(word, -1) for word in model.words])
    if (label < 0).all():
        raise ValueError("the lexicon and the language model have no word in common.")
    return label


def _states(model: NgramModel) -> list[Ids]:
    """For each order the state of every n-gram that is the history of another, -1 for the others."""
    states, used = [], ROOT + 1
    for n in range(1, model.order + 1):
        history = model.histories(n)
        states.append(np.where(history, used + np.cumsum(history) - 1, -1))
        used += int(history.sum())
    return states


def _shorter(model: NgramModel, n: int, states: Sequence[Ids]) -> tuple[Ids, Floats]:
    """Each n-gram without its first word: the state of the longest history left, and the log10 back-offs passed."""
    state = np.full(len(model.levels[n - 1]), -1, dtype=np.int64)
    log_cost = np.zeros(len(state))
    for m, rows in reversed(list(enumerate(model.suffixes(n)))):
        there = values_at(states[m], rows, missing=-1)
        passed = values_at(model.levels[m].back_off, rows, missing=0.0)
        log_cost += np.where((state < 0) & (there < 0), passed, 0.0)
        state = np.where(state < 0, there, state)
    return np.where(state < 0, ROOT, state), log_cost


def _add_grams(fst: Any, model: NgramModel, n: int, states: Sequence[Ids], label: Ids) -> None:
    level = model.levels[n - 1]
    shorter, passed = _shorter(model, n, states)
    own = states[n - 1]
    there = np.where(own >= 0, own, shorter)
    log_prob = level.log_prob + np.where(own >= 0, 0.0, passed + level.back_off)
    here = states[n - 2][level.context] if n > 1 else np.full(len(level), ROOT)
    possible = (level.log_prob > MIN_LOG_PROB) & (level.word != BEGIN)
    for i in np.flatnonzero(possible & (level.word == END)).tolist():
        fst.set_final(int(here[i]), -math.log(10) * level.log_prob[i])
    rows = np.flatnonzero(possible & (label[level.word] > 0))
    columns = (here[rows], label[level.word[rows]], -math.log(10) * log_prob[rows], there[rows])
    for source, word, cost, target in zip(*(column.tolist() for column in columns), strict=True):
        fst.add_arc(source, kaldifst.StdArc(word, word, cost, target))


def _add_back_offs(fst: Any, model: NgramModel, n: int, states: Sequence[Ids], mark: int) -> None:
    shorter, passed = _shorter(model, n, states)
    rows = np.flatnonzero(states[n - 1] >= 0)
    cost = -math.log(10) * (model.levels[n - 1].back_off + passed)[rows]
    for source, c, target in zip(states[n - 1][rows].tolist(), cost.tolist(), shorter[rows].tolist(), strict=True):
        fst.add_arc(source, kaldifst.StdArc(mark, 0, c, target))


@dataclass(frozen=True)
class PhoneLabels:
    """Input labels of L: phones from 1 in the model's order, then #0 (back-off), #1, #2, ... of the lexicon."""

    phones: tuple[str, ...]
    num_marks: int

    @property
    def marks(self) -> list[int]:
        return list(range(len(self.phones) + 1, len(self.phones) + 1 + self.num_marks))

    def ids(self) -> dict[str, int]:
        marks = (f"#{k}" for k in range(self.num_marks))
        return {name: number for number, name in enumerate((*self.phones, *marks), start=1)}


def phone_labels(lexicon: Lexicon, phones: Sequence[str] | None = None) -> PhoneLabels:
    """Labels with #0, the marks of homophones and prefixes, and one more after silence."""
    phones = lexicon.phones if phones is None else tuple(phones)
    check_phones(lexicon, phones)
    return PhoneLabels(phones, disambiguated(lexicon)[1] + 2)


def check_phones(lexicon: Lexicon, phones: Sequence[str]) -> None:
    """Raise an error unless the model's `phones` contain those of the lexicon."""
    if unknown := sorted(set(lexicon.phones) - set(phones)):
        raise ValueError(f"the lexicon's phones must be known to the model, but {', '.join(unknown)} are not.")


def lexicon_fst(
    lexicon: Lexicon,
    *,
    phones: Sequence[str] | None = None,
    disambiguate: bool = True,
    silence_probability: float = 0.5,
) -> Any:
    """L as kaldifst.StdVectorFst: any sequence of words, with optional silence before the first and after each.

    Input labels are places in `phones` (default: those of the lexicon) from 1, output labels places in `lexicon.words`
    from 1. With `disambiguate`, L can be determinised after composition with a grammar: it has #1, #2, ... after
    ambiguous pronunciations, another mark after silence, and a loop of #0 for the back-off arcs of the grammar (as word
    number len(words) + 1). Pronunciations cost `lexicon.cost`. Source: Kaldi's make_lexicon_fst.py.

    >>> from bochner.speech.lexicon import Lexicon
    >>> lexicon_fst(Lexicon({"no": [("n", "ow")], "yes": [("y", "eh", "s")]}), disambiguate=False).num_states
    6
    """
    if not 0.0 < silence_probability < 1.0:
        raise ValueError(f"silence_probability must lie between 0 and 1, got {silence_probability}.")
    labels = phone_labels(lexicon, phones).ids()
    words = {word: number for number, word in enumerate(lexicon.words, start=1)}
    fst = kaldifst.StdVectorFst()
    for _ in (START, LOOP, SILENCE_STATE):
        fst.add_state()
    fst.start = START
    fst.set_final(LOOP, 0.0)
    ends = {LOOP: 0.0}  # the states that may follow a word, and their costs
    if lexicon.silence is not None:
        ends = {LOOP: -math.log(1.0 - silence_probability), SILENCE_STATE: -math.log(silence_probability)}
    for there, cost in ends.items():
        fst.add_arc(START, kaldifst.StdArc(EPSILON_ID, EPSILON_ID, cost, there))
    pairs, num_marks = disambiguated(lexicon) if disambiguate else (list(lexicon.pairs()), 0)
    if lexicon.silence is not None:
        mark = (f"#{num_marks + 1}",) if disambiguate else ()
        _path(fst, SILENCE_STATE, [labels[phone] for phone in (lexicon.silence, *mark)], EPSILON_ID, {LOOP: 0.0})
    for (word, sounds), (_, phones_of_word) in zip(pairs, lexicon.pairs(), strict=True):
        cost = lexicon.cost(word, phones_of_word)
        _path(fst, LOOP, [labels[phone] for phone in sounds], words[word], ends, cost=cost)
    if disambiguate:
        fst.add_arc(LOOP, kaldifst.StdArc(labels["#0"], len(words) + 1, 0.0, LOOP))
    return fst


def _path(fst: Any, here: int, labels: Sequence[int], word: int, ends: dict[int, float], *, cost: float = 0.0) -> None:
    """Add one pronunciation: the word and its `cost` on the first arc, and a last arc to each of the ends."""
    for label in labels[:-1]:
        there = fst.add_state()
        fst.add_arc(here, kaldifst.StdArc(label, word, cost, there))
        here, word, cost = there, EPSILON_ID, 0.0
    for there, end_cost in ends.items():
        fst.add_arc(here, kaldifst.StdArc(labels[-1], word, cost + end_cost, there))


@dataclass(frozen=True, eq=False)
class DecodingGraph:
    """A transducer from transition ids to words.

    `fst` is a kaldifst.StdVectorFst, `words` are those of labels 1, 2, ..., `pdfs` [ids] those of transition ids
    1, 2, ...
    """

    fst: Any
    words: tuple[str, ...]
    pdfs: NDArray[np.int32]

    @property
    def num_pdfs(self) -> int:
        """The least number of columns that log likelihoods must have."""
        return int(self.pdfs.max()) + 1

    def words_of(self, labels: Sequence[int]) -> tuple[str, ...]:
        return tuple(self.words[label - 1] for label in labels)

    def with_word_penalty(self, penalty: float) -> Self:
        """The graph with `penalty` added to the cost of every word; a positive penalty gives fewer words."""
        if not math.isfinite(penalty):
            raise ValueError(f"penalty must be a finite number, got {penalty}.")
        if penalty == 0.0:
            return self
        fst = kaldifst.StdVectorFst(self.fst)
        kaldifst.arcsort(fst, "olabel")
        costs = _single_state((label, label, penalty) for label in range(1, len(self.words) + 1))
        return replace(self, fst=kaldifst.StdVectorFst(kaldifst.compose(fst, costs)))

    def fingerprint(self) -> str:
        """A hash of the FST and its labels."""
        with tempfile.TemporaryDirectory() as directory:
            self.save(directory)
            return _hash(Path(directory) / LABELS)  # which contains the hash of the FST

    def save(self, directory: FilePath) -> None:
        """Write HCLG.fst in OpenFst's format and labels.json."""
        path = Path(directory) / FST
        path.parent.mkdir(parents=True, exist_ok=True)
        if not self.fst.write(str(path)):
            raise OSError(f"{path} could not be written; is the disk full?")
        labels = {"words": self.words, "pdfs": self.pdfs.tolist(), "fst_sha256": _hash(path)}
        write_atomically(path.with_name(LABELS), json.dumps(labels, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def load(cls, directory: FilePath) -> DecodingGraph:
        path = Path(directory) / FST
        try:
            stored = parse_json(path.with_name(LABELS).read_bytes())
            words, pdfs = tuple(stored["words"]), np.array(stored["pdfs"], dtype=np.int32)
            if _hash(path) != stored["fst_sha256"]:  # a label out of range would crash the process
                raise ValueError(f"the checksum of {FST} differs")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{directory} does not hold a complete decoding graph: {error!r}; delete it.") from error
        return cls(kaldifst.StdVectorFst.read(str(path)), words, pdfs)


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _single_state(loops: Iterable[tuple[int, int, float]]) -> Any:
    """A transducer of one state with loops (input label, output label, cost)."""
    fst = kaldifst.StdVectorFst()
    fst.start = fst.add_state()
    fst.set_final(fst.start, 0.0)
    for source, target, cost in loops:
        fst.add_arc(fst.start, kaldifst.StdArc(source, target, cost, fst.start))
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
    """min(det(H o min(det(C o min(det(L o G)))))) without disambiguation symbols, with self-loops added.

    Seconds for thousands of words; `cached_graph` stores the result. The scales weight the log probabilities of the
    HMM's transitions against those of the grammar. Source: Mohri, Pereira & Riley 2008; Kaldi's mkgraph.sh.

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
    LG = _composed(L, grammar_fst(grammar, words=lexicon.words))
    kaldifst.determinize_star(LG, use_log=True)
    kaldifst.minimize_encoded(LG)
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
        raise ValueError("the graph is empty: the lexicon has pronunciations for no sentence of the grammar.")
    return fst


def _without(fst: Any, marks: Sequence[int], *, num_labels: int) -> Any:
    """The graph with its disambiguation symbols replaced by epsilon."""
    labels = {*range(1, num_labels + 1), *marks}
    return _composed(_single_state((0 if label in marks else label, label, 0.0) for label in labels), fst)


def cached_graph(
    directory: FilePath, *, hmm: Hmm, lexicon: Lexicon, grammar: NgramModel, **options: float
) -> DecodingGraph:
    """The result of `compose_graph`, stored in a subdirectory of `directory` named by the fingerprint of its inputs."""
    target = Path(directory) / _fingerprint(hmm, lexicon, grammar, options)
    if target.exists():
        return DecodingGraph.load(target)
    graph = compose_graph(hmm=hmm, lexicon=lexicon, grammar=grammar, **options)
    try:
        with new_directory(target) as partial:
            graph.save(partial)
    except OSError:
        if not target.exists():  # otherwise another process has stored the same graph
            raise
    return graph


def _fingerprint(hmm: Hmm, lexicon: Lexicon, grammar: NgramModel, options: Mapping[str, float]) -> str:
    total = hashlib.sha256(repr((FORMAT_VERSION, sorted(options.items()), hmm.phones, hmm.topology)).encode())
    total.update(repr((lexicon.silence, list(lexicon.pairs()), grammar.words)).encode())
    if lexicon.probabilities:
        total.update(repr(sorted(lexicon.probabilities.items())).encode())
    total.update(tree_bytes(hmm.tree))
    total.update(np.asarray(hmm.transitions.log_probs, dtype=np.float64).tobytes())
    for level in grammar.levels:
        for column in (level.context, level.word, level.log_prob, level.back_off):
            total.update(np.ascontiguousarray(column).tobytes())
    return total.hexdigest()[:24]
