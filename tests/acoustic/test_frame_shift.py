"""The front end of a recipe: frame shift with aligned states and unchanged times in seconds; pitch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic import load_recipe
from bochner.speech.pipeline.aligned_corpus import open_aligned
from bochner.speech.pipeline.alignment import AlignSettings, align_corpus, corpus_frames
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


def test_pitch_is_part_of_the_frames(tmp_path: Path) -> None:
    corpus = aligned().corpus
    few = replace(corpus, utterances=[corpus.part(part)[0] for part in corpus.parts])
    frames = corpus_frames(few, tmp_path, frontend="mfcc", pitch=True).store
    assert frames.dim == 16
    assert AlignSettings(pitch=True).inputs()["pitch"] is True
    assert "pitch" not in AlignSettings().inputs()
    recipe = load_recipe("timit-like", overrides={"frontend.pitch": True, "alignment.shared_roots": True})
    assert recipe.frontend.pitch
    assert recipe.alignment.shared_roots
