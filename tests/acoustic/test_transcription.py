"""Transcripts: silence, confidences, alternatives, speakers, formats, and errors of one line."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import norm

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic import transcription
from bochner.acoustic.decoding import Weights
from bochner.acoustic.model import AcousticModel
from bochner.acoustic.transcription import UNLIKELY, TranscriptSettings, _likely, group_by_speaker, transcribe
from bochner.cli import main
from bochner.speech.audio import read_samples, write_audio
from bochner.speech.frames import FrameStore
from bochner.speech.frontend.postprocess import normalize
from bochner.speech.lm import estimate
from bochner.speech.manifest import Segment
from tests.acoustic.test_model import aligned, model
from tests.processes import run_code

RATE = 16000


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("saved") / "model"
    model("kernel").save(directory)
    return directory


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two utterances of one speaker, each in a separate file of one directory."""
    directory, corpus = tmp_path_factory.mktemp("talks"), aligned().corpus
    for number, utterance in enumerate(corpus.part("train")[:2]):
        samples = read_samples(
            corpus.directory / str(utterance.audio), rate=RATE, start=utterance.start, duration=utterance.duration
        )
        write_audio(directory / f"{number}.wav", samples, rate=RATE)
    return directory


def quiet(path: Path, name: str) -> Path:
    samples = np.zeros(RATE, np.float32)
    if name == "dithered":
        samples = np.random.default_rng(0).integers(-1, 2, RATE).astype(np.float32) * 2.0**-15
    if name == "hum":
        samples = (0.1 * np.random.default_rng(0).standard_normal(RATE)).astype(np.float32)
    write_audio(path / "quiet.wav", samples, rate=RATE)
    return path / "quiet.wav"


@pytest.mark.parametrize("name", ["zeros", "dithered", "hum"])
def test_silence_has_no_words(name: str, tmp_path: Path) -> None:
    transcript = model("kernel").transcribe(quiet(tmp_path, name), TranscriptSettings(confidences=True))
    assert (transcript.text, transcript.phones, transcript.duration) == ("", (), 1.0)


def test_less_than_a_frame_has_no_words(tmp_path: Path) -> None:
    write_audio(tmp_path / "a.wav", np.zeros(100, np.float32), rate=RATE)
    transcript = model("kernel").transcribe(tmp_path / "a.wav")
    assert (transcript.words, transcript.duration) == ((), 100 / RATE)


def test_bursts_of_noise_are_rejected_by_confidence(tmp_path: Path) -> None:
    confidences = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        envelope = np.repeat(generator.uniform(0, 1, 20) ** 2, RATE // 10)
        noise = (0.2 * envelope * generator.standard_normal(2 * RATE)).astype("float32")
        write_audio(tmp_path / "a.wav", noise, rate=RATE)
        confidences += model("kernel").transcribe(tmp_path / "a.wav", TranscriptSettings(confidences=True)).confidences
    assert np.mean(np.array(confidences) >= 0.5) <= 0.1


def test_a_short_word_is_judged_with_the_speech_around_it() -> None:
    """Two words of 10 frames, likely and unlikely, in 25 frames of speech have the same likelihood."""
    own = model("kernel")
    words = (Segment("a", 0.0, 0.1), Segment("b", 0.1, 0.2))
    scores = np.linspace(-10.0, -100.0, 25)
    frames = np.zeros((25, 1))
    speech = ~np.isin(own.hmm.table.pdf, list(own.stage.silence_pdfs))
    ids = np.flatnonzero(speech)[-1:].repeat(25)
    mixtures = SimpleNamespace(log_likelihoods=lambda rows: np.repeat(scores[:, None], own.hmm.num_pdfs, axis=1))
    judged = SimpleNamespace(
        likelihood=(0.0, 20.0), hmm=own.hmm, frame_times=(0.01, 0.0),
        stage=SimpleNamespace(mixtures=mixtures, silence_pdfs=own.stage.silence_pdfs),
    )  # fmt: skip
    expected = norm.cdf(scores.mean() / 20.0) / UNLIKELY
    assert expected < 1.0
    assert _likely(judged, frames, ids, words) == pytest.approx([expected, expected])


def test_confidences_are_probabilities_and_words_below_the_least_are_left_out(talks: Path) -> None:
    sure = model("kernel").transcribe(talks / "0.wav", TranscriptSettings(confidences=True, nbest=3))
    assert sure.text == model("kernel").transcribe(talks / "0.wav").text
    assert len(sure.confidences) == len(sure.words) > 0
    assert all(0 <= p <= 1 for p in sure.confidences)
    assert sure.alternatives[0][0] == sure.text
    assert 1 < len(sure.alternatives) <= 3
    assert sum(p for _, p in sure.alternatives) == pytest.approx(1.0)
    least = sorted(sure.confidences)[0]
    fewer = model("kernel").transcribe(talks / "0.wav", TranscriptSettings(min_confidence=min(1.0, least + 1e-9)))
    assert len(fewer.words) == sum(p >= least + 1e-9 for p in sure.confidences)


def test_recordings_of_one_speaker_are_normalised_together(talks: Path) -> None:
    files = sorted(talks.iterdir())
    together = transcribe(model("kernel"), files)
    assert [t.duration for t in together] == [model("kernel").transcribe(file).duration for file in files]
    references = [utterance.tokens for utterance in aligned().corpus.part("train")[:2]]
    hits = [len(set(t.text.split()) & set(r)) / len(set(r)) for t, r in zip(together, references, strict=True)]
    assert np.mean(hits) > 0.5


def test_recordings_are_grouped_by_speaker(talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two recordings of one person, the same at a tenth of the level through another microphone, and silence."""
    files = sorted(talks.iterdir())
    for file in files:
        samples = read_samples(file, rate=RATE)
        write_audio(tmp_path / file.name, 0.1 * np.diff(samples, prepend=samples[:1]).astype(np.float32), rate=RATE)
    others, silence = [tmp_path / file.name for file in files], quiet(tmp_path, "zeros")
    own, mixed = model("kernel"), [files[0], others[0], silence, files[1], others[1]]
    assert group_by_speaker(own, mixed) == [files, others, [silence]]
    assert group_by_speaker(own, []) == []
    monkeypatch.setattr(transcription, "MAX_GROUP_FRAMES", 10)
    assert group_by_speaker(own, files) == [[file] for file in files]
    assert group_by_speaker(replace(own, prior=None), files) == [[file] for file in files]


def test_recordings_that_sound_alike_are_transcribed_together(
    saved: Path, talks: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = {}
    for speaker in ("auto", "same", "file"):
        main(["transcribe", str(saved), str(talks / "1.wav"), str(talks / "0.wav"), "--format", "json"]
             + (["--speaker", speaker] if speaker != "auto" else []))  # fmt: skip
        outputs[speaker] = capsys.readouterr().out
        assert [json.loads(line)["name"] for line in outputs[speaker].splitlines()] == ["1", "0"]
    assert outputs["auto"] == outputs["same"] != outputs["file"]


def test_a_short_recording_is_normalised_by_the_prior_of_the_model(
    talks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the prior the cepstra of half a second would have mean zero."""
    own = model("kernel")
    write_audio(tmp_path / "short.wav", read_samples(talks / "0.wav", rate=RATE, duration=0.5), rate=RATE)
    cepstra = own.front_end(read_samples(tmp_path / "short.wav", rate=RATE))
    moments = own.prior.moments([cepstra])
    expected = (cepstra.mean(axis=0) - moments.mean) / moments.std
    seen = []
    view = lambda frames: seen.append(frames.mean(axis=0)) or own.stage.view(frames)  # noqa: E731
    replace(own, stage=replace(own.stage, view=view), adapted=False).transcribe(tmp_path / "short.wav")
    assert seen[0] == pytest.approx(expected, abs=1e-4)
    assert np.abs(expected).max() > 0.1


def test_mixtures_of_unadapted_frames_fit_new_speakers_better_than_those_of_sat() -> None:
    """The frames are those of single recordings of the speakers of the other parts."""
    own = model("gmm")
    raw, gains = FrameStore(aligned().directory / "raw"), []
    for name in [*aligned().ids("heldout"), *aligned().ids("dev"), *aligned().ids("test")]:
        frames = own.stage.view(normalize(raw[name], own.prior.moments([raw[name]])))
        states = np.asarray(aligned().states[name])
        fits = [
            mixtures.log_likelihoods(frames)[np.arange(len(states)), states].mean()
            for mixtures in (own.stage.mixtures, own.unadapted)
        ]
        gains.append(fits[1] - fits[0])
    assert np.mean(gains) > 0.2


def test_a_recording_too_short_for_adaptation_is_decoded_by_mixtures_of_unadapted_frames(talks: Path) -> None:
    own, short, settings = model("gmm"), talks / "0.wav", TranscriptSettings(confidences=True)
    stage = replace(own.stage, mixtures=own.unadapted)
    expected = replace(own, stage=stage, adapted=False).transcribe(short, settings)
    assert own.transcribe(short, settings).confidences == expected.confidences
    assert replace(own, unadapted=None).transcribe(short, settings).confidences != expected.confidences
    weights = Weights(2.0 * own.weights.acoustic_weight, 0.5)
    expected = replace(own, stage=stage, adapted=False, weights=weights).transcribe(short, settings)
    assert replace(own, unadapted_weights=weights).transcribe(short, settings).confidences == expected.confidences


def test_a_long_recording_is_decoded_in_parts(
    talks: Path, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pause = np.zeros(RATE, np.float32)
    first, second = (read_samples(file, rate=RATE) for file in sorted(talks.iterdir()))
    period = np.concatenate([first, pause, second, pause])
    count = int(np.ceil(32 * RATE / len(period)))
    write_audio(tmp_path / "long.wav", np.tile(period, count), rate=RATE)
    lengths, compute = [], AcousticModel.log_likelihoods
    monkeypatch.setattr(AcousticModel, "log_likelihoods", lambda self, x: lengths.append(len(x)) or compute(self, x))
    words = ["transcribe", str(saved), str(tmp_path / "long.wav"), "--format", "json", "--nbest", "2"]
    main([*words, "--lattices", str(tmp_path / "lattices")])
    stored = json.loads(capsys.readouterr().out)
    assert max(lengths) <= 3001
    assert len(set(lengths)) >= 2
    assert stored["duration"] > 32
    starts = [word["start"] for word in stored["words"]]
    assert starts == sorted(starts)
    assert starts[-1] > 25
    places = np.searchsorted(starts, np.arange(count + 1) * len(period) / RATE)
    repeats = {" ".join(word["word"] for word in stored["words"][a:b]) for a, b in pairwise(places)}
    assert len(repeats) <= (count + 1) / 2  # the same speech gives nearly the same words wherever it is
    best, next_best = stored["alternatives"]
    assert best["text"] == stored["text"]
    assert best["probability"] >= next_best["probability"]
    assert "\nlong-2\n" in (tmp_path / "lattices" / "long.lat").read_text()


def test_another_language_model_chooses_among_the_best_sentences(talks: Path) -> None:
    plain = model("kernel").transcribe(talks / "0.wav", TranscriptSettings(nbest=5))
    wanted = plain.alternatives[-1][0]
    biased = estimate([wanted] * 50, order=3, vocabulary=model("kernel").lexicon.words,
                      fallback_discounts=(0.5, 1.0, 1.5))  # fmt: skip
    chosen = model("kernel").transcribe(talks / "0.wav", TranscriptSettings(rescoring=biased, confidences=True))
    assert chosen.text == wanted
    assert [word.start for word in chosen.words] == sorted(word.start for word in chosen.words)


def test_formats_of_the_command(saved: Path, talks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["transcribe", str(saved), str(talks)])
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()] == ["0", "1"]
    main(["transcribe", str(saved), str(talks / "0.wav"), str(talks / "1.wav"), "--format", "json", "--nbest", "2"])
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["text"].split() == [word["word"] for word in first["words"]]
    assert (first["name"], second["name"], len(first["alternatives"])) == ("0", "1", 2)
    main(["transcribe", str(saved), str(talks), "--format", "textgrid", "--output_dir", str(tmp_path / "grids")])
    assert sorted(file.name for file in (tmp_path / "grids").iterdir()) == ["0.TextGrid", "1.TextGrid"]
    main(["transcribe", str(saved), str(talks / "0.wav"), "--format", "ctm", "--lattices", str(tmp_path / "lattices")])
    assert [line.split()[4] for line in capsys.readouterr().out.splitlines()] == first["text"].split()
    assert (tmp_path / "lattices" / "0.lat").read_text().startswith("0\n")


def test_a_recording_from_the_standard_input(
    saved: Path, talks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO((talks / "0.wav").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    main(["transcribe", str(saved), "-"])
    assert capsys.readouterr().out.strip() == model("kernel").transcribe(talks / "0.wav").text


def test_two_recordings_of_the_same_name_in_a_directory_are_named(
    saved: Path, talks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in ("wav", "flac"):
        write_audio(tmp_path / f"a.{suffix}", read_samples(talks / "0.wav", rate=RATE, duration=0.5), rate=RATE)
    with pytest.raises(SystemExit):
        main(["transcribe", str(saved), str(tmp_path)])
    assert "a.flac and a.wav" in capsys.readouterr().err


def test_an_empty_standard_input_is_named(
    saved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(SystemExit):
        main(["transcribe", str(saved), "-"])
    assert "the standard input is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.wav"], "nowhere.wav: no such file"),
        (["0.wav", "nowhere.wav"], "1 of 2 recordings could not be read"),
        (["0.wav", "0.wav"], "audio must have different names, got '0' twice"),
        (["0.wav", "--min_confidence", "2"], "min_confidence must lie between 0 and 1, got 2.0"),
    ],
)
def test_errors_are_one_line(
    saved: Path, talks: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(talks)
    with pytest.raises(SystemExit):
        main(["transcribe", str(saved), *words])
    assert message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_an_error_of_one_line(saved: Path, talks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["transcribe", str(saved), str(talks / "0.wav"), "--device", "cuda"])
    assert stopped.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bochner: error: device must be")


def test_a_process_that_has_imported_nothing_else_transcribes_the_same(saved: Path, talks: Path) -> None:
    code = (
        "import sys; from bochner.cli import main; assert 'bochner.acoustic' not in sys.modules;"
        "main(['transcribe', *sys.argv[1:]])"
    )
    done = run_code(code, saved, talks / "0.wav")
    assert (done.returncode, done.stdout.strip()) == (0, model("kernel").transcribe(talks / "0.wav").text), done.stderr
