"""The frame shift of a recipe: the number of frames, aligned states, and unchanged times in seconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.speech.pipeline.aligned_corpus import open_aligned
from bochner.speech.pipeline.alignment import AlignSettings, align_corpus
from tests.acoustic.aligned_speech import aligned


def test_context_independent_states_every_5_ms(tmp_path: Path) -> None:
    """Half the shift has twice the frames; each phone has three states, whatever num_leaves; times agree."""
    before = aligned()
    settings = AlignSettings(until="monophone", frame_shift=0.005, context_width=1, num_leaves=60, start="known")
    result = align_corpus(before.corpus, tmp_path, settings)
    opened = open_aligned(before.corpus, tmp_path)
    assert opened.front_end is not None
    assert opened.front_end.frame_shift == 0.005
    assert opened.num_states == 3 * len(before.corpus.lexicon.phones)
    for name in before.ids("train")[:5]:
        assert len(opened.frames[name]) == pytest.approx(2 * len(before.frames[name]), abs=2)
        assert len(np.asarray(opened.states[name])) == len(opened.frames[name])
    train = result["agreement"]["train"]
    assert train["right_frames"] / train["frames"] > 0.7
