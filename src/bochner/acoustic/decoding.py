"""Error rates of an acoustic model: weights from dev, then every other part once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.speech.decode import Search, decode_utterances
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import Execution
from bochner.speech.pipeline.decoding import read_tuning, tune_on_dev
from bochner.speech.pipeline.scoring import score_hypotheses, write_score
from bochner.speech.score import Score
from bochner.storage import write_atomically

logger = logging.getLogger(__name__)

Scores = Callable[[str], NDArray[Any]]
"""Log likelihoods [T, num_states] of an utterance id."""
# Of equal errors the first is taken: what is usual comes before what is extreme.
ACOUSTIC_WEIGHTS = (0.1, 0.07, 0.14, 0.05, 0.2, 0.035, 0.28, 0.025, 0.4, 0.56, 0.8)
WORD_PENALTIES = (-0.5, 0.5, -1.0, 1.0, -2.0, 2.0)
FEW_SPEAKERS = 10  # below, the bootstrap draws utterances: a handful of speakers cannot be drawn from
TUNING = "tuning.json"


@dataclass(frozen=True)
class Weights:
    """Of the acoustics against the language model, and the cost of every word; `protocol` says where from."""

    acoustic_weight: float = 0.1
    word_penalty: float = 0.0
    protocol: str = "as given"


@dataclass(frozen=True)
class PartScore:
    """The token error rate `ter` of a part with its 95 % interval [low, high]; all as shares, not per cent."""

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
    folder: Path,
    parts: Sequence[str] = ("dev",),
    weights: Weights | None = None,
    search: Search | None = None,
    seed: int = 0,
    work: Execution | None = None,
) -> dict[str, PartScore]:
    """Recognise and score `parts`; without `weights` those of least error on dev are found first.

    `scores` are an `AcousticModel`'s, a combination's, or the GMM's own. Tuning and hypotheses are kept below `folder`
    (tuning.json, decoded/PART); what is there already is kept. `seed` is that of the bootstrap.
    """
    work = work or Execution()
    chosen = weights or tune_weights(scores, aligned, folder=folder, search=search, work=work)
    found = {}
    for part in parts:
        score = _decode(scores, aligned, part, folder / "decoded" / part, chosen, search, work)
        write_score(folder / "decoded" / part, score, part, seed=seed)
        found[part] = _summary(score, part, chosen, seed)
        logger.info(f"{part}: {score.protocol.name} {100 * score.rate:.2f} %, {score.counts.errors:,} errors")
    return found


def tune_weights(
    scores: Scores, aligned: AlignedCorpus, *, folder: Path, search: Search | None = None, work: Execution | None = None
) -> Weights:
    """The acoustic weight of least error on dev, then the word penalty of least error beside it."""
    file, work = folder / TUNING, work or Execution()
    if not file.exists():
        settings: dict[str, Any] = {"search": search, "verbose": work.verbose}
        corpus, graph = aligned.corpus, aligned.graph
        first = tune_on_dev(corpus, graph, scores, acoustic_weights=ACOUSTIC_WEIGHTS, word_penalties=(0.0,), **settings)
        beside: dict[str, Any] = {"acoustic_weights": (first["acoustic_weight"],), "word_penalties": WORD_PENALTIES}
        second = tune_on_dev(corpus, graph, scores, **beside, **settings)
        best = min((first, second), key=lambda one: min(error for *_, error in one["errors"]))
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(file, json.dumps({**best, "errors": first["errors"] + second["errors"]}, indent=1).encode())
    return Weights(*read_tuning(file))


def _decode(
    scores: Scores,
    aligned: AlignedCorpus,
    part: str,
    folder: Path,
    weights: Weights,
    search: Search | None,
    work: Execution,
) -> Score:
    decoded = decode_utterances(
        folder,
        graph=aligned.graph,
        likelihoods=scores,
        ids=[said.id for said in aligned.corpus.part(part)],
        acoustic_weight=weights.acoustic_weight,
        word_penalty=weights.word_penalty,
        search=search,
        workers=work.workers,
        verbose=work.verbose,
    )
    texts = {name: " ".join(words) for name, words in decoded.words.items()}
    return score_hypotheses(aligned.corpus, texts, aligned.protocol)


def _summary(score: Score, part: str, weights: Weights, seed: int) -> PartScore:
    by = "speaker" if len(score.by_speaker) >= FEW_SPEAKERS else "utterance"
    low, high, _ = score.interval(seed=seed, by=by)
    counts, used = score.counts, asdict(weights)
    del used["protocol"]
    return PartScore(part, score.protocol.name, counts.errors, counts.tokens, score.rate, low, high, **used)
