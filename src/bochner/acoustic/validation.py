"""Checks of recordings with transcripts: words without pronunciation, bad audio, transcripts that do not match."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bochner.acoustic.adaptation import AlignedData, RecordedData, align_data, read_data
from bochner.acoustic.model import AcousticModel
from bochner.speech.align import tied_states
from bochner.speech.align.problems import Problem
from bochner.speech.decode import NoPathError, decode

MIN_GAP = 1.0  # outliers: log likelihood per frame by which the free path must exceed the transcript
MADS = 6.0  # outliers: scaled median absolute deviations above the median of all utterances
TO_STD = 1.4826  # the standard deviation of a normal distribution in units of its median absolute deviation


def validate(model: AcousticModel, data: Path, *, speakers: str | None = None) -> tuple[RecordedData, list[Problem]]:
    """The readable data, and the problems of the utterances.

    Reading finds empty, clipped, truncated or damaged audio and utterances without a transcript; forced alignment finds
    words that the model's lexicon lacks and utterances too short for their text. A transcript does not match if a free
    path through the decoding graph exceeds the forced one in log likelihood per frame by at least 1, and by six median
    absolute deviations more than the median utterance.
    """
    recorded = read_data(model, data, speakers=speakers)
    missing = {
        u.id: words for u in recorded.utterances if (words := sorted({t for t in u.tokens if t not in model.lexicon}))
    }
    problems = [Problem(entry.id, "audio", entry.reason) for entry in (*recorded.skipped, *recorded.truncated)]
    problems += [Problem(name, "words", f"not in the lexicon: {', '.join(words)}") for name, words in missing.items()]
    aligned = align_data(model, recorded)
    problems += [Problem(e.id, "transcript", e.reason) for e in aligned.skipped if e.id not in missing]
    return recorded, [*problems, *_mismatches(transcript_gaps(model, aligned))]


def transcript_gaps(model: AcousticModel, aligned: AlignedData) -> dict[str, float]:
    """Mean log likelihood per frame of the best free path minus that of the transcript, by utterance."""
    gaps = {}
    for name, states in aligned.states.items():
        likelihoods = model.log_likelihoods(aligned.frames[name])
        try:
            free = decode(model.penalized_graph, likelihoods, acoustic_weight=model.weights.acoustic_weight)
        except NoPathError:
            continue
        rows = np.arange(len(states))
        own = likelihoods[rows, tied_states(model.hmm, free.transition_ids)]
        gaps[name] = float((own - likelihoods[rows, states]).mean())
    return gaps


def _mismatches(gaps: Mapping[str, float]) -> list[Problem]:
    if not gaps:
        return []
    values = np.array(list(gaps.values()))
    spread = TO_STD * float(np.median(np.abs(values - np.median(values))))
    bound = max(MIN_GAP, float(np.median(values)) + MADS * spread)
    return [
        Problem(name, "transcript", f"does not match: a free path is better by {gap:.1f} per frame (limit {bound:.1f})")
        for name, gap in gaps.items()
        if gap > bound
    ]
