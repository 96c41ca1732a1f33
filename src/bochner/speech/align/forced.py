"""Viterbi forced alignment of utterances with their transcripts, with a report of those that cannot be aligned."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from tqdm import tqdm

from bochner.checks import positive_float, positive_int
from bochner.speech.frames import Array
from bochner.speech.graph import check_phones, lexicon_fst
from bochner.speech.hmm.contexts import transition_weights
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm
from bochner.speech.kaldi import kaldi_decoder, kaldi_hmm_gmm, kaldifst
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.text_files import Skipped

CHUNK = 32  # utterances per task of a process


class AlignmentGraph(NamedTuple):
    """A graph whose input label i + 1 is transition_ids[i], since an utterance uses few of all ids.

    It holds no transition probabilities: these are added to the scores of frames, so that a graph stays valid as long
    as its tree.
    """

    fst: Any
    transition_ids: Array


class GraphCompiler:
    """Transcripts to graphs with every pronunciation of the lexicon and optional silence around each word."""

    def __init__(self, hmm: Hmm, lexicon: Lexicon) -> None:
        check_phones(lexicon, hmm.phones)
        self.hmm, self.lexicon = hmm, lexicon
        scales = {"transition_scale": 0.0, "self_loop_scale": 0.0}
        self._options = kaldi_hmm_gmm.TrainingGraphCompilerOptions(**scales)

    def min_frames(self, tokens: Sequence[str]) -> int:
        """The least number of frames that the tokens need."""
        return sum(min(self._length(phones) for phones in self.lexicon[token]) for token in tokens)

    def compile(self, tokens: Sequence[str]) -> AlignmentGraph:
        """The graph of a transcript, from a lexicon of its tokens only: the cost is independent of the lexicon."""
        lexicon = Lexicon({token: self.lexicon[token] for token in tokens}, self.lexicon.silence)
        numbers = {word: number for number, word in enumerate(lexicon.words, start=1)}
        words_of_phones = lexicon_fst(lexicon, phones=self.hmm.phones, disambiguate=False)
        model = self.hmm.transitions, self.hmm.tree
        compiler = kaldi_hmm_gmm.TrainingGraphCompiler(*model, words_of_phones, [], self._options)
        return _relabelled(compiler.compile_graph_from_text([numbers[token] for token in tokens]))

    def _length(self, phones: Sequence[str]) -> int:
        return sum(self.hmm.min_frames[phone] for phone in phones)


def _relabelled(fst: Any) -> AlignmentGraph:
    """The graph's own ids numbered from 1. Via text: iterating over its arcs in Python takes four times as long."""
    lines = fst.to_str().splitlines()
    rows = (line.split() for line in lines)  # one at a time: all rows of an hour's text take 150 MB
    ids = sorted({int(row[2]) for row in rows if len(row) > 2} - {0})
    label = {"0": "0"} | {str(number): str(place) for place, number in enumerate(ids, start=1)}

    def relabelled(line: str) -> str:
        row = line.split()
        return " ".join([*row[:2], label[row[2]], *row[3:]]) if len(row) > 2 else line

    return AlignmentGraph(kaldifst.compile("\n".join(map(relabelled, lines)) + "\n"), np.array(ids, dtype=np.int32))


@dataclass(frozen=True, kw_only=True)
class Search:
    """Beam search over paths scored by acoustic_scale log p(x | pdf) + transition weights.

    Paths more than `beam` behind the best are pruned; if none reaches the end, `retry_beam` is used instead.
    """

    acoustic_scale: float = 0.1
    transition_scale: float = 1.0
    self_loop_scale: float = 0.1
    beam: float = 10.0
    retry_beam: float = 400.0

    def __post_init__(self) -> None:
        positive_float("acoustic_scale", self.acoustic_scale)
        positive_float("beam", self.beam)
        if self.retry_beam <= self.beam:
            raise ValueError(f"retry_beam must be above beam {self.beam}, got {self.retry_beam}.")


def best_path(
    graph: AlignmentGraph, blocks: Callable[[], Iterable[Array]], *, beam: float, retry_beam: float
) -> Array | None:
    """The transition ids [T] of the path with the largest sum of scores, or None.

    `blocks` returns the scores of all frames as consecutive blocks [t, ids of the graph]; it is called again if no path
    within `beam` reaches the end. Memory of one block and of the paths within the beam.
    """
    for width in (beam, retry_beam):
        decoder = kaldi_decoder.FasterDecoder(graph.fst, kaldi_decoder.FasterDecoderOptions(beam=width))
        decoder.init_decoding()
        for block in blocks():
            scores = np.ascontiguousarray(block, dtype=np.float32)
            decoder.advance_decoding(kaldi_decoder.DecodableCtc(scores, offset=decoder.num_frames_decoded()))
        if decoder.reached_final():
            _, path = decoder.get_best_path()
            _, labels, _, _ = kaldifst.get_linear_symbol_sequence(path)
            return graph.transition_ids[np.array(labels) - 1]
    return None


def equal_path(graph: AlignmentGraph, num_frames: int, *, seed: int) -> Array | None:
    """A random path in which every state lasts equally long, or None."""
    exists, path = kaldifst.equal_align(graph.fst, positive_int("num_frames", num_frames), seed)
    if not exists:
        return None
    _, labels, _, _ = kaldifst.get_linear_symbol_sequence(path)
    return graph.transition_ids[np.array(labels) - 1] if len(labels) == num_frames else None


class Graphs(dict[str, AlignmentGraph]):
    """The compiled graphs of one tree by utterance id.

    Other processes get an empty copy, which they fill and keep until they get the graphs of another tree: compiling a
    graph takes longer than an alignment with it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.key = secrets.token_hex(8)

    def __reduce__(self) -> tuple[Any, ...]:
        return _kept_graphs, (self.key,)


@lru_cache(maxsize=1)
def _kept_graphs(key: str) -> Graphs:
    graphs = Graphs()
    graphs.key = key
    return graphs


class Scores(Protocol):
    """Scores of the frames of an utterance by pdf."""

    def columns(self, utterance: str, pdfs: Array) -> Array:
        """log p(x_t | pdf), up to a constant for each frame, for these pdfs: [T, len(pdfs)]; KeyError if unknown."""
        ...


@dataclass(frozen=True)
class MixtureScores:
    """Scores by mixtures of Gaussians over frames, a mapping from utterance ids to arrays [T, d]."""

    mixtures: Mixtures
    frames: Mapping[str, Array]

    def columns(self, utterance: str, pdfs: Array) -> Array:
        return self.mixtures.log_likelihoods(self.frames[utterance], pdfs=pdfs)

    def __call__(self, utterance: str) -> Array:
        """log p(x_t | pdf) for all pdfs [T, num_pdfs], for decoding."""
        return self.mixtures.log_likelihoods(self.frames[utterance])


@dataclass(frozen=True)
class FunctionScores:
    """Scores by a function from utterance id to [T, num_pdfs]: log likelihoods, or log posteriors minus log priors."""

    function: Callable[[str], Array]

    def columns(self, utterance: str, pdfs: Array) -> Array:
        return np.asarray(self.function(utterance))[:, pdfs]


@dataclass(frozen=True)
class Alignments:
    """The transition ids [T] (int32) of each utterance's best path, and the utterances that have none."""

    paths: dict[str, Array] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)


def align_utterances(
    hmm: Hmm,
    lexicon: Lexicon,
    utterances: Sequence[Utterance],
    scores: Scores,
    *,
    search: Search | None = None,
    pool: Executor | None = None,
    graphs: Graphs | None = None,
    verbose: bool = False,
) -> Alignments:
    """Viterbi forced alignment of each utterance with its text.

    An utterance with a word that the lexicon lacks, with fewer frames than its phones need, or without a path within
    the widest beam is reported as skipped, with the reason. A `pool` of processes needs `scores` that can be pickled.
    `graphs` keeps the compiled graphs for the next call with the same tree and transcripts.
    """
    words = {token for utterance in utterances for token in utterance.tokens if token in lexicon}
    if words:  # a smaller lexicon to send to other processes
        lexicon = Lexicon({word: lexicon[word] for word in words}, lexicon.silence)
    model = (hmm, lexicon, scores, search or Search())
    work = partial(_align_chunk, *model, graphs)
    chunks = [utterances[start : start + CHUNK] for start in range(0, len(utterances), CHUNK)]
    parts = pool.map(work, chunks) if pool is not None else map(work, chunks)
    return _gathered(chain.from_iterable(parts), total=len(utterances), verbose=verbose)


def align_equally(
    hmm: Hmm,
    lexicon: Lexicon,
    utterances: Sequence[Utterance],
    frames: Mapping[str, Array],
    *,
    seed: int,
) -> Alignments:
    """The flat start: every state of a random pronunciation lasts equally long."""
    compiler = GraphCompiler(hmm, lexicon)

    def path(utterance: Utterance, graph: AlignmentGraph) -> Array | None:
        if utterance.id not in frames:
            raise _UnalignableError("no frames")
        num_frames = len(frames[utterance.id])
        _check_length(compiler, utterance, num_frames)
        return equal_path(graph, num_frames, seed=seed)

    return _gathered(_align_each(compiler, utterances, path), total=len(utterances), verbose=False)


class _UnalignableError(Exception):
    """The reason why an utterance has no path."""


def _align_chunk(
    hmm: Hmm,
    lexicon: Lexicon,
    scores: Scores,
    search: Search,
    graphs: Graphs | None,
    utterances: Sequence[Utterance],
) -> list[tuple[str, Array | Skipped]]:
    compiler = GraphCompiler(hmm, lexicon)
    weights = transition_weights(
        hmm, transition_scale=search.transition_scale, self_loop_scale=search.self_loop_scale
    ).astype(np.float32)

    def path(utterance: Utterance, graph: AlignmentGraph) -> Array | None:
        ids = graph.transition_ids
        pdfs, columns = np.unique(hmm.table.pdf[ids], return_inverse=True)
        try:
            frame_scores = scores.columns(utterance.id, pdfs)
        except KeyError as error:
            raise _UnalignableError("no frames") from error
        _check_length(compiler, utterance, len(frame_scores))
        if not np.isfinite(frame_scores).all():
            raise _UnalignableError("scores are not finite")
        total = np.float32(search.acoustic_scale) * frame_scores[:, columns.reshape(-1)] + weights[ids]
        return best_path(graph, lambda: [total], beam=search.beam, retry_beam=search.retry_beam)

    return list(_align_each(compiler, utterances, path, graphs))


def _align_each(
    compiler: GraphCompiler,
    utterances: Iterable[Utterance],
    path: Callable[[Utterance, AlignmentGraph], Array | None],
    graphs: Graphs | None = None,
) -> Iterator[tuple[str, Array | Skipped]]:
    for utterance in utterances:
        try:
            transition_ids = path(utterance, _graph(compiler, utterance, graphs))
            if transition_ids is None:
                raise _UnalignableError("no path within the beam")
            yield utterance.id, transition_ids
        except _UnalignableError as reason:
            yield utterance.id, Skipped(utterance.id, str(reason))


def _graph(compiler: GraphCompiler, utterance: Utterance, graphs: Graphs | None) -> AlignmentGraph:
    if graphs is not None and utterance.id in graphs:
        return graphs[utterance.id]
    if not utterance.tokens:
        raise _UnalignableError("no text")
    missing = sorted({token for token in utterance.tokens if token not in compiler.lexicon})
    if missing:
        raise _UnalignableError(f"words missing from the lexicon ({', '.join(missing)})")
    graph = compiler.compile(utterance.tokens)
    if graphs is not None:
        graphs[utterance.id] = graph
    return graph


def _check_length(compiler: GraphCompiler, utterance: Utterance, num_frames: int) -> None:
    needed = compiler.min_frames(utterance.tokens)
    if num_frames < needed:
        raise _UnalignableError(f"too short for its text ({num_frames} frames, {needed} needed)")


def _gathered(results: Iterable[tuple[str, Array | Skipped]], *, total: int, verbose: bool) -> Alignments:
    gathered = Alignments()
    for name, result in tqdm(results, total=total, desc="align", unit="utterance", leave=False, disable=not verbose):
        if isinstance(result, Skipped):
            gathered.skipped.append(result)
        else:
            gathered.paths[name] = result
    return gathered
