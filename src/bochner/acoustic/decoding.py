"""Decoding with acoustic models: weights tuned on dev, and error rates of the parts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.speech.decode import Search, decode_utterances
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution
from bochner.speech.pipeline.decoding import read_tuning, tune_on_dev
from bochner.speech.pipeline.scoring import score_hypotheses, write_score
from bochner.stages import write_json

logger = logging.getLogger(__name__)
Array = NDArray[Any]
Scores = Callable[[str], Array]
"""Log likelihoods [T, num_states] of an utterance id."""
# Of equal errors the first is chosen, so usual values come before extreme ones.
ACOUSTIC_WEIGHTS = (0.1, 0.07, 0.14, 0.05, 0.2, 0.035, 0.28, 0.025, 0.4, 0.56, 0.8)
WORD_PENALTIES = (-0.5, 0.5, -1.0, 1.0, -2.0, 2.0)
MIN_SPEAKERS = 10  # with fewer, the bootstrap resamples utterances: the variance of so few speakers cannot be estimated
TUNING = "tuning.json"


@dataclass(frozen=True)
class Weights:
    """The weight of acoustic against language model scores and the cost of each word; `protocol` is their source."""

    acoustic_weight: float = 0.1
    word_penalty: float = 0.0
    protocol: str = "as given"


@dataclass(frozen=True)
class PartScore:
    """The token error rate `ter` of a part with its 95 % interval [low, high], as fractions."""

    part: str
    protocol: str
    errors: int
    tokens: int
    ter: float
    low: float
    high: float
    acoustic_weight: float
    word_penalty: float


def decode_parts(
    scores: Scores,
    aligned: AlignedCorpus,
    *,
    output_dir: Path,
    parts: Sequence[str] = ("dev",),
    weights: Weights | None = None,
    search: Search | None = None,
    seed: int = 0,
    execution: Execution | None = None,
) -> dict[str, PartScore]:
    """Decode and score `parts` with `weights`, or with those of lowest error on dev.

    `scores` are those of an `AcousticModel`, a combination, or the GMM. Tuned weights and hypotheses are kept below
    `output_dir` (tuning.json, decoded/PART) and reused. `seed` is that of the bootstrap.
    """
    execution = execution or Execution()
    weights = weights or tune_weights(scores, aligned, output_dir=output_dir, search=search, execution=execution)
    results = {}
    for part in parts:
        target = output_dir / "decoded" / part
        decoded = decode_utterances(
            target,
            graph=aligned.graph,
            likelihoods=scores,
            ids=[utterance.id for utterance in aligned.corpus.part(part)],
            acoustic_weight=weights.acoustic_weight,
            word_penalty=weights.word_penalty,
            search=search,
            workers=execution.workers,
            verbose=execution.verbose,
        )
        texts = {name: " ".join(words) for name, words in decoded.words.items()}
        score = score_hypotheses(aligned.corpus, texts, aligned.protocol)
        write_score(target, score, part, seed=seed)
        logger.info("%s: %s %.2f %%, %d errors", part, score.protocol.name, 100 * score.rate, score.counts.errors)
        by = "speaker" if len(score.by_speaker) >= MIN_SPEAKERS else "utterance"
        low, high, _ = score.interval(seed=seed, by=by)
        results[part] = PartScore(
            part, score.protocol.name, score.counts.errors, score.counts.tokens, score.rate, low, high,
            weights.acoustic_weight, weights.word_penalty,
        )  # fmt: skip
    return results


def tune_weights(
    scores: Scores, aligned: AlignedCorpus, *, output_dir: Path, search: Search | None = None, execution: Execution
) -> Weights:
    """The acoustic weight of lowest error on dev, then the word penalty of lowest error with it."""
    file = output_dir / TUNING
    if not file.exists():
        settings: dict[str, Any] = {"search": search, "execution": execution}
        corpus, graph = aligned.corpus, aligned.graph
        first = tune_on_dev(corpus, graph, scores, acoustic_weights=ACOUSTIC_WEIGHTS, word_penalties=(0.0,), **settings)
        grid: dict[str, Any] = {"acoustic_weights": (first["acoustic_weight"],), "word_penalties": WORD_PENALTIES}
        second = tune_on_dev(corpus, graph, scores, **grid, **settings)
        best = min((first, second), key=lambda tuning: min(error for *_, error in tuning["errors"]))
        write_json(file, {**best, "errors": first["errors"] + second["errors"]})
    return Weights(*read_tuning(file))
