"""Viterbi decoding: single utterances, lattices, whole corpora in parallel, and tuning of its weights on dev."""

from __future__ import annotations

import json
import math
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from bochner import checks
from bochner.speech.frames import Array
from bochner.speech.graph import DecodingGraph
from bochner.speech.kaldi import kaldi_decoder, kaldifst
from bochner.speech.lattice import WordLattice, parse_lattice
from bochner.speech.manifest import Utterance
from bochner.speech.runtime import process_pool
from bochner.speech.text_files import FilePath, Skipped, parse_json, read_skipped, write_skipped
from bochner.stages import Stage, locked
from bochner.storage import write_atomically

NO_PATH = "no path survived (beam {}; widen it, or check the likelihoods)."
HYPOTHESES, SETTINGS = "hypotheses.jsonl", "decoding.json"
CPU_SECONDS = 0.1  # of an utterance, in order of magnitude
Outcome = dict[str, Any] | Skipped
Sentence = tuple[str, ...]
Setting = tuple[float, float]


class NoPathError(ValueError):
    """No path through the graph stayed within the beam to the last frame."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """Beam search: paths within `beam` of the best, at most `max_active` per frame; lattices keep `lattice_beam`."""

    beam: float = 11.0
    max_active: int = 2500
    lattice_beam: float = 6.0

    def __post_init__(self) -> None:
        checks.positive_float("beam", self.beam)
        checks.positive_int("max_active", self.max_active)
        checks.positive_float("lattice_beam", self.lattice_beam)


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """Words, the transition id of each frame [T], and the costs -ln p of the path by graph and weighted acoustics.

    `complete` is False if no path reached a final state and the words are those of the best partial path.
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

    Weight 1 treats frames as independent; 0.05 to 0.2 is usual, and `tune` chooses it. O(T * active paths).

    >>> from bochner.speech.graph import compose_graph
    >>> from bochner.speech.lexicon import phone_lexicon
    >>> from bochner.speech.hmm.model import monophone_hmm
    >>> from bochner.speech.lm import uniform
    >>> phones = ("SIL", "a", "b")
    >>> hmm = monophone_hmm(phones=phones, num_states=1)
    >>> graph = compose_graph(hmm=hmm, lexicon=phone_lexicon(phones), grammar=uniform(phones))
    >>> pdfs = np.eye(3)[[0, 0, 1, 1, 1, 2, 2, 0]]  # of 8 frames
    >>> decode(graph, 9 * pdfs, acoustic_weight=1.0).words
    ('SIL', 'a', 'b', 'SIL')
    """
    decoder = StreamDecoder(graph, acoustic_weight=acoustic_weight, search=search)
    decoder.advance(log_likelihoods)
    return decoder.hypothesis()


class StreamDecoder:
    """Decodes log likelihoods [T, num_pdfs] as they arrive; the result is that of `decode` of all of them.

    Memory grows with the number of frames.
    """

    def __init__(self, graph: DecodingGraph, *, acoustic_weight: float = 0.1, search: Search | None = None) -> None:
        self.graph, self.acoustic_weight, self.search = graph, acoustic_weight, search or Search()
        self.num_frames = 0
        options = kaldi_decoder.FasterDecoderOptions(beam=self.search.beam, max_active=self.search.max_active)
        self._decoder = kaldi_decoder.FasterDecoder(graph.fst, options)
        self._decoder.init_decoding()

    def advance(self, log_likelihoods: ArrayLike) -> None:
        """Decode the next frames."""
        scores = np.asarray(log_likelihoods)
        self._decoder.advance_decoding(decodable(self.graph, scores, self.acoustic_weight, first=self.num_frames))
        self.num_frames += len(scores)

    def hypothesis(self, *, ended: bool = True) -> Hypothesis:
        """The best path so far: that of a sentence if it has `ended` and one is complete, otherwise any."""
        complete = ended and self._decoder.reached_final()
        survived, path = self._decoder.get_best_path(use_final_probs=complete)
        if not survived:
            raise NoPathError(NO_PATH.format(self.search.beam))
        _, ids, labels, weight = kaldifst.get_linear_symbol_sequence(path)
        transition_ids = np.array(ids, dtype=np.int32)
        return Hypothesis(self.graph.words_of(labels), transition_ids, weight.value1, weight.value2, complete)


def decodable(graph: DecodingGraph, log_likelihoods: ArrayLike, acoustic_weight: float, *, first: int = 0) -> Any:
    """The decoders' input: one column per transition id, ten times as fast as a Python callback for each score.

    `first` is the number of frames before these.
    """
    scores = np.asarray(log_likelihoods, dtype=np.float32)
    if scores.ndim != 2 or scores.shape[1] < graph.num_pdfs:
        raise ValueError(f"log_likelihoods must be [T, {graph.num_pdfs}] for this graph, got {scores.shape}.")
    if not len(scores):
        raise ValueError("no frames.")
    if not np.isfinite(scores).all():
        raise ValueError("log_likelihoods must be finite, but hold NaN or infinity.")
    scaled = scores * np.float32(checks.positive_float("acoustic_weight", acoustic_weight))
    return kaldi_decoder.DecodableCtc(np.take(scaled, graph.pdfs, axis=1), offset=first)


def decode_lattice(
    graph: DecodingGraph, log_likelihoods: ArrayLike, *, acoustic_weight: float = 0.1, search: Search | None = None
) -> WordLattice:
    """All paths within `lattice_beam` of the best, for log likelihoods [T, num_pdfs].

    Slower than `decode`, and without its limit on active paths; use a narrower beam for uninformative frames.

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
    survived = decoder.decode(decodable(graph, log_likelihoods, acoustic_weight))
    survived, lattice = decoder.get_raw_lattice() if survived else (False, None)
    if not survived:
        raise NoPathError(NO_PATH.format(search.beam))
    return parse_lattice(lattice, graph.words, acoustic_weight)


def log_priors(labels: ArrayLike, *, num_pdfs: int, pseudo_count: float = 1.0) -> NDArray[np.float64]:
    """log p(s) [num_pdfs] from counts of labels [N], plus `pseudo_count` for each pdf, so that none has probability 0.

    >>> np.exp(log_priors([0, 0, 1], num_pdfs=3)).round(3).tolist()
    [0.5, 0.333, 0.167]
    """
    counts = np.bincount(np.asarray(labels).ravel(), minlength=checks.positive_int("num_pdfs", num_pdfs))
    if len(counts) > num_pdfs:
        raise ValueError(f"labels must be below num_pdfs={num_pdfs}, got {len(counts) - 1}.")
    smoothed = counts + checks.positive_float("pseudo_count", pseudo_count)
    return np.log(smoothed / smoothed.sum())


def scaled_likelihoods(log_posteriors: ArrayLike, log_priors: ArrayLike) -> Array:
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


@dataclass(frozen=True)
class Decoded:
    """Words by utterance id in the order of the request, and the skipped utterances with their reasons."""

    words: dict[str, tuple[str, ...]]
    skipped: list[Skipped]


def decode_utterances(
    directory: FilePath,
    *,
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Iterable[str],
    acoustic_weight: float = 0.1,
    word_penalty: float = 0.0,
    search: Search | None = None,
    workers: int = 1,
    verbose: bool = False,
) -> Decoded:
    """Decode each utterance into `hypotheses.jsonl`; `skipped.jsonl` lists those that fail, with the reason.

    `likelihoods` maps an utterance id to log likelihoods [T, num_pdfs]; it is called in this process, in order, and its
    ValueError or KeyError skips the utterance. Hypotheses of an interrupted run are kept, and other settings in the
    same directory are an error. With `workers` above 1 that many processes decode; a script then needs the guard
    `if __name__ == "__main__"`. The result does not depend on their number.
    """
    directory, ids, search = Path(directory), list(ids), search or Search()
    if len(set(ids)) != len(ids):
        raise ValueError("ids must differ, but one of them comes twice.")
    weight = checks.positive_float("acoustic_weight", acoustic_weight)
    inputs = {"acoustic_weight": weight, "word_penalty": word_penalty, **asdict(search), "graph": graph.fingerprint()}
    skipped: list[Skipped] = []
    with locked(directory):
        Stage(directory / SETTINGS, inputs).run(dict)  # records the inputs, or checks them
        done = _read(directory / HYPOTHESES)
        remaining = [name for name in ids if name not in done]
        decoded = _decoded(graph, likelihoods, remaining, [(weight, word_penalty)], search, workers)
        with (directory / HYPOTHESES).open("a", encoding="utf-8") as file:
            progress = tqdm(decoded, total=len(remaining), desc="decode", unit="utterance", disable=not verbose)
            for outcomes in progress:
                outcome = outcomes if isinstance(outcomes, Skipped) else outcomes[0]
                if isinstance(outcome, Skipped):
                    skipped.append(outcome)
                    continue
                done[outcome["id"]] = tuple(outcome["words"])
                file.write(json.dumps(outcome, ensure_ascii=False) + "\n")
                file.flush()
        write_skipped(directory, skipped)
    return Decoded({name: done[name] for name in ids if name in done}, skipped)


def read_hypotheses(directory: FilePath) -> Decoded:
    """The hypotheses that `decode_utterances` wrote."""
    return Decoded(_read(Path(directory) / HYPOTHESES), read_skipped(directory))


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    """Words by utterance id; an incomplete last line, left by an interrupted run, is removed from the file."""
    if not path.exists():
        return {}
    content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    if complete != content:
        write_atomically(path, complete)
    words = {}
    for number, line in enumerate(complete.splitlines(), start=1):
        try:
            row = parse_json(line)
            words[str(row["id"])] = tuple(row["words"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}: not a hypothesis ({error!r}).") from error
    return words


def _decoded(
    graph: DecodingGraph,
    likelihoods: Callable[[str], ArrayLike],
    ids: Sequence[str],
    settings: Sequence[Setting],
    search: Search | None,
    workers: int,
) -> Iterator[list[Outcome] | Skipped]:
    """The outcomes of each utterance in order, one for each pair of weight and penalty; `Skipped` if it has none."""
    seconds = CPU_SECONDS * len(ids) * len(settings)
    workers = checks.positive_int("workers", workers)
    with tempfile.TemporaryDirectory() as directory, process_pool(workers, seconds=seconds) as pool:
        if pool is not None:
            graph.save(directory)
        penalized = {penalty: graph.with_word_penalty(penalty) for _, penalty in settings} if pool is None else {}
        waiting: deque[list[Outcome] | Skipped | Future[list[Outcome] | Skipped]] = deque()
        for name in ids:
            scores = _scores_or_reason(likelihoods, name)
            if isinstance(scores, Skipped):
                waiting.append(scores)
            elif pool is None:
                waiting.append(_outcomes(penalized.__getitem__, name, scores, settings, search))
            else:
                waiting.append(pool.submit(_remote, directory, name, scores, settings, search))
            if pool is None or len(waiting) > 4 * workers:  # bounds the memory of waiting scores
                yield _result(waiting.popleft())
        while waiting:
            yield _result(waiting.popleft())


def _result(waiting: list[Outcome] | Skipped | Future[list[Outcome] | Skipped]) -> list[Outcome] | Skipped:
    return waiting.result() if isinstance(waiting, Future) else waiting


def _scores_or_reason(likelihoods: Callable[[str], ArrayLike], name: str) -> Any:
    try:
        return np.asarray(likelihoods(name), dtype=np.float32)
    except (ValueError, KeyError) as error:
        return Skipped(name, f"no likelihoods ({error})")


def _remote(
    directory: str, name: str, scores: Any, settings: Sequence[Setting], search: Search | None
) -> list[Outcome] | Skipped:
    return _outcomes(partial(_penalized, directory), name, scores, settings, search)


@lru_cache(maxsize=1)
def _loaded(directory: str) -> DecodingGraph:
    return DecodingGraph.load(directory)


@lru_cache(maxsize=8)
def _penalized(directory: str, penalty: float) -> DecodingGraph:
    return _loaded(directory).with_word_penalty(penalty)


def _outcomes(
    graph_of: Callable[[float], DecodingGraph],
    name: str,
    scores: Any,
    settings: Sequence[Setting],
    search: Search | None,
) -> list[Outcome] | Skipped:
    """Where no path survives, the outcome of a setting is skipped; scores that cannot be decoded skip the utterance."""
    outcomes: list[Outcome] = []
    for weight, penalty in settings:
        try:
            hypothesis = decode(graph_of(penalty), scores, acoustic_weight=weight, search=search)
        except NoPathError as error:
            outcomes.append(Skipped(name, str(error)))
            continue
        except ValueError as error:
            return Skipped(name, str(error))
        fields = ("graph_cost", "acoustic_cost", "complete")
        values = {field: getattr(hypothesis, field) for field in fields}
        outcomes.append({"id": name, "words": list(hypothesis.words), **values})
    return outcomes


@dataclass(frozen=True)
class Tuning:
    """The best setting, its error, the errors of all settings (weight, penalty), and the skipped utterances."""

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
    search: Search | None = None,
    workers: int = 1,
    verbose: bool = False,
) -> Tuning:
    """Decode dev with every pair of weight and penalty, and choose that of least `error(references, hypotheses)`.

    `likelihoods` maps an utterance id to log likelihoods [T, num_pdfs]; it is called once per utterance, in this
    process. `utterances` must be of part "dev", since an error rate on test is only valid if nothing was chosen on
    test. If no path survives, the hypothesis is empty. Of equal errors the first pair is chosen. With `workers` above 1
    that many processes decode, as in `decode_utterances`.
    """
    utterances = list(utterances)
    if not utterances:
        raise ValueError("utterances must hold at least one utterance of part dev, got none.")
    for utterance in utterances:
        if utterance.part != "dev":
            raise ValueError(f"utterances must be of part dev, but {utterance.id} is of part {utterance.part}.")
    weights = [checks.positive_float("acoustic_weights", weight) for weight in acoustic_weights]
    settings = [(weight, penalty) for penalty, weight in product(word_penalties, weights)]
    if not settings:
        raise ValueError("acoustic_weights and word_penalties must hold at least one number each.")
    references: list[Sentence] = []
    hypotheses: dict[Setting, list[Sentence]] = {setting: [] for setting in settings}
    skipped: list[Skipped] = []
    decoded = _decoded(graph, likelihoods, [utterance.id for utterance in utterances], settings, search, workers)
    progress = tqdm(decoded, total=len(utterances), desc="tune", unit="utterance", disable=not verbose)
    for utterance, outcomes in zip(utterances, progress, strict=True):
        if isinstance(outcomes, Skipped):
            skipped.append(outcomes)
            continue
        references.append(utterance.tokens)
        for setting, outcome in zip(settings, outcomes, strict=True):
            hypotheses[setting].append(() if isinstance(outcome, Skipped) else tuple(outcome["words"]))
    if not references:
        raise ValueError(f"no utterance of {len(skipped)} could be decoded; the first: {skipped[0].reason}")
    errors = {setting: error(references, sentences) for setting, sentences in hypotheses.items()}
    if any(math.isnan(rate) for rate in errors.values()):
        raise ValueError("error must return a number for each setting, got NaN.")
    weight, penalty = min(errors, key=lambda setting: errors[setting])
    return Tuning(weight, penalty, errors[weight, penalty], errors, skipped)
