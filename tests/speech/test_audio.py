"""Audio: round trips, and the reasons why recordings cannot be used."""

from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.audio import (
    AudioError,
    clipped_share,
    read_audio,
    read_samples,
    resample,
    resampled_blocks,
    sample_blocks,
    write_audio,
)
from bochner.speech.text_files import Skipped, read_skipped, write_skipped
from tests.speech.made import tone, utterance, write_wav


@pytest.mark.parametrize("suffix", ["wav", "flac"])
def test_round_trip_of_sixteen_bits(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    write_audio(path, tone(), rate=16000)
    assert np.abs(read_samples(path, rate=16000) - tone()).max() <= 2.0**-15


def test_an_utterance_is_its_own_stretch_of_the_file(tmp_path):
    whole = np.random.default_rng(0).uniform(-0.5, 0.5, 16000).astype(np.float32)
    write_audio(tmp_path / "1.wav", whole, rate=16000)
    part = read_audio(utterance(start=0.25, duration=0.5), corpus_dir=tmp_path)
    assert len(part) == 8000
    assert np.abs(part - whole[4000:12000]).max() <= 2.0**-15


def bad(name: str) -> tuple[np.ndarray, str]:
    x = tone()
    if name == "nan":
        x[7] = np.nan
    if name == "infinite":
        x[7] = np.inf
    if name == "clipped":
        x = np.clip(5 * x, -1, 1)
    return {"empty": x[:0]}.get(name, x), "FLOAT"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nan", "NaN or infinite samples"),
        ("infinite", "NaN or infinite samples"),
        ("clipped", r"clipped \(\d\d\.\d% of the samples at full scale\)"),
        ("empty", "no samples"),
    ],
)
def test_bad_recordings_are_refused_by_name_and_reason(tmp_path, name, reason):
    samples, subtype = bad(name)
    path = write_wav(tmp_path / f"{name}.wav", samples, subtype=subtype)
    with pytest.raises(AudioError, match=rf"{name}\.wav: {reason}") as caught:
        read_samples(path, rate=16000)
    assert caught.value.reason in str(caught.value)


@pytest.mark.parametrize("own_rate", [8000, 11025, 44100, 48000])
def test_recordings_of_any_rate_are_resampled(tmp_path, own_rate):
    path = write_wav(tmp_path / "a.wav", tone(1.0, rate=own_rate), rate=own_rate)
    samples = read_samples(path, rate=16000)
    assert len(samples) == 16000
    assert np.abs(samples - tone(1.0))[400:-400].max() < 5e-3
    part = read_samples(path, rate=16000, start=0.24, duration=0.48)
    assert len(part) == 7680
    assert np.abs(part[400:7280] - tone(1.0)[4240:11120]).max() < 0.01


@pytest.mark.parametrize(("rate", "new_rate"), [(8000, 16000), (44100, 16000), (48000, 16000), (16000, 22050)])
def test_blocks_of_any_size_are_resampled_as_the_whole(rate, new_rate):
    generator = np.random.default_rng(0)
    samples = generator.standard_normal(30_001).astype(np.float32)
    for edges in ([1, 7, 500, 9000], [15_000], np.arange(100, 30_000, 100)):
        blocks = list(resampled_blocks(np.split(samples, edges), rate=rate, new_rate=new_rate))
        np.testing.assert_allclose(np.concatenate(blocks), resample(samples, rate=rate, new_rate=new_rate), atol=1e-5)


def test_a_long_recording_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("bochner.speech.audio.BLOCK_SECONDS", 1)
    path = write_wav(tmp_path / "a.wav", tone(3.5, rate=8000), rate=8000)
    assert [len(block) for block in sample_blocks(path, rate=8000)] == [8000, 8000, 8000, 4000]
    assert np.abs(read_samples(path, rate=8000, start=0.5) - tone(3.5, rate=8000)[4000:]).max() <= 2.0**-15
    loud = np.clip(np.where(np.arange(28_000) > 24_000, 5, 1) * tone(3.5, rate=8000), -1, 1)
    with pytest.raises(AudioError, match=r"clipped \(\d"):
        read_samples(write_wav(tmp_path / "loud.wav", loud, rate=8000), rate=8000)


def test_the_length_of_a_resampled_recording_may_be_read_again(tmp_path):
    path = write_wav(tmp_path / "a.wav", tone(1.0, rate=48000)[:47999], rate=48000)
    samples = read_samples(path, rate=8000)
    assert np.array_equal(read_samples(path, rate=8000, duration=len(samples) / 8000), samples)


def test_of_several_channels_the_mean_or_a_chosen_one(tmp_path):
    left, right = tone(), 0.5 * tone()
    path = write_wav(tmp_path / "a.wav", np.stack([left, right], axis=1))
    for channel, expected in ((None, 0.75 * left), (0, left), (1, right)):
        assert np.abs(read_samples(path, rate=16000, channel=channel) - expected).max() <= 2.0**-14
    with pytest.raises(AudioError, match=r"no channel 2 \(2 channels"):
        read_samples(path, rate=16000, channel=2)


def test_a_clipped_channel_counts_if_it_is_used(tmp_path):
    path = write_wav(tmp_path / "a.wav", np.stack([tone(), np.clip(5 * tone(), -1, 1)], axis=1))
    assert len(read_samples(path, rate=16000, channel=0))
    with pytest.raises(AudioError, match="clipped"):
        read_samples(path, rate=16000)


def test_missing_broken_and_short_files(tmp_path):
    path = write_wav(tmp_path / "a.wav", rate=8000)
    with pytest.raises(AudioError, match="no such file"):
        read_samples(tmp_path / "b.wav", rate=16000)
    (tmp_path / "c.wav").write_bytes(b"RIFF and nothing more")
    with pytest.raises(AudioError, match="not readable"):
        read_samples(tmp_path / "c.wav", rate=16000)
    with pytest.raises(AudioError, match=r"too short \(ends at 0.500 s, expected 0.600 s\)"):
        read_samples(path, rate=8000, start=0.5, duration=0.1)


def test_loud_is_not_clipped(tmp_path):
    loud = tone(amplitude=1.0)
    assert clipped_share(loud) == 0.0
    assert clipped_share(np.clip(1.5 * loud, -1, 1)) > 0.3
    peaks = np.zeros(400, dtype=np.float32)
    peaks[100:104] = 1.0  # a hundredth, which is allowed
    assert len(read_samples(write_wav(tmp_path / "a.wav", peaks, subtype="FLOAT"), rate=16000)) == 400


def test_frames_only_have_no_audio(tmp_path):
    with pytest.raises(ValueError, match="has no audio, only frames"):
        read_audio(utterance(audio=None, rate=None, frames="a.npy", frame_shift=0.01), corpus_dir=tmp_path)


def test_resampling_keeps_a_tone_and_removes_what_does_not_fit():
    low = resample(tone(1.0, rate=22050), rate=22050, new_rate=16000)
    inner = slice(200, -200)
    assert np.abs(low[inner] - tone(1.0)[inner]).max() < 2e-3
    high = np.sin(2 * np.pi * 6000 * np.arange(16000) / 16000).astype(np.float32)
    assert np.abs(resample(high, rate=16000, new_rate=8000)[inner]).max() < 0.01


def test_writing_refuses_nan_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="must be finite"):
        write_audio(tmp_path / "a.wav", np.array([np.nan], dtype=np.float32), rate=16000)
    assert not list(tmp_path.iterdir())


def test_the_report_of_skipped_utterances(tmp_path):
    report = [Skipped("a", "no samples"), Skipped("b", "clipped (3.0%)")]
    write_skipped(tmp_path, report)
    assert read_skipped(tmp_path) == report
    (tmp_path / "skipped.jsonl").write_text('{"id": "a"}\n')
    with pytest.raises(ValueError, match="not a report"):
        read_skipped(tmp_path)
