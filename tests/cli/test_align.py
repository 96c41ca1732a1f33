"""`bochner align` and `bochner speech models`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bochner.speech.pretrained import model_directory
from bochner.speech.synthesis.espeak import RATE, speak
from bochner.speech.textgrid import read_textgrid
from tests.cli.files import run

Capture = pytest.CaptureFixture[str]


def record(path: Path, text: str) -> Path:
    samples = speak(text, voice="en-us+m3", speed=150).samples
    soundfile.write(path, np.pad(samples, RATE // 5), RATE)
    return path


def test_one_recording_with_its_text(tmp_path: Path, capsys: Capture) -> None:
    audio = record(tmp_path / "talk.wav", "please call today")
    code, out, _ = run(capsys, "align", audio, "--text", "please call today", "--format", "[textgrid,csv]")
    assert code == 0
    assert "1 recordings, 3 words" in out
    tiers = read_textgrid(tmp_path / "talk_aligned" / "talk.TextGrid")
    assert [word.label for word in tiers["words"] if word.label] == ["please", "call", "today"]
    assert (tmp_path / "talk_aligned" / "segments.csv").is_file()


def test_the_exit_code_says_whether_all_were_aligned(tmp_path: Path, capsys: Capture) -> None:
    record(tmp_path / "a.wav", "please call")
    assert run(capsys, "align", tmp_path, "--output_dir", tmp_path / "none").code == 1
    record(tmp_path / "b.wav", "please call")
    (tmp_path / "b.txt").write_text("please call")
    code, _, err = run(capsys, "align", tmp_path, "--output_dir", tmp_path / "some")
    assert code == 3
    assert "a is not aligned" in err
    assert (tmp_path / "some" / "b.TextGrid").is_file()
    assert '"id": "a"' in (tmp_path / "some" / "skipped.jsonl").read_text()


def test_a_lexicon_with_unknown_phones_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "words.txt").write_text("please P L QQ Z\n")
    audio = record(tmp_path / "a.wav", "please")
    code, _, err = run(capsys, "align", audio, "--text", "please", "--lexicon", tmp_path / "words.txt")
    assert code == 1
    assert "'QQ'" in err
    assert err.count("\n") == 1


def test_models_are_listed_shown_and_verified(tmp_path: Path, capsys: Capture) -> None:
    listed = run(capsys, "speech", "models", "list").out
    assert [line.split()[0] for line in listed.splitlines()] == ["bn", "en", "yue"]
    assert "BSD" in run(capsys, "speech", "models", "show", "en").out
    assert run(capsys, "speech", "models", "verify", "en").code == 0
    shutil.copytree(model_directory("en"), tmp_path / "copy")
    (tmp_path / "copy" / "lexicon.txt.xz").write_bytes(b"")
    code, _, err = run(capsys, "speech", "models", "verify", tmp_path / "copy")
    assert code == 1
    assert "lexicon.txt.xz" in err


def test_a_source_that_is_no_model_is_named(tmp_path: Path, capsys: Capture) -> None:
    for source in ((), ("--source", tmp_path)):
        code, _, err = run(capsys, "speech", "models", "build", "en", tmp_path / "out", *source)
        assert code == 1
        assert "PocketSphinx" in err


def test_pronunciations_are_learned_and_applied(tmp_path: Path, capsys: Capture) -> None:
    lines = [f"{a}{v}{b} {a.upper()} {v.upper()} {b.upper()}\n" for a in "bdgk" for v in "aeio" for b in "lmnr"]
    (tmp_path / "lexicon.txt").write_text("".join(lines))
    arguments = (tmp_path / "lexicon.txt", tmp_path / "g2p.npz", "--order", "2", "--test_fraction", "0.25")
    out = run(capsys, "speech", "g2p", "train", *arguments).out
    assert "on 48 words" in out
    assert "0.0 % of 16 other words" in out
    (tmp_path / "words.txt").write_text("bam\nkim\nxyz\n")
    _, out, err = run(capsys, "speech", "g2p", "apply", tmp_path / "words.txt", "--model", tmp_path / "g2p.npz")
    assert out == "bam B A M\nkim K I M\n"
    assert "'xyz'" in err
    assert run(capsys, "speech", "g2p", "apply", tmp_path / "words.txt").out.startswith("bam B AE M\n")
