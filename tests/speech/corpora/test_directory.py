"""Directories of recordings with transcript files or a table; errors name the problem."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from bochner.speech.audio import read_audio
from bochner.speech.corpora.directory import prepare_directory
from tests.speech.made import tone, write_wav


@pytest.fixture
def folder(tmp_path):
    for speaker in ("ann", "bob", "cy", "dee"):
        for k in range(2):
            path = write_wav(tmp_path / "talk" / speaker / f"{speaker}_{k}.wav")
            path.with_suffix(".txt").write_text("Good  morning\n")
    return tmp_path / "talk"


def test_transcripts_beside_the_recordings(folder, tmp_path):
    made = prepare_directory(folder, tmp_path / "corpus")
    assert Counter(utterance.part for utterance in made.utterances) == dict.fromkeys(
        ["train", "heldout", "dev", "test"], 2
    )
    assert made.utterances[0].text == "Good morning"
    assert (made.utterances[0].id, made.utterances[0].speaker) == ("ann-ann_0", "ann")
    assert "8 utterances, none skipped" in str(made)


def test_what_cannot_be_used_is_reported(folder, tmp_path):
    write_wav(folder / "ann" / "b_empty.wav", tone()[:0]).with_suffix(".txt").write_text("x")
    write_wav(folder / "ann" / "e_silent.wav")
    (folder / "ann" / "f_alone.txt").write_text("x")
    made = prepare_directory(folder, tmp_path / "corpus")
    assert [one.reason.partition(" (")[0] for one in made.skipped] == [
        "no samples", "no transcript", "no recording",
    ]  # fmt: skip
    assert len(made.utterances) == 8


def test_recordings_are_read_at_the_lowest_rate_but_at_most_16_khz(folder, tmp_path):
    write_wav(folder / "ann" / "high.wav", rate=48000).with_suffix(".txt").write_text("x")
    made = prepare_directory(folder, tmp_path / "first")
    assert {utterance.rate for utterance in made.utterances} == {16000}
    high = next(utterance for utterance in made.utterances if utterance.id == "ann-high")
    assert (high.duration, len(read_audio(high, corpus_dir=made.directory))) == (0.5, 8000)
    write_wav(folder / "ann" / "low.wav", rate=8000).with_suffix(".txt").write_text("x")
    assert {utterance.rate for utterance in prepare_directory(folder, tmp_path / "second").utterances} == {8000}
    assert {utterance.rate for utterance in prepare_directory(folder, tmp_path / "third", rate=11025).utterances} == {
        11025
    }


def test_a_channel_of_stereo_recordings(folder, tmp_path):
    for path in folder.rglob("*.wav"):
        write_wav(path, np.stack([0 * tone(), tone()], 1))
    made = prepare_directory(folder, tmp_path / "corpus", channel=1)
    assert np.abs(read_audio(made.utterances[0], corpus_dir=made.directory) - tone()).max() <= 2.0**-15
    write_wav(folder / "ann" / "ann_1.wav")
    made = prepare_directory(folder, tmp_path / "other", channel=1)
    assert [entry.reason for entry in made.skipped] == ["no channel 1 (1 channels, counted from 0)"]


@pytest.mark.parametrize(("name", "mark"), [("transcripts.tsv", "\t"), ("transcripts.csv", ",")])
def test_a_table_with_speakers_and_parts(folder, tmp_path, name, mark):
    rows = [["audio", "text", "speaker", "part"], ["ann/ann_0.wav", "hello", "Mary Ann", "train"]]
    rows += [["bob/bob_0.wav", "good bye", "bob", "test"]]
    (folder / name).write_text("\n".join(mark.join(row) for row in rows) + "\n")
    made = prepare_directory(folder, tmp_path / "corpus")
    found = [(utterance.speaker, utterance.part, utterance.text) for utterance in made.utterances]
    assert found == [("Mary_Ann", "train", "hello"), ("bob", "test", "good bye")]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("audio,speaker\n", "must have a header of audio and text"),
        ("audio,text\nann/ann_0.wav,hi,more\n", "line 2: expected 2 fields"),
        ("audio,text\n../ann_0.wav,hi\n", "line 2: audio must be below"),
        ("audio,text,part\nann/ann_0.wav,hi,train\nann/ann_1.wav,hi,dev\n", "'ann' is in two parts"),
        ("audio,text,part\nann/ann_0.wav,hi,train\nbob/bob_1.wav,hi,\n", r"missing for \['bob'\]"),
        ("audio,text,part\nann/ann_0.wav,hi,evaluation\n", "part must be one of"),
    ],
)
def test_wrong_tables_are_named(folder, tmp_path, table, message):
    (folder / "transcripts.csv").write_text(table)
    with pytest.raises(ValueError, match=message):
        prepare_directory(folder, tmp_path / "corpus")


def test_one_speaker_is_split_by_recording(tmp_path, caplog):
    for k in range(5):
        write_wav(tmp_path / "talk" / f"x_{k}.wav").with_suffix(".txt").write_text("hi")
    with pytest.raises(ValueError, match="four parts need four speakers"):
        prepare_directory(tmp_path / "talk", tmp_path / "corpus", speakers="folder")
    made = prepare_directory(tmp_path / "talk", tmp_path / "corpus")
    assert len({utterance.speaker for utterance in made.utterances}) == 5
    assert "each recording is treated as a speaker" in caplog.text
    whole = prepare_directory(tmp_path / "talk", tmp_path / "corpus", speakers="prefix", sizes={"train": 1})
    assert {(utterance.speaker, utterance.part) for utterance in whole.utterances} == {("x", "train")}


def test_nothing_usable_is_an_error(tmp_path):
    write_wav(tmp_path / "talk" / "a.wav")
    with pytest.raises(ValueError, match="no utterance can be used; 1 skipped: no transcript"):
        prepare_directory(tmp_path / "talk", tmp_path / "corpus", sizes={"train": 1})
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="must hold recordings"):
        prepare_directory(tmp_path / "none", tmp_path / "corpus")
