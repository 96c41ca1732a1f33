"""Training speech at other speeds, or as single recordings: the number of frames, aligned states, and nothing else
changed."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.speech.audio import read_audio
from bochner.speech.frontend.postprocess import normalize
from bochner.speech.hmm.mixtures import accumulate, update
from bochner.speech.pipeline import aligned_corpus
from bochner.speech.pipeline.aligned_corpus import at_speeds, single_recordings, with_single_recordings
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


def test_single_recordings_are_what_transcription_makes_of_them() -> None:
    given, more = aligned(), with_single_recordings(aligned())
    assert more.ids("dev") == given.ids("dev")
    name = given.ids("train")[0]
    assert np.array_equal(more.states[f"{name}@alone"], given.states[name])
    utterance = next(u for u in given.corpus.utterances if u.id == name)
    cepstra = given.front_end(read_audio(utterance, corpus_dir=given.corpus.directory))
    expected = given.gmm.view(normalize(cepstra, given.prior.moments([cepstra])))
    np.testing.assert_allclose(more.frames[f"{name}@alone"], expected, atol=1e-4)
    assert not np.allclose(more.frames[f"{name}@alone"], given.frames[name], atol=0.1)


@pytest.mark.parametrize(("limit", "copies"), [(10_000, 4), (1, 2)])
def test_short_single_recordings_are_added_at_other_speeds(
    limit: int, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aligned_corpus, "MIN_ADAPTED_FRAMES", limit)
    given, more = aligned(), with_single_recordings(aligned())
    assert len(more.ids("train")) == copies * len(given.ids("train"))
    if copies == 4:
        name = given.ids("train")[0]
        before, fast = np.asarray(given.states[name]), np.asarray(more.states[f"{name}@1.1@alone"])
        assert len(more.frames[f"{name}@1.1@alone"]) == len(fast) == pytest.approx(len(before) / 1.1, abs=3)
        assert np.array_equal(fast, at_speeds(given, [1.1]).states[f"{name}@1.1"])


def test_mixtures_of_unadapted_frames_learn_from_all_speeds(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = (10_000, 1)
    by_limit = []
    for limit in limits:
        monkeypatch.setattr(aligned_corpus, "MIN_ADAPTED_FRAMES", limit)
        by_limit.append(replace(aligned()).unadapted_mixtures)
    given, (frames, states) = aligned(), single_recordings(aligned())
    assert all(np.array_equal(states[f"{name}@alone"], given.states[name]) for name in given.ids("train"))
    start = given.gmm.mixtures
    for _ in range(aligned_corpus.UNADAPTED_ITERATIONS):
        X, y = (np.concatenate([part[name] for name in frames]) for part in (frames, states))
        start = update(start, accumulate(start, X, y))
    np.testing.assert_allclose(by_limit[1].means, start.means, atol=1e-4)
    assert not np.allclose(by_limit[0].means, by_limit[1].means, atol=1e-2)


def test_recordings_that_are_missing_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = aligned()
    moved = replace(given, corpus=replace(given.corpus, directory=tmp_path / "moved"), frames_dir=tmp_path)
    moved.corpus.directory.mkdir()
    with caplog.at_level(logging.WARNING, logger="bochner"):
        more = with_single_recordings(moved)
    number = len(given.ids("train"))
    assert len(more.ids("train")) == 2 * number
    assert f"{number} of {number} recordings at 0.9 times the speed" in caplog.text
    assert "no such file" in caplog.text


def test_nothing_is_added_if_every_recording_is_a_speaker() -> None:
    given = aligned()
    utterances = [u.replace(speaker=u.id) for u in given.corpus.utterances]
    apart = replace(given, corpus=replace(given.corpus, utterances=utterances))
    assert with_single_recordings(apart) is apart
