"""Validation: words, audio and transcripts that do not match are found, and good ones are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.validation import validate
from bochner.cli import main
from bochner.speech.audio import write_audio
from tests.acoustic.test_adaptation import RATE, voice
from tests.acoustic.test_model import model


@pytest.fixture
def data(tmp_path: Path) -> Path:
    shutil.copytree(voice(), tmp_path / "voice")
    return tmp_path / "voice"


def test_good_recordings_have_no_problems(data: Path) -> None:
    assert validate(model("kernel"), data)[1] == []


def test_every_kind_of_problem_is_found(data: Path) -> None:
    (data / "00.txt").write_text("xyzzy")
    write_audio(data / "silent.wav", np.zeros(RATE, "float32"), rate=RATE)
    (data / "silent.txt").write_text((data / "01.txt").read_text())
    write_audio(data / "loud.wav", np.sign(np.sin(np.arange(RATE) / 20)).astype("float32"), rate=RATE)
    (data / "loud.txt").write_text((data / "01.txt").read_text())
    content = (data / "01.wav").read_bytes()
    (data / "cut.wav").write_bytes(content[: -len(content) // 10])
    (data / "cut.txt").write_text((data / "01.txt").read_text())
    shutil.copy(data / "01.wav", data / "untold.wav")
    shutil.copy(data / "01.wav", data / "long.wav")
    (data / "long.txt").write_text(" ".join([(data / "01.txt").read_text()] * 20))
    found = {problem.id: (problem.kind, problem.detail) for problem in validate(model("kernel"), data)[1]}
    assert found["00"] == ("words", "not in the lexicon: xyzzy")
    assert found["silent"] == ("audio", "no speech (silence or stationary noise)")
    assert found["loud"][1].startswith("clipped")
    assert found["untold"] == ("audio", "no transcript")
    assert found["long"][1].startswith("too short for its text")
    assert found["cut"][0] == "audio"
    assert found["cut"][1].startswith("truncated")
    assert set(found) == {"00", "silent", "loud", "cut", "untold", "long"}


def test_a_transcript_of_another_recording_does_not_match(data: Path) -> None:
    texts = {path: path.read_text().split() for path in sorted(data.glob("*.txt"))}
    first = max(texts, key=lambda path: len(texts[path]))
    others = [path for path in texts if len(texts[path]) <= len(texts[first])]
    wrong = min(others, key=lambda path: len(set(texts[path]) & set(texts[first])))
    first.write_text(" ".join(reversed(texts[wrong])))
    problems = validate(model("kernel"), data)[1]
    assert [(problem.id, problem.kind) for problem in problems] == [(first.stem, "transcript")]


def test_the_command_lists_the_problems(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model("kernel").save(tmp_path / "model")
    command = ["validate", str(tmp_path / "model"), str(data), "--output", str(tmp_path / "problems.tsv")]
    main(command)  # without problems no exit code but 0
    assert (tmp_path / "problems.tsv").read_text() == ""
    (data / "00.txt").write_text("xyzzy")
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 3
    assert (tmp_path / "problems.tsv").read_text() == "00\twords\tnot in the lexicon: xyzzy\n"
    assert "1 of" in capsys.readouterr().out
