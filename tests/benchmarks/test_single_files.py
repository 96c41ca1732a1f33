"""The benchmark of single files: folds by speaker, joined scores, rows of the table."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.single_files import RECORDINGS, Measured, by_speaker, digit_folds, joined, resampled_units, row
from bochner.speech.audio import read_audio, write_audio
from bochner.speech.manifest import Utterance, read_manifest
from bochner.speech.score import Protocol, Score, score

SPEAKERS = ("ann", "bob", "cy", "dan", "eve", "flo")


def scored(speaker: str, errors: int, files: int = 4) -> Score:
    names = [f"{speaker}-{k}" for k in range(files)]
    hypotheses = {name: "two" if k < errors else "one" for k, name in enumerate(names)}
    speakers = dict.fromkeys(names, speaker)
    return score(dict.fromkeys(names, "one"), hypotheses, protocol=Protocol(), speakers=speakers)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of two digits by six speakers, one recording more than the benchmark uses."""
    directory = tmp_path_factory.mktemp("data")
    with zipfile.ZipFile(directory / "fsdd.zip", "w") as archive:
        for speaker in SPEAKERS:
            for name in (f"{digit}_{speaker}_{k}.wav" for digit in (0, 1) for k in range(RECORDINGS + 1)):
                write_audio(directory / name, np.zeros(80, np.float32), rate=8000)
                archive.write(directory / name, name)
    return directory


def test_each_speaker_but_the_sixth_is_dev_once(data: Path, tmp_path: Path) -> None:
    folds = digit_folds(data, tmp_path)
    speakers_of: list[dict[str, set[str]]] = []
    for fold in folds:
        utterances = read_manifest(fold.corpus)
        assert len(utterances) == 2 * len(SPEAKERS) * RECORDINGS
        assert len(read_audio(utterances[0], corpus_dir=fold.corpus)) == 80
        speakers_of.append(by_part(utterances))
    assert [fold.parts for fold in folds] == [("dev", "test"), *[("dev",)] * 4]
    (test,) = speakers_of[0]["test"]
    assert all(speakers["test"] == {test} and len(speakers["train"]) == 3 for speakers in speakers_of)
    for part in ("dev", "heldout"):
        assert sorted(json.dumps([*speakers[part]]) for speakers in speakers_of) == sorted(
            json.dumps([speaker]) for speaker in SPEAKERS if speaker != test
        )


def by_part(utterances: list[Utterance]) -> dict[str, set[str]]:
    speakers: dict[str, set[str]] = {}
    for utterance in utterances:
        speakers.setdefault(utterance.part, set()).add(utterance.speaker)
    return speakers


def test_folds_are_joined_and_compared() -> None:
    folds = [
        Measured(scored("ann", 1), scored("ann", 3), scored("ann", 2), scored("ann", 0), 10.0),
        Measured(scored("bob", 0), scored("bob", 1), scored("bob", 0), scored("bob", 1), 20.0),
    ]
    result = joined(folds)
    cells = row("digits", "dev", "Laplacian", result)
    assert cells[:7] == ["digits", "dev", "Laplacian", "8", "8", "1", "4"]
    assert cells[7].startswith("37.5 (")
    assert cells[8] == "2"
    assert cells[9].startswith("12.5 (0.0 to ")
    assert cells[10:] == ["1", "15"]
    assert by_speaker(result) == "ann 1, 3, 2; bob 0, 1, 0"
    assert row("digits", "dev", "GMM", Measured(*[folds[0].run] * 4, None))[9:] == ["0.0 (0.0 to 0.0)", "1", ""]


def test_ten_speakers_are_resampled_as_such() -> None:
    few = [Measured(*[scored(str(k), 1)] * 4, None) for k in range(9)]
    assert resampled_units(joined(few).run) == "utterance"
    assert resampled_units(joined([*few, Measured(*[scored("9", 0)] * 4, None)]).run) == "speaker"
