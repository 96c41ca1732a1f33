"""Online decoding: the same words as offline, sentences that end at pauses, partial results, bounded context."""

from __future__ import annotations

import io
import json
import sys
import wave
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.model import AcousticModel
from bochner.acoustic.online import StreamSettings, latency, wave_blocks
from bochner.acoustic.transcription import transcribe
from bochner.cli import main
from bochner.speech.audio import read_samples, write_audio
from tests.acoustic.test_model import aligned, model

RATE = 16000
WHOLE = 60.0  # seconds: no sentence of these tests ends before the stream


def unadapted() -> AcousticModel:
    return replace(model("kernel"), adapted=False)


def spoken(number: int) -> np.ndarray:
    corpus = aligned().corpus
    utterance = corpus.part("train")[number]
    audio = corpus.directory / str(utterance.audio)
    return read_samples(audio, rate=RATE, start=utterance.start, duration=utterance.duration)


def blocks(samples: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


@pytest.mark.parametrize("size", [400, 1600, 7001])
def test_the_last_text_is_that_of_the_whole_recording(size: int, tmp_path: Path) -> None:
    own, samples = unadapted(), spoken(0)
    write_audio(tmp_path / "a.wav", samples, rate=RATE)
    samples = read_samples(tmp_path / "a.wav", rate=RATE)
    offline = transcribe(own, [tmp_path / "a.wav"])[0]
    settings = StreamSettings(pause=WHOLE, moments=own.prior.moments([own.front_end(samples)]))
    parts = list(own.transcribe_stream(blocks(samples, size), settings))
    assert parts[-1].final
    assert not any(part.final for part in parts[:-1])
    assert parts[-1].text == offline.text != ""
    assert parts[-1].words == offline.words
    assert all(a.text != b.text for a, b in pairwise(parts[:-1]))
    if size < 7001:
        assert len(parts) > 2


def test_each_frame_is_scored_once_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block is decoded when it arrives, except for the context of the last frames, and no frame is computed again
    but as context of others."""
    own, samples, size, lengths = unadapted(), spoken(0), 1600, []
    compute = AcousticModel.log_likelihoods
    monkeypatch.setattr(AcousticModel, "log_likelihoods", lambda self, x: lengths.append(len(x)) or compute(self, x))
    ends = []

    def arriving() -> Iterator[np.ndarray]:
        for block in blocks(samples, size):
            yield block
            ends.append(len(lengths))

    list(own.transcribe_stream(arriving(), StreamSettings(pause=WHOLE)))
    reach = own.splicer.left + own.splicer.right + 4 * own.stage.view.deltas + 2 * own.stage.view.context
    assert max(lengths) <= size / RATE / 0.01 + reach + 1
    assert ends[-1] >= len(ends) - 3
    assert latency(own) < 0.2


def test_sentences_end_at_pauses() -> None:
    own, pause = unadapted(), (1e-4 * np.random.default_rng(0).standard_normal(RATE)).astype(np.float32)
    stream = np.concatenate([spoken(0), pause, spoken(1), pause])
    finals = [part for part in own.transcribe_stream(blocks(stream, 1600)) if part.final]
    assert len(finals) >= 2
    middle = len(spoken(0)) / RATE
    assert any(middle - 0.5 < part.end < middle + 1.2 for part in finals)
    starts = [word.start for part in finals for word in part.words]
    assert starts == sorted(starts)
    assert starts[-1] > middle + 1.0
    few = [part for part in own.transcribe_stream(blocks(stream, 1600), StreamSettings(max_seconds=1.0)) if part.final]
    assert all(part.end - part.start <= 1.11 for part in few)


@pytest.mark.parametrize("name", ["pause", "max_seconds"])
def test_durations_are_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be .*, got 0"):
        StreamSettings(**{name: 0.0})


@pytest.mark.parametrize("samples", [np.zeros(RATE, np.float32), np.zeros(100, np.float32), np.zeros(0, np.float32)])
def test_silence_has_no_words(samples: np.ndarray) -> None:
    assert list(unadapted().transcribe_stream([samples])) == []


def wav(samples: np.ndarray, *, rate: int = RATE, num_channels: int = 1, width: int = 2) -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(num_channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        scaled = np.round(samples * 2 ** (8 * width - 1) * 0.999)
        file.writeframes(((scaled + 128).astype("u1") if width == 1 else scaled.astype(f"<i{width}")).tobytes())
    return stream.getvalue()


@pytest.mark.parametrize("width", [1, 2, 4])
def test_samples_of_a_wav_stream(width: int) -> None:
    samples = np.sin(np.arange(2000) / 30).astype(np.float32) / 2
    stereo = np.column_stack([samples, -samples])
    content = wav(stereo.ravel(), num_channels=2, width=width)
    read = np.concatenate(list(wave_blocks(io.BytesIO(content), rate=RATE, channel=1)))
    np.testing.assert_allclose(read, -samples, atol=2 / 2 ** (8 * width - 1) + 1e-3)
    assert np.abs(np.concatenate(list(wave_blocks(io.BytesIO(content), rate=RATE)))).max() < 0.01
    half = np.concatenate(list(wave_blocks(io.BytesIO(content), rate=RATE // 2, channel=0)))
    assert len(half) == 1000
    cut = content[:-1]  # a recorder that is stopped
    assert len(np.concatenate(list(wave_blocks(io.BytesIO(cut), rate=RATE, channel=0)))) == 1999


def content_of_24_bits() -> bytes:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(3)
        file.setframerate(RATE)
        file.writeframes(bytes(30))
    return stream.getvalue()


def test_a_stream_that_is_no_wav() -> None:
    with pytest.raises(ValueError, match="WAV"):
        wave_blocks(io.BytesIO(b"noise" * 20), rate=RATE)
    with pytest.raises(ValueError, match="8, 16 or 32 bits per sample, got 24"):
        wave_blocks(io.BytesIO(content_of_24_bits()), rate=RATE)
    with pytest.raises(ValueError, match="channel must be below 1"):
        wave_blocks(io.BytesIO(wav(np.zeros(10))), rate=RATE, channel=1)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    model("kernel").save(tmp_path / "model")
    stream = wav(np.concatenate([spoken(0), np.zeros(RATE, np.float32), spoken(1)]))
    outputs = []
    for kind in ("text", "json"):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stream)))
        main(["transcribe", str(tmp_path / "model"), "-", "--stream", "true", "--format", kind])
        outputs.append(capsys.readouterr().out.splitlines())
    parts = [json.loads(line) for line in outputs[1]]
    assert [part["text"] for part in parts if part["final"]] == outputs[0]
    assert len(parts) > len(outputs[0]) >= 1
    with pytest.raises(SystemExit):
        main(["transcribe", str(tmp_path / "model"), "a.wav", "--stream", "true"])
    assert "give - as AUDIO" in capsys.readouterr().err
