"""Formats of transcripts, and the recordings that `bochner transcribe` is given."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from bochner.acoustic.transcription import Transcript
from bochner.cli.transcribe import _formatted, _print_stream, _recordings
from bochner.speech.manifest import Segment

TRANSCRIPT = Transcript(
    words=(Segment("good", 0.5, 0.8), Segment("morning", 0.8, 1.25)),
    alternatives=(("good morning", 0.75), ("good", 0.25)),
)


@pytest.mark.parametrize(
    ("kind", "nbest", "several", "expected"),
    [
        ("srt", 1, True, "1\n00:00:00,500 --> 00:00:01,250\ngood morning\n"),
        ("vtt", 1, True, "WEBVTT\n\n00:00:00.500 --> 00:00:01.250\ngood morning\n"),
        ("text", 1, False, "good morning\n"),
        ("text", 1, True, "talk: good morning\n"),
        ("text", 2, True, "talk: 0.750 good morning\ntalk: 0.250 good\n"),
    ],
)
def test_formats(kind: str, nbest: int, several: bool, expected: str) -> None:
    assert _formatted("talk", TRANSCRIPT, kind, nbest=nbest, several=several) == expected


def test_a_directory_without_recordings_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ValueError, match=rf"\.wav.* got none in {tmp_path}"), _recordings([str(tmp_path)]):
        pass
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "talk.WAV").write_bytes(b"")
    with _recordings([str(tmp_path)]) as found:
        assert found == {"inner/talk": tmp_path / "inner" / "talk.WAV"}


def test_a_model_of_given_frames_has_no_stream() -> None:
    with pytest.raises(ValueError, match="trained on frames provided by a corpus"):
        _print_stream(SimpleNamespace(front_end=None), "text", None)
