"""The weight of the acoustics and the penalty of a word, chosen on dev and nowhere else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product

from numpy.typing import ArrayLike
from tqdm import tqdm

from bochner import checks
from bochner.speech.decode.beam import NoPathError, Search, decode
from bochner.speech.files import Skipped
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.manifest import Utterance

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
