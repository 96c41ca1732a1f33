"""Manifests: a round trip, and every broken line named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bochner.speech.manifest import Segment, read_manifest, write_manifest
from tests.speech.made import utterance

FULL = {
    "start": 0.25,
    "frames": "a.ark:17",
    "frame_shift": 0.01,
    "language": "cantonese",
    "synthetic": True,
    "text": "你 好",
    "words": (Segment("你", 0.0, 0.2), Segment("好", 0.2, 0.5)),
    "phones": (Segment("n", 0.0, 0.1), Segment("ei", 0.1, 0.2)),
}


def test_round_trip_keeps_every_field(tmp_path):
    given = [utterance(), utterance(id="bob-1", speaker="bob", part="test", **FULL)]
    write_manifest(tmp_path, given)
    assert read_manifest(tmp_path) == given
    assert read_manifest(tmp_path / "utterances.jsonl") == given
    assert [p.name for p in tmp_path.iterdir()] == ["utterances.jsonl"]


def test_fields_at_their_default_are_not_stored(tmp_path):
    stored = json.loads(write_manifest(tmp_path, [utterance()]).read_text())
    assert list(stored) == ["id", "speaker", "part", "text", "duration", "audio", "rate"]


def test_a_failed_write_leaves_the_old_manifest(tmp_path):
    write_manifest(tmp_path, [utterance()])
    with pytest.raises(ValueError, match="given twice"):
        write_manifest(tmp_path, [utterance(), utterance()])
    assert read_manifest(tmp_path) == [utterance()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": "a b"}, "id must be text without spaces, got 'a b'"),
        ({"speaker": ""}, "speaker must be"),
        ({"part": "eval"}, "part must be one of"),
        ({"text": "yes  no"}, "text must be tokens"),
        ({"duration": 0.0}, "duration must be a positive"),
        ({"duration": float("nan")}, "duration must be a positive"),
        ({"start": -0.1}, "start must be a non-negative"),
        ({"rate": None}, "rate must be an integer"),
        ({"audio": None, "rate": None}, "audio or frames, got neither"),
        ({"audio": ""}, "audio must be a path"),
        ({"frames": "a.ark:1"}, "frame_shift must be a positive"),
        ({"phones": [["a", 0.3, 0.2]]}, "phones must be ordered"),
        ({"phones": [["a", 0.2, 0.3], ["b", 0.1, 0.3]]}, "phones must be ordered"),
        ({"words": [["a", 0.2, 0.6]]}, "words must be ordered and inside"),
        ({"words": [["a", 0.2]]}, r"words must be \[label, start, end\]"),
        ({"words": [["a", 0.0, float("nan")]]}, r"words must be \[label, start, end\]"),
        ({"synthetic": "no"}, "synthetic true or false"),
    ],
)
def test_wrong_fields_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        utterance(**changes)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: "),
        ("", "line 2: "),
        ("[1]", "line 2: an utterance must be a JSON object"),
        ('{"id": "x"}', r"line 2: fields \['speaker', 'part', 'text', 'duration'\] are missing"),
        ('{"id": "x", "colour": 1}', r"line 2: unknown fields \['colour'\]"),
        (b"\xff\xfe", "line 2: "),
        ("[" * 100_000, "line 2: "),
    ],
)
def test_broken_lines_are_named_with_file_and_line(tmp_path, line, message):
    file = write_manifest(tmp_path, [utterance()])
    file.write_bytes(file.read_bytes() + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    with pytest.raises(ValueError, match=f"utterances.jsonl, {message}"):
        read_manifest(tmp_path)


def test_a_speaker_in_two_parts_is_an_error(tmp_path):
    both = [utterance(), utterance(id="ann-2", part="dev")]
    with pytest.raises(ValueError, match="speaker 'ann' is in two parts, train and dev"):
        write_manifest(tmp_path, both)
    lines = [json.dumps({**json.loads(write_manifest(tmp_path, [one]).read_text())}) for one in both]
    (tmp_path / "utterances.jsonl").write_text("\n".join(lines) + "\n")
    with pytest.raises(ValueError, match="two parts"):
        read_manifest(tmp_path)


def test_numbers_of_numpy_are_stored(tmp_path):
    said = utterance(duration=np.float32(0.5), phones=[("a", np.float32(0.25), np.float64(0.5))])
    write_manifest(tmp_path, [said])
    assert read_manifest(tmp_path)[0].phones == (Segment("a", 0.25, 0.5),)
