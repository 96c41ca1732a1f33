"""Round trips of Kaldi's directories and lhotse's manifests."""

from __future__ import annotations

import gzip
import json

import kaldiio
import numpy as np
import pytest

from bochner.speech.corpora.kaldi_directory import prepare_kaldi, read_table, write_kaldi
from bochner.speech.corpora.lhotse import prepare_lhotse, write_lhotse
from bochner.speech.manifest import Segment, write_manifest
from tests.speech.made import tone, utterance, write_wav

UTTERANCES = [
    utterance(id="ann-1", audio="audio/a.wav", duration=0.25, words=(Segment("yes", 0.0, 0.1),), text="yes"),
    utterance(id="ann-2", audio="audio/a.wav", start=0.25, duration=0.25, phones=(Segment("n", 0.05, 0.125),)),
    utterance(id="bob-1", speaker="bob", part="test", audio="audio/b.wav", synthetic=True, language="english"),
]


@pytest.fixture
def corpus(tmp_path):
    for name in "ab":
        write_wav(tmp_path / "corpus" / "audio" / f"{name}.wav")
    write_manifest(tmp_path / "corpus", UTTERANCES)
    return tmp_path / "corpus"


def test_kaldi_there_and_back(corpus, tmp_path):
    write_kaldi(UTTERANCES, tmp_path / "data", corpus_dir=corpus)
    assert (tmp_path / "data" / "train" / "spk2utt").read_text() == "ann ann-1 ann-2\n"
    segments = (tmp_path / "data" / "train" / "segments").read_text()
    assert segments.splitlines()[1] == "ann-2 audio_a.wav 0.250000 0.500000"
    sources = {part: tmp_path / "data" / part for part in ("train", "test")}
    back = prepare_kaldi(sources, corpus, language="english").utterances
    assert [
        utterance.replace(words=(), phones=(), synthetic=False, language="english") for utterance in UTTERANCES
    ] == back


def kaldi(folder, **tables):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in {"text": "u1 yes\nu2 no\n", "utt2spk": "u1 ann\nu2 ann\n", **tables}.items():
        (folder / name.replace("_scp", ".scp")).write_text(text)
    return {"train": folder}


def test_kaldi_frames_without_audio(tmp_path):
    matrices = {"u1": np.ones((30, 13), np.float32), "u2": np.ones((40, 13), np.float32)}
    kaldiio.save_ark(str(tmp_path / "f.ark"), matrices, scp=str(tmp_path / "f.scp"))
    sources = kaldi(tmp_path / "data", feats_scp=(tmp_path / "f.scp").read_text())
    made = prepare_kaldi(sources, tmp_path / "corpus", frame_shift=0.005)
    assert [each.duration for each in made.utterances] == [pytest.approx(0.15), pytest.approx(0.2)]
    assert kaldiio.load_mat(str(tmp_path / "corpus" / made.utterances[1].frames)).shape == (40, 13)


def test_kaldi_lines_that_cannot_be_used_are_reported(tmp_path):
    write_wav(tmp_path / "a.wav")
    names = [f"u{k}" for k in range(1, 7)]
    tables = {
        "text": "".join(f"{name} yes\n" for name in [*names, "u7", "u8"]),
        "utt2spk": "".join(f"{name} ann\n" for name in [*names, "u7", "u9"]),
        "wav.scp": f"a {tmp_path}/a.wav\npiped sph2pipe x.sph |\ngone {tmp_path}/gone.wav\n",
        "segments": "u1 a 0.0 0.2\nu2 piped 0 1\nu3 gone 0 1\nu4 a zero one\nu5 a 7.0 8.0\nu6 other 0 1\n",
    }
    made = prepare_kaldi(kaldi(tmp_path / "data", **tables), tmp_path / "corpus")
    assert [each.id for each in made.utterances] == ["u1"]
    reasons = [one.reason.partition(" (")[0] for one in made.skipped]
    assert reasons == [
        "command in wav.scp", "no such file", "broken line", "segment outside of the recording", "not in wav.scp",
        "not in segments", "not in utt2spk", "not in text",
    ]  # fmt: skip


def test_kaldi_frames_are_in_archives(tmp_path):
    """Their numbers may be given, so that no archive is read; a path without an offset is no place in one."""
    tables = {"feats_scp": "u1 f.ark:3\nu2 f.npy\n", "utt2num_frames": "u1 30\nu2 40\n"}
    tables |= {"text": "u1 yes\nu2 no\nu3 no\n", "utt2spk": "u1 ann\nu2 ann\nu3 ann\n"}
    made = prepare_kaldi(kaldi(tmp_path / "data", **tables), tmp_path / "corpus", root=tmp_path)
    assert [(each.id, each.duration) for each in made.utterances] == [("u1", pytest.approx(0.3))]
    assert [one.reason.partition(" (")[0] for one in made.skipped] == ["no place in an archive", "not in feats.scp"]
    write_kaldi(made.utterances, tmp_path / "again", corpus_dir=tmp_path / "corpus")
    assert (tmp_path / "again" / "train" / "feats.scp").read_text().endswith("f.ark:3\n")
    assert not (tmp_path / "again" / "train" / "wav.scp").exists()


def test_kaldi_names_whole_recordings(tmp_path):
    write_wav(tmp_path / "a.wav", tone()[:0])
    with pytest.raises(ValueError, match=r"2 skipped: no samples \(1\), not in wav\.scp \(1\)"):
        prepare_kaldi(kaldi(tmp_path / "data", wav_scp=f"u1 {tmp_path}/a.wav\n"), tmp_path / "corpus")
    with pytest.raises(ValueError, match=r"is channel 1 of .*a\.wav, but wav\.scp names whole files"):
        write_kaldi([utterance(audio="a.wav", channel=1)], tmp_path / "out", corpus_dir=tmp_path)


def test_kaldi_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"wav.scp or feats.scp, got neither"):
        prepare_kaldi(kaldi(tmp_path / "data"), tmp_path / "corpus")
    with pytest.raises(ValueError, match="must name parts"):
        prepare_kaldi({"eval": tmp_path}, tmp_path / "corpus")
    (tmp_path / "text").write_text("a 1\na 2\n")
    with pytest.raises(ValueError, match="text, line 2: 'a' is given twice"):
        read_table(tmp_path / "text")
    (tmp_path / "text").write_bytes(b"a \xff\n")
    with pytest.raises(ValueError, match="text, line 1: not UTF-8"):
        read_table(tmp_path / "text")
    with pytest.raises(ValueError, match="not in an archive"):
        write_kaldi([utterance(frames="a.npy", frame_shift=0.01)], tmp_path / "out", corpus_dir=tmp_path)


def test_lhotse_there_and_back(corpus, tmp_path):
    recordings, supervisions = write_lhotse(UTTERANCES, tmp_path / "out", corpus_dir=corpus)
    assert prepare_lhotse(recordings, supervisions, corpus).utterances == UTTERANCES


def test_what_lhotse_itself_writes(tmp_path):
    """Lines as lhotse 1.33 writes them: alignments with a score, times from the recording's beginning."""
    write_wav(tmp_path / "r.wav", tone(2.0))
    recording = {
        "id": "r", "sources": [{"type": "file", "channels": [0], "source": "r.wav"}], "sampling_rate": 16000,
        "num_samples": 32000, "duration": 2.0, "channel_ids": [0],
    }  # fmt: skip
    supervision = {
        "id": "a", "recording_id": "r", "start": 0.5, "duration": 1.0, "channel": 0, "text": "hi", "language": "en",
        "speaker": "x", "alignment": {"word": [["hi", 0.6, 0.2, None]]},
    }  # fmt: skip
    parts = {**recording, "id": "parts", "sources": [{"type": "url", "channels": [0], "source": "r.wav"}]}
    stereo = {**recording, "id": "two", "sources": [{"type": "file", "channels": [0, 1], "source": "r.wav"}]}
    with gzip.open(tmp_path / "r.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in (recording, stereo, parts))
    others = [{**supervision, "id": "b", "recording_id": "gone"}, {**supervision, "id": "c", "recording_id": "two"}]
    others += [
        {**supervision, "id": "d", "duration": -1.0},
        {**supervision, "id": "e", "recording_id": "two", "channel": 2},
    ]
    others += [{**supervision, "id": "f", "recording_id": "two", "channel": [0, 1]}]
    others += [{**supervision, "id": "g", "recording_id": "parts"}]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in [supervision, *others]))
    made = prepare_lhotse(tmp_path / "r.jsonl.gz", tmp_path / "s.jsonl", tmp_path / "corpus", part="train")
    assert made.utterances[0].words == (Segment("hi", 0.1, pytest.approx(0.3)),)
    assert [each.channel for each in made.utterances] == [None, 0, None]
    assert made.skipped[0].reason == "no recording (gone)"
    assert "duration must be a positive" in made.skipped[1].reason
    assert made.skipped[2].reason == "channel must be one of [0, 1], or all, got 2."
    assert made.skipped[3].reason == "no file (a recording must be one file)"


def test_lhotse_mistakes_are_named(corpus, tmp_path):
    recordings, supervisions = write_lhotse(UTTERANCES, tmp_path / "out", corpus_dir=corpus)
    supervisions.write_text(supervisions.read_text() + '{"id": "x"}\n')
    with pytest.raises(ValueError, match=r"supervisions.jsonl, line 4: expected an object with id, recording_id"):
        prepare_lhotse(recordings, supervisions, tmp_path / "corpus")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(recordings.read_bytes())[:-20])
    with pytest.raises(ValueError, match=r"cut.jsonl.gz cannot be decompressed"):
        prepare_lhotse(cut, supervisions, tmp_path / "corpus")
    with pytest.raises(ValueError, match="frames only"):
        write_lhotse(
            [utterance(audio=None, rate=None, frames="a.npy", frame_shift=0.01)], tmp_path, corpus_dir=tmp_path
        )
