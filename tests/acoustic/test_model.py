"""Acoustic models on a minute of synthetic speech: decoded, saved, moved, realigned, combined, and transcribing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
import torch

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.decoding import (
    ACOUSTIC_WEIGHTS,
    TUNING,
    WORD_PENALTIES,
    PartScore,
    Weights,
    decode_parts,
)
from bochner.acoustic.experiment import best_combination, realign
from bochner.acoustic.model import UNADAPTED_SHARES, AcousticModel, combine
from bochner.acoustic.settings import KernelSettings, NetworkSettings
from bochner.acoustic.training import frame_scores, train_model
from bochner.cli import main
from bochner.speech.frames import FrameStore
from bochner.speech.lexicon import Lexicon
from bochner.speech.pipeline.aligned_corpus import open_aligned
from bochner.speech.pipeline.decoding import with_probabilities
from tests.acoustic.aligned_speech import aligned, rows

MAX_ERROR_RATE = 0.6
KERNEL = KernelSettings(num_features=512, bandwidth=20.0, max_epochs=8)
NETWORK = NetworkSettings(hidden=(64,), max_epochs=8, pretrain=False)


@cache
def model(kind: str) -> AcousticModel:
    if kind == "gmm":
        return AcousticModel.of(None, rows("train"), aligned(), weights=Weights(0.05, 0.0))
    settings = KERNEL if kind == "kernel" else NETWORK
    trained = train_model(settings, rows("train"), rows("heldout"), num_states=aligned().num_states, seed=0)
    return AcousticModel.of(trained.module, rows("train"), aligned(), weights=Weights(0.1, 0.0))


@cache
def decoded(kind: str) -> tuple[Path, dict[str, PartScore]]:
    directory = Path(mkdtemp(dir=Path(aligned().directory)))
    return directory, decode_parts(
        model(kind).scores(aligned().frames), aligned(), output_dir=directory, parts=("dev", "test")
    )


@pytest.mark.parametrize("kind", ["kernel", "network"])
def test_a_minute_of_speech_is_enough_to_recognise_words(kind: str) -> None:
    scores = frame_scores(model(kind).module, rows("heldout"), silence_states=aligned().silence_states)
    assert scores["perplexity"] < aligned().num_states / 3
    assert scores["perplexity_silence_collapsed"] < scores["perplexity"]
    parts = decoded(kind)[1]
    assert parts["dev"].ter < MAX_ERROR_RATE
    assert parts["test"].low <= parts["test"].ter <= parts["test"].high
    assert parts["test"].tokens == sum(len(utterance.tokens) for utterance in aligned().corpus.part("test"))


def test_weights_come_from_dev_and_serve_test() -> None:
    directory, parts = decoded("kernel")
    assert parts["dev"].acoustic_weight == parts["test"].acoustic_weight
    tried = {
        (weight, penalty): error for weight, penalty, error in json.loads((directory / TUNING).read_text())["errors"]
    }
    assert tried[parts["dev"].acoustic_weight, parts["dev"].word_penalty] == min(tried.values())
    assert parts["dev"].ter == pytest.approx(min(tried.values()))
    assert {weight for weight, _ in tried} == set(ACOUSTIC_WEIGHTS)
    assert {penalty for _, penalty in tried} == {0.0, *WORD_PENALTIES}
    weights = Weights(0.2, 0.5)
    scores, directory = model("kernel").scores(aligned().frames), Path(mkdtemp(dir=aligned().directory))
    dev = decode_parts(scores, aligned(), output_dir=directory, weights=weights)["dev"]
    assert (dev.acoustic_weight, dev.word_penalty) == (0.2, 0.5)
    assert dev.ter >= parts["dev"].ter


def test_what_is_decoded_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    directory, parts = decoded("kernel")

    def refuse(name: str) -> np.ndarray:
        raise AssertionError(f"{name} is scored again")

    assert decode_parts(refuse, aligned(), output_dir=directory, parts=("dev", "test")) == parts


def test_posteriors_are_those_of_the_rows_over_the_priors() -> None:
    name = aligned().ids("dev")[0]
    frames = np.asarray(aligned().frames[name])
    logs = model("kernel").log_posteriors(frames)
    assert logs.shape == (len(frames), aligned().num_states)
    assert np.exp(logs).sum(axis=1) == pytest.approx(1, abs=1e-4)
    shares = np.bincount(rows("train").states.numpy(), minlength=aligned().num_states) + 1.0
    likelihoods = model("kernel").log_likelihoods(frames)
    assert likelihoods == pytest.approx(logs - np.log(shares / shares.sum()), abs=1e-4)


@pytest.mark.parametrize("members", ["kernel", "kernel network", "kernel gmm"])
def test_a_saved_model_can_be_moved_and_transcribes_the_same(members: str, tmp_path: Path) -> None:
    models = [model(kind) for kind in members.split()]
    original = combine(models) if len(models) > 1 else models[0]
    original = replace(original, unadapted_weights=Weights(0.07, 0.5))
    original.save(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    again = AcousticModel.load(tmp_path / "there")
    utterance = aligned().corpus.part("train")[0]
    frames = np.asarray(aligned().frames[utterance.id])
    assert np.array_equal(again.log_likelihoods(frames), original.log_likelihoods(frames))
    audio = aligned().corpus.directory / str(utterance.audio)
    assert again.transcribe(audio) == original.transcribe(audio)
    assert np.array_equal(again.unadapted.means, original.unadapted.means)
    assert again.unadapted_weights == original.unadapted_weights
    assert not [path for path in (tmp_path / "there").rglob("*") if path.suffix in (".pkl", ".pt")]


def test_a_classifier_and_the_unadapted_mixtures_decode_a_single_recording_together() -> None:
    name = aligned().ids("dev")[0]
    frames = aligned().as_single_recording(FrameStore(aligned().directory / "raw")[name])
    kernel, gmm = model("kernel"), model("gmm")
    share = UNADAPTED_SHARES[1]
    assert 0 < share < 1
    gaussians = gmm.speaker_independent.log_likelihoods(frames)
    assert gaussians != pytest.approx(gmm.log_likelihoods(frames), abs=0.1)  # not the mixtures of SAT
    expected = UNADAPTED_SHARES[0] * kernel.log_likelihoods(frames) + share * gaussians
    difference = kernel.speaker_independent.log_likelihoods(frames) - expected
    assert difference == pytest.approx(np.broadcast_to(difference[:, :1], difference.shape), abs=1e-3)
    both = combine([kernel, gmm], shares=[0.25, 0.75])
    assert both.speaker_independent.shares == both.shares


def test_a_directory_with_files_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(ValueError, match="directory must be new or empty"):
        model("kernel").save(tmp_path)
    with pytest.raises(ValueError, match=r"has no model\.json"):
        AcousticModel.load(tmp_path)


def test_a_model_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match=r"model\.json .*version 99, this bochner reads 1"):
        AcousticModel.load(tmp_path)


def test_a_recording_becomes_words_with_times() -> None:
    """A whole session of one speaker: correct words at their times."""
    corpus = aligned().corpus
    audio = corpus.part("train")[0].audio
    references = [utterance for utterance in corpus.part("train") if utterance.audio == audio]
    words = model("kernel").transcribe(corpus.directory / str(audio)).words
    times = [0.0, *(time for word in words for time in (word.start, word.end))]
    times.append(references[-1].start + references[-1].duration)
    assert times == sorted(times)
    known = [(word.label, u.start + word.start) for u in references for word in u.words]
    gaps = [[abs(word.start - start) for label, start in known if label == word.label] for word in words]
    assert 0.5 < len(words) / len(known) < 1.5
    assert sum(min(gap, default=9.0) < 0.1 for gap in gaps) > 0.5 * len(known)


def test_realignment_moves_some_states_and_is_kept(tmp_path: Path) -> None:
    again = realign(model("kernel"), aligned(), output_dir=tmp_path)
    name = aligned().ids("train")[0]
    assert len(again.states[name]) == len(aligned().states[name])
    old, new = (np.concatenate([corpus.states[i] for i in corpus.ids("train")]) for corpus in (aligned(), again))
    assert 0.5 < (old == new).mean() < 1
    test = aligned().ids("test")[0]
    assert np.array_equal(again.states[test], aligned().states[test])
    logs = torch.from_numpy(model("kernel").log_likelihoods(np.asarray(aligned().frames[name])))
    fits = [float(logs.gather(1, torch.tensor(y[:, None].astype("int64"))).mean()) for y in
            (np.asarray(aligned().states[name]), np.asarray(again.states[name]))]  # fmt: skip
    assert fits[1] > fits[0]  # the model's own path fits the model better
    stored = realign(model("network"), aligned(), output_dir=tmp_path)
    assert np.array_equal(stored.states[name], again.states[name])


def test_a_combination_is_the_mean_of_log_posteriors() -> None:
    frames = np.asarray(aligned().frames[aligned().ids("dev")[0]])
    both = combine([model("kernel"), model("network")], shares=[0.25, 0.75]).log_posteriors(frames)
    expected = 0.25 * model("kernel").log_posteriors(frames) + 0.75 * model("network").log_posteriors(frames)
    expected -= np.log(np.exp(expected).sum(axis=1, keepdims=True))
    assert both == pytest.approx(expected, abs=1e-4)


def test_a_combination_with_the_gmm_is_a_sum_of_log_likelihoods_and_the_single_models_at_its_ends() -> None:
    frames = np.asarray(aligned().frames[aligned().ids("dev")[0]])
    kernel, gmm = model("kernel"), model("gmm")
    ends = {share: combine([kernel, gmm], shares=[share, 1 - share]) for share in (1.0, 0.25, 0.0)}
    assert np.array_equal(ends[1.0].log_likelihoods(frames), kernel.log_likelihoods(frames))
    weights = [end.weights.acoustic_weight * end.log_likelihoods(frames) for end in (ends[0.0], gmm)]
    assert np.ptp(weights[0] - weights[1], axis=1).max() < 1e-3  # scores are defined up to a constant for each frame
    expected = 0.25 * kernel.log_likelihoods(frames).astype(float) + 0.75 * 0.5 * gmm.log_likelihoods(frames)
    assert np.ptp(ends[0.25].log_likelihoods(frames) - expected, axis=1).max() < 1e-3
    audio = aligned().corpus.directory / str(aligned().corpus.part("test")[0].audio)
    assert ends[1.0].transcribe(audio) == kernel.transcribe(audio)
    assert ends[0.0].transcribe(audio) == gmm.transcribe(audio)


def test_what_cannot_be_combined_is_named() -> None:
    kernel, gmm = model("kernel"), model("gmm")
    with pytest.raises(ValueError, match="only the last may be"):
        combine([gmm, kernel])
    with pytest.raises(ValueError, match="only the last may be"):
        combine([combine([kernel, gmm]), gmm])
    with pytest.raises(ValueError, match="combined with one model, got 2"):
        combine([kernel, model("network"), gmm])


def test_the_best_share_is_that_of_least_error_on_dev(tmp_path: Path) -> None:
    best, errors = best_combination([model("kernel"), model("network")], aligned(), output_dir=tmp_path)
    assert best.about["shares"][0] == min(errors, key=lambda share: errors[share])
    assert set(errors) == {0.25, 0.5, 0.75}


def test_the_command_prints_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model("kernel").save(tmp_path / "model")
    audio = aligned().corpus.directory / str(aligned().corpus.part("train")[0].audio)
    main(["transcribe", str(tmp_path / "model"), str(audio)])
    assert capsys.readouterr().out.strip() == model("kernel").transcribe(audio).text
    with pytest.raises(SystemExit):
        main(["transcribe", str(tmp_path), str(audio)])
    assert "has no model.json" in capsys.readouterr().err


def test_probabilities_of_pronunciations_are_those_of_train_and_stay_with_the_model(tmp_path: Path) -> None:
    plain, counted = aligned(), open_aligned(aligned().corpus, aligned().directory, pronunciation_probabilities=True)
    lexicon = counted.corpus.lexicon
    for word, pronunciations in lexicon.entries.items():
        assert sum(lexicon.probabilities[word, phones] for phones in pronunciations) == pytest.approx(1.0)
    other = {**lexicon.entries, lexicon.words[0]: (*lexicon[lexicon.words[0]], ("SIL",))}
    more = replace(plain.corpus, lexicon=Lexicon(other, lexicon.silence))
    counts = with_probabilities(more, plain.gmm).probabilities
    assert counts[lexicon.words[0], ("SIL",)] < counts[lexicon.words[0], lexicon[lexicon.words[0]][0]]
    saved = replace(model("kernel"), lexicon=lexicon)
    saved.save(tmp_path / "model")
    assert AcousticModel.load(tmp_path / "model").lexicon == lexicon
