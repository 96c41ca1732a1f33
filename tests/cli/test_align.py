"""`bochner align` and `bochner speech models`."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from bochner.speech.pretrained import model_directory
from bochner.speech.synthesis.espeak import RATE, speak
from bochner.speech.textgrid import read_textgrid, write_textgrid
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


def test_formats_are_named_with_or_without_brackets(tmp_path: Path, capsys: Capture) -> None:
    audio = record(tmp_path / "a.wav", "please call")
    for number, formats in enumerate(("csv", "json,csv", "[json,csv]")):
        target = tmp_path / str(number)
        assert (
            run(capsys, "align", audio, "--text", "please call", "--format", formats, "--output_dir", target).code == 0
        )
        assert (target / "segments.csv").is_file()
        assert (target / "a.json").is_file() == ("json" in formats)
    code, _, err = run(capsys, "align", audio, "--text", "please call", "--format", "csv,praat")
    assert code == 1
    assert "'praat'" in err


def test_the_directory_of_outputs_is_named_by_that_of_recordings(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "version1.2").mkdir()
    record(tmp_path / "version1.2" / "a.wav", "please call")
    (tmp_path / "version1.2" / "a.txt").write_text("please call")
    monkeypatch.chdir(tmp_path / "version1.2")
    assert run(capsys, "align", ".").code == 0
    assert (tmp_path / "version1.2_aligned" / "a.TextGrid").is_file()


def test_several_recordings_and_directories(tmp_path: Path, capsys: Capture) -> None:
    for name in ("monday/a", "monday/b", "tuesday/a", "tuesday/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        record(tmp_path / f"{name}.wav", "please call")
        (tmp_path / f"{name}.txt").write_text("please call")
    files = sorted((tmp_path / "monday").iterdir())  # as the shell expands monday/*
    code, out, _ = run(capsys, "align", *files)
    assert code == 0
    assert "2 recordings, 4 words" in out
    assert {path.name for path in (tmp_path / "monday_aligned").glob("*.TextGrid")} == {"a.TextGrid", "b.TextGrid"}
    code, out, err = run(capsys, "align", *files, tmp_path / "tuesday", "--output_dir", tmp_path / "out")
    assert code == 3
    assert "3 recordings" in out
    assert "a.wav is not aligned" in err
    assert str(tmp_path / "monday" / "a.wav") in err


def test_what_several_recordings_cannot_share(tmp_path: Path, capsys: Capture) -> None:
    first, second = (record(tmp_path / name, "please call") for name in ("a.wav", "b.wav"))
    code, _, err = run(capsys, "align", first, second, "--text", "please call")
    assert (code, "text belongs to a single recording" in err) == (1, True)
    code, _, err = run(capsys, "align", first, tmp_path)
    assert (code, "output_dir must be given" in err) == (1, True)
    code, _, err = run(capsys, "align", first, tmp_path / "none.wav")
    assert (code, "none.wav does not exist" in err) == (1, True)


def test_a_truncated_recording_is_named(tmp_path: Path, capsys: Capture) -> None:
    for name in ("whole", "half"):
        record(tmp_path / f"{name}.wav", "please call seven friends today")
        (tmp_path / f"{name}.txt").write_text("please call")
    content = (tmp_path / "half.wav").read_bytes()
    (tmp_path / "half.wav").write_bytes(content[: len(content) // 2])
    code, _, err = run(capsys, "align", tmp_path, "--output_dir", tmp_path / "out")
    assert code == 0
    (line,) = [line for line in err.splitlines() if "truncated" in line]
    assert "half.wav" in line
    assert f"{(len(content) // 2 - 44) / (2 * RATE):.2f} s" in line
    assert f"{(len(content) - 44) / (2 * RATE):.2f} s" in line


def test_a_damaged_recording_does_not_stop_the_others(tmp_path: Path, capsys: Capture) -> None:
    record(tmp_path / "whole.wav", "please call")
    record(tmp_path / "half.flac", "please call")
    for name in ("whole", "half"):
        (tmp_path / f"{name}.txt").write_text("please call")
    content = (tmp_path / "half.flac").read_bytes()
    (tmp_path / "half.flac").write_bytes(content[: len(content) // 2])
    code, out, err = run(capsys, "align", tmp_path, "--output_dir", tmp_path / "out")
    assert code == 3
    assert "1 recordings" in out
    assert "half is not aligned: damaged after" in err


def test_a_textgrid_with_the_text_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    audio = record(tmp_path / "a.wav", "please call")
    write_textgrid(tmp_path / "a.TextGrid", {"mine": [("please call", 0.0, 0.5)]}, duration=0.5)
    before = (tmp_path / "a.TextGrid").read_bytes()
    for arguments in ((tmp_path,), (audio,), (audio, "--text", tmp_path / "a.TextGrid")):
        code, _, err = run(capsys, "align", *arguments, "--output_dir", tmp_path)
        assert code == 1
        assert "a.TextGrid" in err
    assert (tmp_path / "a.TextGrid").read_bytes() == before
    assert run(capsys, "align", tmp_path, "--output_dir", tmp_path, "--format", "csv").code == 0


def test_corrected_guesses_are_kept(tmp_path: Path, capsys: Capture) -> None:
    audio, target = record(tmp_path / "a.wav", "please call zelmira"), tmp_path / "out"
    arguments = (audio, "--text", "please call zelmira", "--output_dir", target)
    assert run(capsys, "align", *arguments).code == 0
    (target / "guessed.txt").write_text("zelmira Z EH L M IH R AH\n")
    assert run(capsys, "align", *arguments, "--lexicon", target / "guessed.txt").code == 0
    assert (target / "guessed.txt").read_text() == "zelmira Z EH L M IH R AH\n"


def test_a_text_of_another_recording_is_reported(tmp_path: Path, capsys: Capture) -> None:
    text = "please call seven friends and ask them to come to the store today"
    record(tmp_path / "right.wav", text)
    (tmp_path / "right.txt").write_text(text)
    record(tmp_path / "wrong.wav", text)
    (tmp_path / "wrong.txt").write_text("nobody was ever interested in economics or fishing on rainy nights")
    code, _, err = run(capsys, "align", tmp_path, "--output_dir", tmp_path / "out")
    assert code == 0
    assert "wrong (0." in err
    assert "right" not in err


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
