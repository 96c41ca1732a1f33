"""Adaptation: the transform of a speaker in the model, means of a GMM, the last layer of a classifier."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.adaptation import adapt, align_data, map_means, read_data
from bochner.acoustic.model import AcousticModel, combine
from bochner.acoustic.transcription import transcribe
from bochner.cli import main
from bochner.speech.audio import read_samples, write_audio
from bochner.speech.hmm.mixtures import Mixtures, accumulate
from tests.acoustic.test_model import aligned, model, rows

RATE = 16000
FOLDER = TemporaryDirectory()


@cache
def voice() -> Path:
    """The recordings and transcripts of one speaker that is not in train, about half a minute."""
    corpus, directory = aligned().corpus, Path(FOLDER.name, "voice")
    directory.mkdir()
    speaker = corpus.part("test")[0].speaker
    for number, u in enumerate(u for u in corpus.part("test") if u.speaker == speaker):
        samples = read_samples(corpus.directory / str(u.audio), rate=RATE, start=u.start, duration=u.duration)
        write_audio(directory / f"{number:02d}.wav", samples, rate=RATE)
        (directory / f"{number:02d}.txt").write_text(u.text.upper() + ".")
    return directory


@cache
def gmm() -> AcousticModel:
    return AcousticModel.of(None, rows("train"), aligned())


def own_likelihood(adapted: AcousticModel) -> float:
    """The mean log likelihood of the voice by the mixtures, without further adaptation."""
    data = read_data(adapted, voice())
    frames = adapted.stage.viewed(data.cepstra, data.speaker_of)
    states = align_data(adapted, data).states
    scores = [adapted.stage.mixtures.log_likelihoods(frames[n])[np.arange(len(y)), y].mean() for n, y in states.items()]
    return float(np.mean(scores))


def test_maximum_a_posteriori_means_by_hand() -> None:
    mixtures = Mixtures(np.array([1]), np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    frames = np.full((30, 2), 4.0)
    adapted = map_means(mixtures, accumulate(mixtures, frames, np.zeros(30, dtype=np.int64)), tau=10.0)
    assert adapted.means == pytest.approx(np.full((1, 2), 3.0))


def test_transcripts_are_normalised_if_the_lexicon_has_them_in_lower_case() -> None:
    data = read_data(model("kernel"), voice())
    assert len(data.utterances) == len(list(voice().glob("*.wav")))
    assert all(set(utterance.tokens) <= set(model("kernel").lexicon) for utterance in data.utterances)
    assert len(data.moments) == 1


def test_the_transform_and_the_moments_of_a_speaker_become_part_of_the_model() -> None:
    data = read_data(gmm(), voice())
    adapted, record = adapt(gmm(), data, methods=["fmllr"])
    assert record["methods"] == ["fmllr"]
    reached = align_data(gmm(), data)
    name = data.utterances[0].id
    view = adapted.stage.view(data.cepstra[name])
    assert view == pytest.approx(np.asarray(reached.frames[name]), abs=1e-3)
    assert adapted.prior is not None
    assert adapted.unadapted is None  # the view adapts every frame
    assert own_likelihood(adapted) > own_likelihood(gmm())


def test_means_of_a_gmm_move_towards_the_data() -> None:
    adapted, record = adapt(gmm(), read_data(gmm(), voice()), methods=["map"])
    assert record["map"]["gain"] > 0
    smaller = adapt(gmm(), read_data(gmm(), voice()), methods=["map"], tau=1000.0)[1]
    assert 0 < smaller["map"]["gain"] < record["map"]["gain"]
    assert adapted.stage.mixtures.variances is gmm().stage.mixtures.variances
    data = read_data(gmm(), voice())
    states = align_data(gmm(), data).states
    fits = [
        np.mean(
            [
                m.log_likelihoods(gmm().stage.view(data.cepstra[n]))[np.arange(len(y)), y].mean()
                for n, y in states.items()
            ]
        )
        for m in (gmm().unadapted, adapted.unadapted)
    ]
    assert fits[1] > fits[0]


@pytest.mark.parametrize("kind", ["kernel", "network"])
def test_the_last_layer_learns_from_the_data_and_stops_on_unseen_utterances(kind: str) -> None:
    adapted, record = adapt(model(kind), read_data(model(kind), voice()), methods=["head"])
    losses = record["head"]["heldout_ce"]
    assert min(losses) < losses[0]
    before, after = model(kind), adapted
    frames = next(iter(align_data(before, read_data(before, voice())).frames.values()))
    assert np.abs(after.log_posteriors(frames) - before.log_posteriors(frames)).max() > 0.01


def test_both_members_of_a_combination_with_a_gmm_are_adapted() -> None:
    both = combine([model("kernel"), gmm()])
    adapted, record = adapt(both, read_data(both, voice()))
    assert record["methods"] == ["fmllr", "map", "head"]
    assert record["map"]["gain"] > 0
    assert len(record["head"]["heldout_ce"]) > 1
    assert adapted.shares == both.shares
    assert adapted.module is not both.module


def test_what_cannot_be_adapted_is_named() -> None:
    data = read_data(model("kernel"), voice(), speakers="file")
    with pytest.raises(ValueError, match="fmllr adapts to one speaker, got"):
        adapt(model("kernel"), data, methods=["fmllr"])
    with pytest.raises(ValueError, match="map adapts a GMM"):
        adapt(model("kernel"), data, methods=["map"])
    with pytest.raises(ValueError, match="head trains the last layer of a classifier"):
        adapt(gmm(), data, methods=["head"])


def test_methods_are_named_without_brackets_and_an_old_directory_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gmm().save(tmp_path / "model")
    command = ["adapt", str(tmp_path / "model"), str(voice()), "--output_dir"]
    main([*command, str(tmp_path / "adapted"), "--methods", "fmllr,map"])
    assert "fmllr, map" in capsys.readouterr().out
    for words, message in (
        ([str(tmp_path / "adapted")], "new or empty"),
        ([str(tmp_path / "other"), "--methods", "mlp"], "'mlp'"),
    ):
        with pytest.raises(SystemExit):
            main([*command, *words])
        output = capsys.readouterr()
        assert message in output.err
        assert "map" not in output.out


def test_the_command_writes_a_model_that_transcribes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gmm().save(tmp_path / "model")
    main(["adapt", str(tmp_path / "model"), str(voice()), "--output_dir", str(tmp_path / "adapted")])
    out = capsys.readouterr().out
    assert "1 speakers, 0 skipped" in out
    adapted = AcousticModel.load(tmp_path / "adapted")
    assert adapted.about["adapted"]["methods"] == ["fmllr", "map"]
    files = sorted(voice().glob("*.wav"))
    references = [set(path.with_suffix(".txt").read_text().lower().rstrip(".").split()) for path in files]
    results = [set(result.text.split()) for result in transcribe(adapted, files)]
    hits = [len(found & words) / len(words) for found, words in zip(results, references, strict=True)]
    assert np.mean(hits) > 0.5


@pytest.mark.parametrize(("kind", "text"), [("gmm", "log likelihood per frame"), ("kernel", "cross-entropy")])
def test_the_command_prints_each_result_once(
    kind: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (gmm() if kind == "gmm" else model(kind)).save(tmp_path / "model")
    main(["adapt", str(tmp_path / "model"), str(voice()), "--output_dir", str(tmp_path / "adapted")])
    assert capsys.readouterr().out.count(text) == 1
