"""Forced alignment of many utterances, with a report of those that could not be aligned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from bochner.speech.align.graphs import AlignmentGraph, GraphCompiler
from bochner.speech.align.viterbi import Search, best_path, equal_path
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm
from bochner.speech.hmm.transitions import transition_weights
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.skipped import Skipped

Array = NDArray[Any]
Graphs = dict[str, AlignmentGraph]  # by utterance id
CHUNK = 32  # utterances that go to another process at once


class Scores(Protocol):
    """Whatever can say how well the frames of an utterance fit pdfs."""

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
        """log p(x_t | pdf) for all pdfs [T, num_pdfs]: what decoding asks for."""
        return self.mixtures.log_likelihoods(self.frames[utterance])


@dataclass(frozen=True)
class FunctionScores:
    """Scores by any function from an utterance id to [T, num_pdfs]: log likelihoods, or log posteriors minus log
    priors of a trained acoustic model. Realignment is alignment with these."""

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
    silence_probability: float = 0.5,
    pool: Executor | None = None,
    graphs: Graphs | None = None,
    progress: bool = False,
) -> Alignments:
    """Viterbi forced alignment of each utterance with its text.

    An utterance with a word that the lexicon lacks, with fewer frames than its phones need, or without a path within
    the widest beam is reported as skipped, with the reason. With a `pool` of processes the work is shared out;
    `scores` must then be something that can be sent to them. Without one, `graphs` keeps what was compiled for the next
    call with the same tree and texts.
    """
    model = (hmm, _narrowed(lexicon, utterances), scores, search or Search(), silence_probability)
    work = partial(_align_chunk, *model, graphs if pool is None else None)
    chunks = [utterances[start : start + CHUNK] for start in range(0, len(utterances), CHUNK)]
    parts = pool.map(work, chunks) if pool is not None else map(work, chunks)
    return _gathered(chain.from_iterable(parts), total=len(utterances), progress=progress)


def align_equally(
    hmm: Hmm,
    lexicon: Lexicon,
    utterances: Sequence[Utterance],
    frames: Mapping[str, Array],
    *,
    seed: int,
    silence_probability: float = 0.5,
) -> Alignments:
    """The flat start: every state of a random pronunciation lasts equally long."""
    compiler = GraphCompiler(hmm, lexicon, silence_probability=silence_probability)

    def path(said: Utterance, graph: AlignmentGraph) -> Array | None:
        if said.id not in frames:
            raise _UnalignableError("no frames")
        num_frames = len(frames[said.id])
        _check_length(compiler, said, num_frames)
        return equal_path(graph, num_frames, seed=seed)

    return _gathered(_each(compiler, utterances, path), total=len(utterances), progress=False)


def _narrowed(lexicon: Lexicon, utterances: Iterable[Utterance]) -> Lexicon:
    """Only the words that are said: less to send to other processes."""
    said = {token for one in utterances for token in one.tokens if token in lexicon}
    return Lexicon({word: lexicon[word] for word in said}, lexicon.silence) if said else lexicon


class _UnalignableError(Exception):
    """Says why an utterance has no path."""


def _align_chunk(
    hmm: Hmm,
    lexicon: Lexicon,
    scores: Scores,
    search: Search,
    silence_probability: float,
    graphs: Graphs | None,
    utterances: Sequence[Utterance],
) -> list[tuple[str, Array | Skipped]]:
    compiler = GraphCompiler(hmm, lexicon, silence_probability=silence_probability)
    weights = transition_weights(
        hmm, transition_scale=search.transition_scale, self_loop_scale=search.self_loop_scale
    ).astype(np.float32)

    def path(said: Utterance, graph: AlignmentGraph) -> Array | None:
        ids = graph.transition_ids
        pdfs, columns = np.unique(hmm.table.pdf[ids], return_inverse=True)
        try:
            fitting = scores.columns(said.id, pdfs)
        except KeyError as error:
            raise _UnalignableError("no frames") from error
        _check_length(compiler, said, len(fitting))
        if not np.isfinite(fitting).all():
            raise _UnalignableError("scores are not finite")
        total = np.float32(search.acoustic_scale) * fitting[:, columns.reshape(-1)] + weights[ids]
        return best_path(graph, total, beam=search.beam, retry_beam=search.retry_beam)

    return list(_each(compiler, utterances, path, graphs))


def _each(
    compiler: GraphCompiler,
    utterances: Iterable[Utterance],
    path: Callable[[Utterance, AlignmentGraph], Array | None],
    graphs: Graphs | None = None,
) -> Iterator[tuple[str, Array | Skipped]]:
    for said in utterances:
        try:
            yield said.id, _found(path(said, _graph(compiler, said, graphs)))
        except _UnalignableError as reason:
            yield said.id, Skipped(said.id, str(reason))


def _graph(compiler: GraphCompiler, said: Utterance, graphs: Graphs | None) -> AlignmentGraph:
    if graphs is not None and said.id in graphs:
        return graphs[said.id]
    if not said.tokens:
        raise _UnalignableError("no text")
    missing = sorted({token for token in said.tokens if token not in compiler.lexicon})
    if missing:
        raise _UnalignableError(f"words missing from the lexicon ({', '.join(missing)})")
    graph = compiler.compile(said.tokens)
    if graphs is not None:
        graphs[said.id] = graph
    return graph


def _found(path: Array | None) -> Array:
    if path is None:
        raise _UnalignableError("no path within the beam")
    return path


def _check_length(compiler: GraphCompiler, said: Utterance, num_frames: int) -> None:
    needed = compiler.min_frames(said.tokens)
    if num_frames < needed:
        raise _UnalignableError(f"too short for its text ({num_frames} frames, {needed} needed)")


def _gathered(results: Iterable[tuple[str, Array | Skipped]], *, total: int, progress: bool) -> Alignments:
    gathered = Alignments()
    for name, result in tqdm(results, total=total, desc="align", unit="utterance", leave=False, disable=not progress):
        if isinstance(result, Skipped):
            gathered.skipped.append(result)
        else:
            gathered.paths[name] = result
    return gathered
