"""Corpus directories of each kind by one function: their options, and what their sources must hold."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from bochner.cli.speech.preparation import prepare_corpus
from bochner.speech.corpora.kaldi_directory import write_kaldi
from bochner.speech.corpora.lhotse import RECORDINGS, write_lhotse
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import read_manifest
from tests.speech.corpora.test_digits_an4 import an4
from tests.speech.made import utterance, write_wav

__all__ = ["an4"]
UTTERANCES = [
    utterance(id=f"{name}-1", speaker=name, part=part, audio=f"{name}.wav", text="yes")
    for name, part in (("ann", "train"), ("bob", "test"))
]


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    for each in UTTERANCES:
        write_wav(tmp_path / "corpus" / str(each.audio))
    return tmp_path / "corpus"


def test_an4_with_the_shares_of_its_speakers(an4: Path, tmp_path: Path) -> None:
    """Its dictionary is kept. After a failed attempt the same directory may be prepared with other options."""
    with pytest.raises(ValueError, match=r"for heldout and dev, got \['test'\]"):
        prepare_corpus("an4", an4, tmp_path / "out", {"sizes": {"dev": 0.1, "test": 0.5}}, seed=0)
    assert not prepare_corpus("an4", an4, tmp_path / "out", {"sizes": {"heldout": 1 / 6, "dev": 0}}, seed=0)
    parts = [each.part for each in read_manifest(tmp_path / "out")]
    assert (parts.count("train"), parts.count("heldout"), parts.count("dev"), parts.count("test")) == (5, 1, 0, 1)
    assert read_lexicon(tmp_path / "out" / "lexicon.txt")["ZERO"] == (("Z", "IH", "R", "OW"), ("Z", "IY", "R", "OW"))
    assert prepare_corpus("an4", an4, tmp_path / "out", {"sizes": {"heldout": 1 / 6, "dev": 0}}, seed=0)


def test_kaldi_directories_of_some_parts(recordings: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Kaldi's data directories train, .*test, got none in .*corpus"):
        prepare_corpus("kaldi", recordings, tmp_path / "out", {}, seed=0)
    write_kaldi(UTTERANCES, tmp_path / "data", corpus_dir=recordings)
    prepare_corpus("kaldi", tmp_path / "data", tmp_path / "out", {}, seed=0)
    assert {each.id: each.part for each in read_manifest(tmp_path / "out")} == {"ann-1": "train", "bob-1": "test"}


def test_manifests_of_lhotse_compressed_or_not(recordings: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=rf"source must hold {RECORDINGS} or {RECORDINGS}\.gz, got neither in .*corpus"
    ):
        prepare_corpus("lhotse", recordings, tmp_path / "out", {}, seed=0)
    plain, _ = write_lhotse(UTTERANCES, tmp_path / "lhotse", corpus_dir=recordings)
    plain.with_name(f"{plain.name}.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    prepare_corpus("lhotse", tmp_path / "lhotse", tmp_path / "out", {}, seed=0)
    assert [each.id for each in read_manifest(tmp_path / "out")] == ["ann-1", "bob-1"]
