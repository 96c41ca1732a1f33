"""Alignment by a pre-trained model: inputs, outputs, lexicons, and what cannot be aligned.

Speech is synthesised, so that the times of its phones are known.
"""

from __future__ import annotations

import csv
import json
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bochner.speech.align.labels import read_ctm
from bochner.speech.align.output import write_alignments
from bochner.speech.align.recordings import AlignedRecording, TimedLabel, align_files, tokens_of
from bochner.speech.audio import resample
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import Utterance, write_manifest
from bochner.speech.pretrained import load_model
from bochner.speech.synthesis.espeak import RATE, speak, time_phones
from bochner.speech.textgrid import read_textgrid, write_textgrid

WORDS = {
    "please": "p l 'i: z",
    "call": "k 'O: l",
    "seven": "s 'E v @ n",
    "friends": "f r 'E n d z",
    "today": "t @ d 'eI",
}


def speech(*, rate: int = 16000) -> tuple[np.ndarray, list[float]]:
    """All words between two silences, and their start times."""
    text = " ".join(f"[[{phones.replace(' ', '|')}]]" for phones in WORDS.values())
    output = speak(text, voice="en-us+m3", speed=150)
    samples = np.pad(output.samples / 32768, RATE // 4).astype(np.float32)
    noise = 1e-4 * np.random.default_rng(0).standard_normal(len(samples))
    starts = [word[0].start + 0.25 for word in time_phones(output)]
    return resample((samples + noise).astype(np.float32), rate=RATE, new_rate=rate), starts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same words as WAV with .txt, FLAC at 44.1 kHz with .lab, and MP3 with a TextGrid."""
    directory = tmp_path_factory.mktemp("recordings")
    samples, _ = speech()
    soundfile.write(directory / "a.wav", samples, 16000)
    (directory / "a.txt").write_text("Please call seven friends -- today!\n")
    (directory / "inner").mkdir()
    fine, _ = speech(rate=44100)
    soundfile.write(directory / "inner" / "b.flac", fine, 44100)
    (directory / "inner" / "b.lab").write_text("PLEASE CALL SEVEN FRIENDS TODAY")
    soundfile.write(directory / "c.mp3", samples, 16000, format="MP3")
    words = [("please call seven friends today", 0.0, len(samples) / 16000)]
    write_textgrid(directory / "c.TextGrid", {"empty": [], "text": words}, duration=len(samples) / 16000)
    return directory


def test_words_and_phones_of_a_directory(folder: Path) -> None:
    aligned = align_files(folder)
    assert [recording.name for recording in aligned.recordings] == ["a", "c", "inner/b"]
    assert not aligned.skipped
    _, starts = speech()
    for recording in aligned.recordings:
        assert [word.label for word in recording.words] == list(WORDS)
        errors = [abs(word.start - start) for word, start in zip(recording.words, starts, strict=True)]
        assert np.median(errors) < 0.06  # coarse: it is a synthetic voice, and MP3 adds a delay
        assert all(a.end <= b.start + 1e-6 for a, b in pairwise(recording.phones))
        assert all(0.0 <= segment.confidence <= 1.0 for segment in (*recording.words, *recording.phones))
        assert recording.words[0].start == recording.phones[0].start


def test_confidences_are_lower_for_another_text(folder: Path) -> None:
    right, wrong = (
        align_files(folder / "a.wav", text).recordings[0].words
        for text in (None, "nobody wants fish or chips")
    )  # fmt: skip
    assert np.mean([word.confidence for word in wrong]) < 0.8 * np.mean([word.confidence for word in right])


def test_the_confidence_of_a_recording_by_hand() -> None:
    phones = (TimedLabel("AH", 0.0, 0.1, 0.5), TimedLabel("B", 0.1, 0.4, 1.0))
    recording = AlignedRecording(name="a", duration=1.0, words=(), phones=phones)
    assert recording.confidence == pytest.approx(0.5**0.25)
    assert replace(recording, phones=()).confidence == 0.0


def test_files_of_every_format(folder: Path, tmp_path: Path) -> None:
    aligned = align_files(folder)
    write_alignments(tmp_path, aligned, formats=["textgrid", "ctm", "json", "csv"])
    words = aligned.recordings[2].words
    tiers = read_textgrid(tmp_path / "inner" / "b.TextGrid")
    assert [s.label for s in tiers["words"] if s.label] == [word.label for word in words]
    assert tiers["phones"][-1].end == pytest.approx(aligned.recordings[2].duration, abs=1e-6)
    stored = json.loads((tmp_path / "inner" / "b.json").read_text())
    assert stored["words"][0] == words[0]._asdict()
    ctm = read_ctm(tmp_path / "words.ctm")
    assert [segment.label for segment in ctm["a"]] == list(WORDS)
    assert (tmp_path / "phones.ctm").read_text().splitlines()[0].split()[5] == str(aligned.recordings[0].phones[0][3])
    rows = list(csv.DictReader((tmp_path / "segments.csv").open()))
    assert len(rows) == sum(len(r.words) + len(r.phones) for r in aligned.recordings)
    with pytest.raises(ValueError, match="formats"):
        write_alignments(tmp_path, aligned, formats=["praat"])


def test_own_pronunciations_replace_those_of_the_model(folder: Path) -> None:
    own = {"Seven": [["s", "eh1", "v", "n"]], "Xyzzy": [["Z", "IH1", "Z", "IY0"]]}
    (recording,) = align_files(folder / "a.wav", "please call seven friends xyzzy", lexicon=own).recordings
    labels = " ".join(phone.label for phone in recording.phones)
    assert "S EH V N F" in labels
    assert labels.endswith("Z IH Z IY")
    with pytest.raises(ValueError, match=r"'qq' in the pronunciation of 'odd'"):
        align_files(folder / "a.wav", lexicon={"odd": [["qq"]]})


def test_unknown_words_are_marked_and_the_others_aligned(folder: Path) -> None:
    aligned = align_files(folder / "a.wav", "please call mp3 friends today")
    assert aligned.unknown == ["mp3"]
    (recording,) = aligned.recordings
    assert [word.label for word in recording.words] == ["please", "call", "<unk>", "friends", "today"]
    assert [phone.label for phone in recording.phones].count("spn") == 1
    _, starts = speech()
    assert abs(recording.words[3].start - starts[3]) < 0.1


def test_numbers_are_read(folder: Path) -> None:
    aligned = align_files(folder / "a.wav", "Please call 7 friends today", guess=False)
    assert not aligned.unknown
    (recording,) = aligned.recordings
    assert [word.label for word in recording.words] == ["please", "call", "7", "friends", "today"]
    assert "S EH V AH N" in " ".join(phone.label for phone in recording.phones)


@pytest.mark.parametrize("spoken", ["nineteen sixty four", "one nine six four"])
def test_the_recording_decides_how_a_number_is_read(tmp_path: Path, spoken: str) -> None:
    output = speak(f"please call {spoken} friends today", voice="en-us+m3", speed=150)
    soundfile.write(tmp_path / "a.wav", output.samples, RATE)
    (words,) = align_files(tmp_path / "a.wav", f"please call {spoken} friends today").recordings
    (figures,) = align_files(tmp_path / "a.wav", "please call 1964 friends today").recordings
    assert [word.label for word in figures.words] == ["please", "call", "1964", "friends", "today"]
    assert [phone.label for phone in figures.phones] == [phone.label for phone in words.phones]
    (own,) = align_files(tmp_path / "a.wav", "please call 1964 friends today", lexicon={"1964": [["S"]]}).recordings
    assert "L S F" in " ".join(phone.label for phone in own.phones)


def test_words_are_pronounced_by_rule(folder: Path, tmp_path: Path) -> None:
    aligned = align_files(folder / "a.wav", "please call shmish plimble today")
    assert aligned.guessed == {"shmish": ("SH", "M", "IH", "SH"), "plimble": ("P", "L", "IH", "M", "B", "AH", "L")}
    assert [word.label for word in aligned.recordings[0].words][2] == "shmish"
    write_alignments(tmp_path, aligned)
    assert read_lexicon(tmp_path / "guessed.txt").entries.keys() == {"shmish", "plimble"}
    (tmp_path / "guessed.txt").write_text("shmish SH M AY SH")  # corrected by hand, and given as lexicon
    again = align_files(
        folder / "a.wav", "please call shmish wibble", lexicon=read_lexicon(tmp_path / "guessed.txt").entries
    )
    write_alignments(tmp_path, again, lexicon=tmp_path / "guessed.txt")
    assert (tmp_path / "guessed.txt").read_text().splitlines()[0] == "shmish SH M AY SH"
    assert read_lexicon(tmp_path / "guessed.txt").entries.keys() == {"shmish", "wibble"}
    marked = align_files(folder / "a.wav", "please call shmish plimble today", guess=False)
    assert marked.unknown == ["shmish", "plimble"]


def test_parts_of_a_textgrid_are_aligned_by_themselves(tmp_path: Path) -> None:
    samples, starts = speech()
    soundfile.write(tmp_path / "a.wav", np.concatenate([samples, samples]), 16000)
    middle = len(samples) / 16000
    text = " ".join(WORDS)
    tier = [(text, 0.0, middle), ("x" * 3, middle, middle + 0.02), (text, middle + 0.02, 2 * middle)]
    write_textgrid(tmp_path / "a.TextGrid", {"other": [("no", 0.0, 1.0)], "text": tier}, duration=2 * middle)
    aligned = align_files(tmp_path / "a.wav", tier="text")
    (recording,) = aligned.recordings
    assert [word.label for word in recording.words] == list(WORDS) * 2
    assert abs(recording.words[5].start - starts[0] - middle) < 0.06
    assert [entry.id for entry in aligned.skipped] == ["a, part 2"]
    with pytest.raises(ValueError, match="other, text"):
        align_files(tmp_path / "a.wav", tier="none")


def test_what_cannot_be_aligned_is_reported_and_the_others_continue(folder: Path, tmp_path: Path) -> None:
    samples, _ = speech()
    for name in ("good", "empty", "long", "no_text"):
        soundfile.write(tmp_path / f"{name}.wav", samples, 16000)
    (tmp_path / "good.txt").write_text("please call seven friends today")
    (tmp_path / "empty.txt").write_text(" ... ")
    (tmp_path / "long.txt").write_text("please call seven friends today " * 50)
    (tmp_path / "broken.wav").write_bytes(b"RIFF....")
    (tmp_path / "broken.txt").write_text("please")
    aligned = align_files(tmp_path)
    assert [recording.name for recording in aligned.recordings] == ["good"]
    reasons = {entry.id: entry.reason for entry in aligned.skipped}
    assert reasons.keys() == {"empty", "long", "broken", "no_text"}
    assert "too short" in reasons["long"]
    assert "no text" in reasons["empty"]


def test_text_files_of_other_systems(tmp_path: Path) -> None:
    """Suffixes in capitals, and UTF-16 as Windows writes it."""
    samples, _ = speech()
    for name in ("big.WAV", "wide.wav"):
        soundfile.write(tmp_path / name, samples, 16000)
    (tmp_path / "big.TXT").write_text(" ".join(WORDS))
    (tmp_path / "wide.txt").write_text(" ".join(WORDS), encoding="utf-16")
    aligned = align_files(tmp_path)
    assert not aligned.skipped
    assert [[word.label for word in recording.words] for recording in aligned.recordings] == [list(WORDS)] * 2


def test_of_two_recordings_of_the_same_name_one_is_aligned(tmp_path: Path) -> None:
    samples, _ = speech()
    for name in ("a.flac", "a.wav"):
        soundfile.write(tmp_path / name, samples, 16000)
    (tmp_path / "a.txt").write_text(" ".join(WORDS))
    aligned = align_files(tmp_path)
    assert [recording.name for recording in aligned.recordings] == ["a"]
    assert [entry.id for entry in aligned.skipped] == ["a.wav"]
    assert "a.flac" in aligned.skipped[0].reason


def test_words_are_not_aligned_with_digital_silence(tmp_path: Path) -> None:
    samples, _ = speech()
    silence = np.zeros(len(samples), np.float32)
    soundfile.write(tmp_path / "a.wav", np.concatenate([silence, samples]), 16000)
    middle, text = len(samples) / 16000, " ".join(WORDS)
    write_textgrid(
        tmp_path / "a.TextGrid", {"text": [(text, 0.0, middle), (text, middle, 2 * middle)]}, duration=2 * middle
    )
    aligned = align_files(tmp_path / "a.wav")
    assert [(entry.id, "silence" in entry.reason) for entry in aligned.skipped] == [("a, part 1", True)]
    assert aligned.recordings[0].words[0].start > middle


def test_accents_do_not_matter_in_english(folder: Path) -> None:
    aligned = align_files(folder / "a.wav", "naïve café zelmíra today")
    assert not aligned.unknown
    assert aligned.guessed.keys() == {"zelmíra"}
    assert [word.label for word in aligned.recordings[0].words][:2] == ["naïve", "café"]


def test_a_channel_is_chosen(tmp_path: Path) -> None:
    samples, _ = speech()
    noise = 0.1 * np.random.default_rng(0).standard_normal(len(samples))
    soundfile.write(tmp_path / "a.wav", np.stack([noise, samples], axis=1), 16000)
    soundfile.write(tmp_path / "b.wav", samples, 16000)
    text = " ".join(WORDS)
    noisy, clean = (align_files(tmp_path / "a.wav", text, channel=channel).recordings[0] for channel in (0, 1))
    assert clean.words == align_files(tmp_path / "b.wav", text).recordings[0].words
    assert clean.words != noisy.words
    assert "no channel 2" in align_files(tmp_path / "a.wav", text, channel=2).skipped[0].reason


def test_the_memory_of_a_long_recording_is_that_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bochner.speech.align.recordings.BLOCK", 500)
    monkeypatch.setattr("bochner.speech.audio.BLOCK_SECONDS", 5)
    samples, model = speech()[0], load_model("en")
    assert model.pronunciations  # loaded before memory is measured
    peaks = []
    for seconds in (20, 80):
        noise = 1e-4 * np.random.default_rng(0).standard_normal(seconds * 16000)
        noise[-len(samples) :] += samples
        soundfile.write(tmp_path / "a.wav", noise, 16000)
        tracemalloc.start()
        (recording,) = align_files(tmp_path / "a.wav", " ".join(WORDS), model=model).recordings
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert recording.words[0].start > seconds - 5
    assert peaks[1] - peaks[0] < 2e6  # the samples of a minute have 3.8 MB, the scores of all states 3 MB


def test_phones_stay_in_order_whatever_the_offsets(folder: Path) -> None:
    model = load_model("en")
    (plain,) = align_files(folder / "a.wav", model=model).recordings
    huge = np.where(np.eye(6)[[1, 0, 2, 3, 4, 5]] > 0, 900.0, -900.0).tolist()  # between a stop and a vowel
    stored = {**model.about["boundary_offsets"], "milliseconds": huge}
    changed = replace(model, about={**model.about, "boundary_offsets": stored})
    (recording,) = align_files(folder / "a.wav", model=changed).recordings
    assert recording.phones != plain.phones
    assert [phone.label for phone in recording.phones] == [phone.label for phone in plain.phones]
    assert all(phone.end - phone.start > 0.0049 for phone in recording.phones)
    assert recording.phones[0].start >= 0.0
    assert recording.phones[-1].end <= recording.duration


def test_arguments_that_do_not_fit_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        align_files(tmp_path / "none.wav")
    with pytest.raises(ValueError, match="is a directory"):
        align_files(folder, "please")
    with pytest.raises(ValueError, match="got none"):
        align_files(tmp_path)
    with pytest.raises(ValueError, match=r"none\.txt does not exist"):
        align_files(folder / "a.wav", str(tmp_path / "none.txt"))


def test_tokens() -> None:
    text = "\u2018Tis O\u2019Neil\u2019s \u2014 (well-known) [laugh], yes?"
    assert tokens_of(text) == ["'tis", "o'neil's", "well-known", "[laugh]", "yes"]
    assert tokens_of("$5, ($6.50) 25 %. 100%; % $ cash$ 3rd!") == ["$5", "$6.50", "25%", "100%", "cash", "3rd"]


def test_channel_of_a_manifest(tmp_path: Path) -> None:
    """The words are in channel 1, and noise in channel 0."""
    samples, _ = speech()
    noise = 0.05 * np.random.default_rng(0).standard_normal(len(samples)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", np.column_stack([noise, samples]), 16000)
    utterance = Utterance(
        id="a", speaker="ann", part="train", text=" ".join(WORDS), audio="a.wav", rate=16000, channel=1,
        duration=len(samples) / 16000,
    )  # fmt: skip
    write_manifest(tmp_path, [utterance])
    by_manifest, chosen, other = (align_files(tmp_path, channel=channel).recordings[0] for channel in (None, 1, 0))
    assert by_manifest == chosen
    assert by_manifest != other
