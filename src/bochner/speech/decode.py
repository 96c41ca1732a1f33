"""Viterbi decoding: single utterances, lattices, whole corpora in parallel, and tuning of its weights on dev."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from bochner import checks
from bochner.speech.graph import DecodingGraph
from bochner.speech.kaldi import kaldi_decoder, kaldifst
from bochner.speech.manifest import Utterance
from bochner.speech.text_files import Skipped, parse_json, read_skipped, write_skipped
from bochner.storage import write_atomically


class NoPathError(ValueError):
    """No path through the graph stayed within the beam to the last frame."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """How wide to search: paths within `beam` of the best, at most `max_active` a frame; lattices have their own."""

    beam: float = 11.0
    max_active: int = 2500
    lattice_beam: float = 6.0

    def __post_init__(self) -> None:
        checks.positive_float("beam", self.beam)
        checks.positive_int("max_active", self.max_active)
        checks.positive_float("lattice_beam", self.lattice_beam)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Words, the transition id of each frame [T], and the cost -ln p of the path by graph and (weighted) acoustics.

    `complete` is False where no path ended in a final state, and the best unfinished one stands here.
    """

    words: tuple[str, ...]
    transition_ids: NDArray[np.int32]
    graph_cost: float
    acoustic_cost: float
    complete: bool

    @property
    def cost(self) -> float:
        return self.graph_cost + self.acoustic_cost


def decode(
    graph: DecodingGraph, log_likelihoods: ArrayLike, *, acoustic_weight: float = 0.1, search: Search | None = None
) -> Hypothesis:
    """argmax over paths of acoustic_weight * sum_t log p(x_t | s_t) + log p(path), for log likelihoods [T, num_pdfs].

    Weight 1 trusts frames as if they were independent; 0.05 to 0.2 is usual, and `tune` finds it. O(T * active paths).

    >>> from bochner.speech.graph import compose_graph
    >>> from bochner.speech.lexicon import phone_lexicon
    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import uniform
    >>> phones = ("SIL", "a", "b")
    >>> hmm = monophone_hmm(phones=phones, num_states=1)
    >>> graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(phones), grammar=uniform(phones))
    >>> spoken = np.eye(3)[[0, 0, 1, 1, 1, 2, 2, 0]]  # pdf of each of 8 frames
    >>> decode(graph, 9 * spoken, acoustic_weight=1.0).words
    ('SIL', 'a', 'b', 'SIL')
    """
    search = search or Search()
    options = kaldi_decoder.FasterDecoderOptions(beam=search.beam, max_active=search.max_active)
    decoder = kaldi_decoder.FasterDecoder(graph.fst, options)
    decoder.decode(decodable(graph, log_likelihoods, acoustic_weight))
    complete = decoder.reached_final()
    found, path = decoder.get_best_path(use_final_probs=complete)
    if not found:
        raise NoPathError(f"no path survived (beam {search.beam}; widen it, or check the likelihoods).")
    _, ids, labels, weight = kaldifst.get_linear_symbol_sequence(path)
    transition_ids = np.array(ids, dtype=np.int32)
    return Hypothesis(graph.spelled(labels), transition_ids, weight.value1, weight.value2, complete)


def decodable(graph: DecodingGraph, log_likelihoods: ArrayLike, acoustic_weight: float) -> Any:
    """What the decoders read: one column per transition id, which is ten times as fast as asking Python for each."""
    scores = np.asarray(log_likelihoods, dtype=np.float32)
    if scores.ndim != 2 or scores.shape[1] < graph.num_pdfs:
        raise ValueError(f"log_likelihoods must be [T, {graph.num_pdfs}] for this graph, got {scores.shape}.")
    if not len(scores):
        raise ValueError("no frames.")
    if not np.isfinite(scores).all():
        raise ValueError("log_likelihoods must be finite, but hold NaN or infinity.")
    scaled = scores * np.float32(checks.positive_float("acoustic_weight", acoustic_weight))
    return kaldi_decoder.DecodableCtc(np.take(scaled, graph.pdfs, axis=1))


@dataclass(frozen=True, eq=False)
class WordLattice:
    """Arcs [A]: source and target state, word (0: none), graph cost, acoustic cost without its weight; states from 0.

    Final states stand as arcs to -1. `acoustic_weight` is the weight that the lattice was pruned with.
    """

    source: NDArray[np.int64]
    target: NDArray[np.int64]
    word: NDArray[np.int64]
    graph_cost: NDArray[np.float64]
    acoustic_cost: NDArray[np.float64]
    words: tuple[str, ...]
    acoustic_weight: float

    def nbest(
        self, num_sentences: int, *, acoustic_weight: float | None = None, word_penalty: float = 0.0
    ) -> list[tuple[tuple[str, ...], float]]:
        """The best different sentences and their costs, best first; fewer where the lattice holds fewer.

        Another weight or penalty than the lattice's own is exact among the paths that the lattice holds.
        """
        checks.positive_int("num_sentences", num_sentences)
        weight = self.acoustic_weight if acoustic_weight is None else acoustic_weight
        cost = self.graph_cost + checks.positive_float("acoustic_weight", weight) * self.acoustic_cost
        fst = self._acceptor(cost + word_penalty * (self.word > 0))
        kaldifst.determinize_star(fst)  # one path a sentence: no sentence comes twice
        paths = kaldifst.convert_nbest_to_vector(kaldifst.shortest_path(fst, n=num_sentences))
        return sorted((self._sentence(path) for path in paths), key=lambda found: found[1])

    def _sentence(self, path: Any) -> tuple[tuple[str, ...], float]:
        _, labels, _, weight = kaldifst.get_linear_symbol_sequence(path)
        return tuple(self.words[label - 1] for label in labels), weight.value

    def _acceptor(self, cost: NDArray[np.float64]) -> Any:
        columns = (self.source.tolist(), self.target.tolist(), self.word.tolist(), cost.tolist())
        lines = (
            f"{source} {c!r}" if target < 0 else f"{source} {target} {word} {word} {c!r}"
            for source, target, word, c in zip(*columns, strict=True)
        )
        return kaldifst.compile("\n".join(lines) + "\n")


def decode_lattice(
    graph: DecodingGraph, log_likelihoods: ArrayLike, *, acoustic_weight: float = 0.1, search: Search | None = None
) -> WordLattice:
    """All paths within `lattice_beam` of the best, for log likelihoods [T, num_pdfs].

    Slower than `decode`, and without its limit on active paths: narrow the beam where frames say little.

    >>> from bochner.speech.graph import compose_graph
    >>> from bochner.speech.lexicon import phone_lexicon
    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import uniform
    >>> hmm = monophone_hmm(phones=("a", "b"), num_states=1)
    >>> graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(hmm.phones), grammar=uniform(hmm.phones))
    >>> lattice = decode_lattice(graph, [[4, 0], [1, 0], [0, 4]], acoustic_weight=1.0)
    >>> [words for words, cost in lattice.nbest(2)]
    [('a', 'b'), ('a', 'a', 'b')]
    """
    search = search or Search()
    config = kaldi_decoder.LatticeSimpleDecoderConfig(beam=search.beam, lattice_beam=search.lattice_beam)
    decoder = kaldi_decoder.LatticeSimpleDecoder(graph.fst, config)
    found = decoder.decode(decodable(graph, log_likelihoods, acoustic_weight))
    found, lattice = decoder.get_raw_lattice() if found else (False, None)
    if not found:
        raise NoPathError(f"no path survived (beam {search.beam}; widen it, or check the likelihoods).")
    return _parsed(lattice, graph.words, acoustic_weight)


def _parsed(lattice: Any, words: tuple[str, ...], acoustic_weight: float) -> WordLattice:
    """Through text: the wheels give no iterator over the arcs of a lattice."""
    rows = [line.split() for line in lattice.to_str(show_weight_one=True).splitlines()]
    arcs = [(s, t, w, *cost.split(",")) for s, t, _, w, cost in (row for row in rows if len(row) > 2)]
    finals = [(row[0], "-1", "0", *row[1].split(",")) for row in rows if len(row) == 2]
    source, target, word, graph_cost, acoustic_cost = zip(*arcs, *finals, strict=True)
    return WordLattice(
        source=np.array(source, dtype=np.int64),
        target=np.array(target, dtype=np.int64),
        word=np.array(word, dtype=np.int64),
        graph_cost=np.array(graph_cost, dtype=np.float64),
        acoustic_cost=np.array(acoustic_cost, dtype=np.float64) / acoustic_weight,
        words=words,
        acoustic_weight=acoustic_weight,
    )


Frames = NDArray[np.float32]


def log_priors(labels: ArrayLike, *, num_pdfs: int, pseudo_count: float = 1.0) -> NDArray[np.float64]:
    """log p(s) by counting labels [N], each pdf `pseudo_count` times more, so that none has probability 0; [num_pdfs].

    >>> np.exp(log_priors([0, 0, 1], num_pdfs=3)).round(3).tolist()
    [0.5, 0.333, 0.167]
    """
    counts = np.bincount(np.asarray(labels).ravel(), minlength=checks.positive_int("num_pdfs", num_pdfs))
    if len(counts) > num_pdfs:
        raise ValueError(f"labels must be below num_pdfs={num_pdfs}, got {len(counts) - 1}.")
    smoothed = counts + checks.positive_float("pseudo_count", pseudo_count)
    return np.log(smoothed / smoothed.sum())


def scaled_likelihoods(log_posteriors: ArrayLike, log_priors: ArrayLike) -> Frames:
    """log p(x | s) + constant = log p(s | x) - log p(s), for posteriors [T, S] and priors [S].

    Source: Bourlard & Morgan 1994.

    >>> np.exp(scaled_likelihoods(np.log([[0.5, 0.5]]), np.log([0.8, 0.2]))).round(3)
    array([[0.625, 2.5  ]], dtype=float32)
    """
    posteriors, priors = np.asarray(log_posteriors), np.asarray(log_priors)
    if posteriors.ndim != 2 or priors.shape != posteriors.shape[1:]:
        raise ValueError(
            f"log_posteriors must be [T, S] and log_priors [S], got {posteriors.shape} and {priors.shape}."
        )
    return (posteriors - priors).astype(np.float32)


HYPOTHESES, SETTINGS = "hypotheses.jsonl", "decoding.json"
Outcome = dict[str, Any] | Skipped


@dataclass(frozen=True)
class Decoded:
    """Words by utterance id in the order asked for, and the utterances left out with their reasons."""

    words: dict[str, tuple[str, ...]]
    skipped: list[Skipped]


def decode_utterances(
    directory: str | os.PathLike[str],
    *,
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Iterable[str],
    acoustic_weight: float = 0.1,
    word_penalty: float = 0.0,
    search: Search | None = None,
    workers: int = 1,
    progress: bool = False,
) -> Decoded:
    """Decode each utterance into `hypotheses.jsonl`; those that cannot be are in `skipped.jsonl` with the reason.

    likelihoods: utterance id -> log likelihoods [T, num_pdfs]; called in this process, in order. A ValueError or
    KeyError of its own skips the utterance. What a stopped run has written is kept and not decoded again, and other
    settings in the same directory are an error. With `workers` above 1 that many processes decode; a script must then
    be guarded by `if __name__ == "__main__"`. The result does not depend on their number.
    """
    folder, wanted, search = Path(directory), _unique(ids), search or Search()
    weight = checks.positive_float("acoustic_weight", acoustic_weight)
    settings = {"acoustic_weight": weight, "word_penalty": word_penalty, **asdict(search)}
    _claim(folder, {**settings, "graph": graph.fingerprint()})
    done, skipped = _read(folder / HYPOTHESES), []
    left = [name for name in wanted if name not in done]
    graph = graph.with_word_penalty(word_penalty)
    outcomes = _decoded(graph, likelihoods, left, weight, search, checks.positive_int("workers", workers))
    with (folder / HYPOTHESES).open("a", encoding="utf-8") as file:
        for outcome in tqdm(outcomes, total=len(left), desc="decode", unit="utterance", disable=not progress):
            if isinstance(outcome, Skipped):
                skipped.append(outcome)
                continue
            done[outcome["id"]] = tuple(outcome["words"])
            file.write(json.dumps(outcome, ensure_ascii=False) + "\n")
            file.flush()
    write_skipped(folder, skipped)
    return Decoded({name: done[name] for name in wanted if name in done}, skipped)


def read_hypotheses(directory: str | os.PathLike[str]) -> Decoded:
    """What `decode_utterances` left in a directory."""
    return Decoded(_read(Path(directory) / HYPOTHESES), read_skipped(directory))


def _unique(ids: Iterable[str]) -> list[str]:
    wanted = list(ids)
    if len(set(wanted)) != len(wanted):
        raise ValueError("ids must differ, but one of them comes twice.")
    return wanted


def _claim(folder: Path, settings: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SETTINGS
    if not path.exists():
        write_atomically(path, json.dumps(settings, indent=1).encode())
        return
    try:
        found = dict(parse_json(path.read_bytes()))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold settings of decoding: {error}; delete {folder}.") from error
    if found != settings:
        changed = ", ".join(
            f"{key}: {found.get(key)!r} there, {settings[key]!r} here"
            for key in settings
            if found.get(key) != settings[key]
        )
        raise ValueError(f"{folder} was decoded with other settings ({changed}); use another directory or delete it.")


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    """The whole lines of the file; a last line that a kill cut short is taken off it."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        write_atomically(path, whole)
    found = {}
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            row = parse_json(line)
            found[str(row["id"])] = tuple(row["words"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a hypothesis ({error!r}).") from error
    return found


def _decoded(
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Sequence[str],
    weight: float,
    search: Search,
    workers: int,
) -> Iterator[Outcome]:
    if workers == 1 or len(ids) < 2:
        for name in ids:
            scores = _asked(likelihoods, name)
            yield scores if isinstance(scores, Skipped) else _outcome(graph, name, scores, weight, search)
        return
    with tempfile.TemporaryDirectory() as folder:
        graph.save(folder)
        # Not by fork: the threads of torch do not survive it.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            waiting: deque[Outcome | Future[Outcome]] = deque()
            for name in ids:
                scores = _asked(likelihoods, name)
                late = isinstance(scores, Skipped)
                waiting.append(scores if late else pool.submit(_remote, folder, name, scores, weight, search))
                if len(waiting) > 4 * workers:  # what waits is bounded
                    yield _result(waiting.popleft())
            while waiting:
                yield _result(waiting.popleft())


def _result(waiting: Outcome | Future[Outcome]) -> Outcome:
    return waiting.result() if isinstance(waiting, Future) else waiting


def _asked(likelihoods: Callable[[str], ArrayLike], name: str) -> Any:
    try:
        return np.asarray(likelihoods(name), dtype=np.float32)
    except (ValueError, KeyError) as error:
        return Skipped(name, f"no likelihoods ({error})")


def _remote(folder: str, name: str, scores: Any, weight: float, search: Search) -> Outcome:
    return _outcome(_loaded(folder), name, scores, weight, search)


@lru_cache(maxsize=1)
def _loaded(folder: str) -> DecodingGraph:
    return DecodingGraph.load(folder)


def _outcome(graph: DecodingGraph, name: str, scores: Any, weight: float, search: Search) -> Outcome:
    try:
        found = decode(graph, scores, acoustic_weight=weight, search=search)
    except ValueError as error:
        return Skipped(name, str(error))
    costs = {"graph_cost": found.graph_cost, "acoustic_cost": found.acoustic_cost, "complete": found.complete}
    return {"id": name, "words": list(found.words), **costs}


Sentence = tuple[str, ...]
Setting = tuple[float, float]


@dataclass(frozen=True)
class Tuning:
    """The best setting, its error, the errors of all settings (weight, penalty), and the utterances left out."""

    acoustic_weight: float
    word_penalty: float
    error: float
    errors: dict[Setting, float]
    skipped: list[Skipped] = field(default_factory=list)


def tune(
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    utterances: Iterable[Utterance],
    *,
    error: Callable[[Sequence[Sentence], Sequence[Sentence]], float],
    acoustic_weights: Sequence[float] = (0.05, 0.0667, 0.0833, 0.1, 0.125, 0.1667, 0.2),
    word_penalties: Sequence[float] = (0.0, 0.5, 1.0),
    reference: Callable[[Utterance], Sequence[str]] = lambda utterance: utterance.tokens,
    search: Search | None = None,
    progress: bool = False,
) -> Tuning:
    """Decode dev with every pair of weight and penalty; the pair of least `error(references, hypotheses)` wins.

    likelihoods: utterance id -> log likelihoods [T, num_pdfs], asked for once an utterance. utterances: of part "dev";
    any other part is an error, for what is chosen on test says nothing about it. Where no path survives the hypothesis
    is empty. Of equal errors the first pair wins.
    """
    weights = [checks.positive_float("acoustic_weights", weight) for weight in acoustic_weights]
    settings = [(weight, penalty) for penalty, weight in product(word_penalties, weights)]
    if not settings:
        raise ValueError("acoustic_weights and word_penalties must hold at least one number each.")
    graphs = {penalty: graph.with_word_penalty(penalty) for penalty in word_penalties}
    references: list[Sentence] = []
    found: dict[Setting, list[Sentence]] = {setting: [] for setting in settings}
    skipped: list[Skipped] = []
    for utterance in tqdm(_dev_only(utterances), desc="tune", unit="utterance", disable=not progress):
        try:
            scores = likelihoods(utterance.id)
            words = {(w, p): _words(graphs[p], scores, w, search) for w, p in settings}
        except (ValueError, KeyError) as problem:
            skipped.append(Skipped(utterance.id, str(problem)))
            continue
        references.append(tuple(reference(utterance)))
        for setting, sentence in words.items():
            found[setting].append(sentence)
    if not references:
        raise ValueError(f"no utterance of {len(skipped)} could be decoded; the first: {skipped[0].reason}")
    return _best({setting: error(references, sentences) for setting, sentences in found.items()}, skipped)


def _dev_only(utterances: Iterable[Utterance]) -> list[Utterance]:
    chosen = list(utterances)
    if not chosen:
        raise ValueError("utterances must hold at least one utterance of part dev, got none.")
    for utterance in chosen:
        if utterance.part != "dev":
            raise ValueError(f"utterances must be of part dev, but {utterance.id} is of part {utterance.part}.")
    return chosen


def _words(graph: DecodingGraph, scores: ArrayLike, weight: float, search: Search | None) -> Sentence:
    try:
        return decode(graph, scores, acoustic_weight=weight, search=search).words
    except NoPathError:
        return ()


def _best(errors: dict[Setting, float], skipped: list[Skipped]) -> Tuning:
    if any(math.isnan(error) for error in errors.values()):
        raise ValueError("error must give a number for each setting, got NaN.")
    weight, penalty = min(errors, key=lambda setting: errors[setting])
    return Tuning(weight, penalty, errors[weight, penalty], errors, skipped)
