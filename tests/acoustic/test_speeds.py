"""Training speech at other speeds, or as single recordings: the number of frames, aligned states, and nothing else
changed."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.speech.frames import FrameStore
from bochner.speech.frontend.postprocess import group_moments, normalize, smoothed
from bochner.speech.pipeline.aligned_corpus import at_speeds, with_single_recordings
from tests.acoustic.aligned_speech import aligned


def test_faster_speech_has_fewer_frames_and_aligned_states() -> None:
    given, more = aligned(), at_speeds(aligned(), [0.8, 1.25])
    assert len(more.ids("train")) == 3 * len(given.ids("train"))
    assert more.ids("dev") == given.ids("dev")
    name = given.ids("train")[0]
    before, slow, fast = (np.asarray(more.states[one]) for one in (name, f"{name}@0.8", f"{name}@1.25"))
    assert len(fast) == pytest.approx(len(before) / 1.25, abs=3)
    assert len(slow) == pytest.approx(len(before) / 0.8, abs=3)
    order, slower = ([state for state, _ in groupby(states)] for states in (before, slow))
    assert slower[: len(order) - 2] == order[:-2]  # every state in order, except for the last frames
    assert set(fast) <= set(before)
    assert np.mean(fast == before[(1.25 * np.arange(len(fast))).astype(int)]) > 0.8
    assert more.frames[f"{name}@0.8"].shape == (len(slow), given.frames[name].shape[1])


def test_speed_1_gives_the_frames_of_train() -> None:
    """Speed 1 changes no sample: adapted again to the same states, the frames equal those of train."""
    given, again = aligned(), at_speeds(aligned(), [1.0])
    name = given.ids("train")[0]
    old, new = np.asarray(given.frames[name]), np.asarray(again.frames[f"{name}@1"])
    assert np.array_equal(given.states[name], again.states[f"{name}@1"])
    assert np.corrcoef(old.ravel(), new.ravel())[0, 1] > 0.95


def test_single_recordings_are_normalised_by_themselves_and_not_adapted() -> None:
    given, more = aligned(), with_single_recordings(aligned())
    assert len(more.ids("train")) == 2 * len(given.ids("train"))
    assert more.ids("dev") == given.ids("dev")
    name = given.ids("train")[0]
    assert np.array_equal(more.states[f"{name}@alone"], given.states[name])
    cepstra = FrameStore(given.directory / "raw")[name]
    own = smoothed(group_moments([(name, cepstra)])[name], given.prior.average)
    expected = given.gmm.view(normalize(cepstra, own))
    np.testing.assert_allclose(more.frames[f"{name}@alone"], expected, atol=1e-5)
    assert not np.allclose(more.frames[f"{name}@alone"], given.frames[name], atol=0.1)


def test_nothing_is_added_if_every_recording_is_a_speaker() -> None:
    given = aligned()
    utterances = [u.replace(speaker=u.id) for u in given.corpus.utterances]
    apart = replace(given, corpus=replace(given.corpus, utterances=utterances))
    assert with_single_recordings(apart) is apart
