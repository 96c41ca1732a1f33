"""Frames of TIMIT with the phones that were marked by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.audio import read_audio
from bochner.speech.corpora.timit import fold_utterance, prepare_timit
from bochner.speech.frontend import Mfcc
from bochner.speech.frontend.postprocess import add_deltas, group_moments, normalize, splice
from bochner.speech.manifest import Utterance
from bochner.speech.score.protocol import FOLDINGS, PHONES_48

Array = NDArray[Any]
RATE, SHIFT, MIDDLE = 16000, 0.01, 0.0125
CONTEXT = 5
SPEAKERS = {"train": 10, "heldout": 2, "test": 4}


def timit_frames(archive: Path) -> Mapping[str, tuple[Array, Array]]:
    """(X [N, 429], y [N]) for train, heldout and test, which share no speaker.

    X is 39 cepstra (13 with two orders of deltas, normalised by speaker) of 11 frames, y one of 48 phones.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = prepare_timit(archive, folder, sizes=SPEAKERS)
        said = [fold_utterance(one, FOLDINGS["61-48"]) for one in corpus.utterances]
        cepstra = {one.id: add_deltas(Mfcc(rate=RATE)(read_audio(one, corpus_dir=folder))) for one in said}
    moments = group_moments((one.speaker, cepstra[one.id]) for one in said)
    rows = {
        one.id: splice(normalize(cepstra[one.id], moments[one.speaker]), left=CONTEXT, right=CONTEXT) for one in said
    }
    return {part: _joined(rows, [one for one in said if one.part == part]) for part in SPEAKERS}


def _joined(rows: Mapping[str, Array], said: list[Utterance]) -> tuple[Array, Array]:
    labels = [frame_labels(one, len(rows[one.id])) for one in said]
    return np.concatenate([rows[one.id] for one in said]), np.concatenate(labels)


def frame_labels(said: Utterance, num_frames: int) -> Array:
    """The phone in the middle of each frame's window, by its place among the 48: int [T]."""
    ends = [segment.end for segment in said.phones]
    places = np.searchsorted(ends[:-1], MIDDLE + SHIFT * np.arange(num_frames), side="right")
    phones = np.array([PHONES_48.index(segment.label) for segment in said.phones])
    return phones[places]
