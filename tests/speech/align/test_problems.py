"""Problems of recordings with texts are found by a pre-trained model, and good ones have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("kaldi_hmm_gmm")
pytest.importorskip("espeakng_loader")

from bochner.cli import main
from bochner.speech.align.problems import find_problems
from bochner.speech.pretrained import model_directory
from bochner.speech.synthesis.espeak import RATE, speak

TEXT = "please call seven friends and ask them to come to the store today"


def record(path: Path, text: str, *, spoken: str = TEXT) -> Path:
    soundfile.write(path, np.pad(speak(spoken, voice="en-us+m3", speed=150).samples, RATE // 5), RATE)
    path.with_suffix(".txt").write_text(text)
    return path


def test_every_kind_of_problem(tmp_path: Path) -> None:
    record(tmp_path / "good.wav", TEXT)
    assert find_problems(tmp_path) == (1, [])
    record(tmp_path / "name.wav", "please call zelmira-ann mp3", spoken="please call zelmira ann")
    record(tmp_path / "wrong.wav", "nobody was ever interested in economics or fishing on rainy nights")
    record(tmp_path / "untold.wav", "").with_suffix(".txt").unlink()
    cut = record(tmp_path / "cut.wav", TEXT)
    cut.write_bytes(cut.read_bytes()[:-1000])
    soundfile.write(tmp_path / "loud.wav", np.sign(np.sin(np.arange(RATE) / 20)), RATE)
    (tmp_path / "loud.txt").write_text("please call")
    total, problems = find_problems(tmp_path)
    found = {problem.id: (problem.kind, problem.detail) for problem in problems}
    assert total == 6
    assert set(found) == {"name", "wrong", "untold", "cut", "loud"}
    assert len(problems) == 5
    assert found["name"][0] == "words"
    assert "zelmira (by rule: Z " in found["name"][1]
    assert "mp3 (no pronunciation)" in found["name"][1]
    assert "ann" not in found["name"][1]
    assert found["wrong"][0] == "transcript"
    assert found["untold"][0] == "recording"
    assert "untold.wav needs a .txt" in found["untold"][1]
    assert found["cut"][0] == "audio"
    assert found["loud"][0] == "recording"
    assert found["loud"][1].startswith("clipped")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    record(tmp_path / "data" / "good.wav", TEXT)
    main(["validate", "en", str(tmp_path / "data")])
    assert capsys.readouterr().out == "problems  0 of 1 utterances\n"
    (tmp_path / "data" / "good.txt").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["validate", "en", str(tmp_path / "data"), "--output", str(tmp_path / "problems.tsv")])
    assert ended.value.code == 3
    assert (tmp_path / "problems.tsv").read_text().startswith("good\trecording\tno text")
    for option, value in (("speakers", "same"), ("device", "cuda")):
        with pytest.raises(SystemExit):
            main(["validate", "en", str(tmp_path / "data"), f"--{option}", value])
        error = capsys.readouterr().err
        assert option in error
        assert f"'{value}'" in error


def test_the_command_reads_the_directory_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    record(tmp_path / "data" / "good.wav", TEXT)
    main(["validate", str(model_directory("en")), str(tmp_path / "data")])
    assert capsys.readouterr().out == "problems  0 of 1 utterances\n"
