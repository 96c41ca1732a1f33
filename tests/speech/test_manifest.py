"""Manifests: a round trip, and every broken line named."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from bochner.speech.manifest import Segment, read_manifest, split_speakers, write_manifest
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
    with pytest.raises(ValueError, match="ann-1"):
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
    stored = utterance(duration=np.float32(0.5), phones=[("a", np.float32(0.25), np.float64(0.5))])
    write_manifest(tmp_path, [stored])
    assert read_manifest(tmp_path)[0].phones == (Segment("a", 0.25, 0.5),)


NAMES = [f"{'fm'[k % 2]}{k}" for k in range(40)]


def test_counts_follow_the_shares():
    assert Counter(split_speakers(NAMES, seed=0).values()) == {"train": 28, "heldout": 4, "dev": 4, "test": 4}
    assert Counter(split_speakers(NAMES[:4], seed=0).values()) == dict.fromkeys(["train", "heldout", "dev", "test"], 1)


@pytest.mark.parametrize("count", range(4, 30))
def test_all_are_placed_and_no_part_is_empty(count):
    found = Counter(split_speakers(NAMES[:count], seed=1).values())
    assert found.total() == count
    assert len(found) == 4
    assert found["train"] == max(found.values())


def test_only_seed_and_names_decide():
    first = split_speakers(NAMES, seed=3)
    assert split_speakers(reversed(NAMES + NAMES), seed=3) == first
    assert split_speakers(NAMES, seed=4) != first


def test_groups_are_spread_evenly():
    sexes = {name: name[0] for name in NAMES}
    for seed in range(20):
        parts = split_speakers(NAMES, seed=seed, alike=sexes)
        women = Counter(parts[name] for name in NAMES if name[0] == "f")
        assert women == {"train": 14, "heldout": 2, "dev": 2, "test": 2}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train": 3, "test": 2}, "sum to the 4 speakers"),
        ({"train": 0.7, "test": 0.2}, "sum to 1"),
        ({"eval": 4}, "must be one of"),
        ({"train": -1, "test": 5}, "non-negative"),
    ],
)
def test_wrong_sizes_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        split_speakers(NAMES[:4], seed=0, sizes=sizes)


def test_too_few_speakers_for_the_parts():
    with pytest.raises(ValueError, match="4 parts need at least as many speakers, got 3"):
        split_speakers(NAMES[:3], seed=0)
