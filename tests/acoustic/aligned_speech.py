"""A minute of synthetic speech, aligned once for all tests that need it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bochner.acoustic.spliced_frames import SplicedFrames
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus, open_aligned
from bochner.speech.pipeline.alignment import AlignSettings, align_corpus

FOLDER = TemporaryDirectory()


@cache
def aligned() -> AlignedCorpus:
    """Eight voices, twelve words, states of triphones, frames adapted to their speakers."""
    pytest.importorskip("espeakng_loader")
    from bochner.speech.synthesis import synthesize

    corpus, out = Path(FOLDER.name, "corpus"), Path(FOLDER.name, "aligned")
    synthesize(
        corpus, language="english", hours=0.02, seed=0, num_words=12, snr=(30.0, 40.0), telephone=0.0, babble=0.0
    )
    speech = SpeechCorpus.read(corpus)
    align_corpus(speech, out, AlignSettings(until="sat", num_leaves=60, num_gaussians=120), export=False)
    return open_aligned(speech, out)


@cache
def rows(part: str) -> SplicedFrames:
    """The rows of a part with two neighbours on each side, on train's scale."""
    corpus = aligned()
    if part == "train":
        return SplicedFrames.fit(corpus.frames, corpus.states, ids=corpus.ids("train"), left=2, right=2)
    return SplicedFrames(rows("train").splicer, corpus.frames, corpus.states, corpus.ids(part))
