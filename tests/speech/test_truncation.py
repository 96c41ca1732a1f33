"""Files that end early, in every format that states its length."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from bochner.speech.audio import AudioError, read_samples
from bochner.speech.truncation import truncation
from tests.speech.made import tone, write_wav


@pytest.mark.parametrize(
    ("kept", "stated", "reason"),
    [
        (1.0, None, None),
        (0.5, None, "truncated: it holds 0.50 s, its header states 1.00 s"),
        (0.999, None, None),  # less than a hundredth of a second
        (0.5, 0xFFFFFFFF, None),  # a stream, whose length was not known
        (0.5, 0x7FFFFFFF, None),
        (0.5, 0, None),
    ],
)
def test_truncated_files_are_recognised_by_their_headers(tmp_path, kept, stated, reason):
    path = write_wav(tmp_path / "a.wav", tone(1.0), subtype="PCM_16")
    content = bytearray(path.read_bytes())
    assert content[36:40] == b"data"
    content[36:36] = b"LIST" + (5).to_bytes(4, "little") + bytes(6)  # a chunk of odd length is padded
    if stated is not None:
        content[54:58] = stated.to_bytes(4, "little")
    path.write_bytes(content[: 58 + 2 * round(16000 * kept)])
    assert truncation(path) == reason


FORMATS = {
    "a.aiff": ("AIFF", "PCM_16"),
    "a.aifc": ("AIFF", "ALAW"),
    "a.sph": ("NIST", "PCM_16"),
    "a.mp3": ("MP3", "MPEG_LAYER_III"),
    "a.ogg": ("OGG", "VORBIS"),
    "a.opus": ("OGG", "OPUS"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_truncated_files_of_other_formats_are_recognised(tmp_path, name, caplog):
    container, subtype = FORMATS[name]
    noise = 0.1 * np.random.default_rng(0).standard_normal(32000)
    path = tmp_path / name
    soundfile.write(path, noise, 16000, format=container, subtype=subtype)
    content = path.read_bytes()
    assert len(read_samples(path, rate=16000)) == 32000
    assert truncation(path) is None
    assert caplog.text == ""
    path.write_bytes(content[: 3 * len(content) // 4])
    assert len(read_samples(path, rate=16000)) < 25600
    assert f"{path} is truncated" in caplog.text
    with pytest.raises(AudioError, match=f"{name}: too short"):
        read_samples(path, rate=16000, start=0.5, duration=1.5)


def test_an_mp3_file_is_recognised_as_truncated_after_a_tag(tmp_path):
    path = tmp_path / "a.mp3"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal((32000, 2)), 48000, format="MP3")
    content = path.read_bytes()
    tag = b"ID3\x04\x00\x00" + bytes([0, 0, 2, 1]) + bytes(257)
    path.write_bytes(tag + content + b"TAG" + bytes(125))
    assert truncation(path) is None
    path.write_bytes(tag + content[: len(content) // 2])
    assert truncation(path) is not None


def test_an_ogg_file_that_ends_after_a_page_is_truncated(tmp_path):
    path = tmp_path / "a.ogg"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(80000), 16000)
    content = path.read_bytes()
    for end in (content.rindex(b"OggS"), content.rindex(b"OggS") + 10, len(content) - 1):
        path.write_bytes(content[:end])
        assert truncation(path) is not None
    path.write_bytes(content + bytes(10))
    assert truncation(path) is None
