"""Corpora of recipes: transcripts, lexicons and directories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.acoustic.corpora import An4Corpus, FolderCorpus, KaldiCorpus, transcribed_in_phones
from bochner.speech.audio import write_audio
from bochner.speech.corpora.corpus_directory import SpeechCorpus, write_corpus
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import PARTS, Utterance


def test_phones_and_pauses_become_the_transcript(tmp_path: Path) -> None:
    phones = [("SIL", 0.0, 0.2), ("n", 0.2, 0.4), ("o", 0.4, 0.6), ("SIL", 0.6, 1.0)]
    utterance = Utterance(
        id="1", speaker="s", part="train", text="no", audio="1.wav", rate=8000, duration=1.0, phones=phones
    )
    prepared = write_corpus(tmp_path, [utterance], lexicon=Lexicon({"no": [("n", "o")]}))
    once = transcribed_in_phones(prepared)
    for result in (once, transcribed_in_phones(once)):
        assert [utterance.text for utterance in result.utterances] == ["SIL n o SIL"]
    corpus = SpeechCorpus.read(tmp_path)
    assert corpus.tokens_are_phones
    assert corpus.lexicon.words == ("SIL", "n", "o")
    assert corpus.silence_phones == ("SIL",)


def write_data(directory: Path, part: str) -> None:
    data = directory / part
    data.mkdir(parents=True)
    write_audio(data / "1.wav", np.sin(np.arange(8000) / 9).astype("float32") / 2, rate=16000)
    for name, value in {"text": "good morning", "utt2spk": f"s-{part}", "wav.scp": data / "1.wav"}.items():
        (data / name).write_text(f"{part}-1 {value}\n")


def test_kaldi_directories_are_the_parts_and_bring_their_lexicon(tmp_path: Path) -> None:
    for part in PARTS:
        write_data(tmp_path / "data", part)
    (tmp_path / "words.txt").write_text("good g uh d\nmorning m ao r n ih ng\n")
    corpus_settings = KaldiCorpus(source=tmp_path / "data", lexicon=tmp_path / "words.txt")
    corpus_settings.make(tmp_path / "corpus", workers=1, verbose=False)
    corpus = SpeechCorpus.read(tmp_path / "corpus")
    assert corpus.parts == list(PARTS)
    assert corpus.lexicon["good"] == (("g", "uh", "d"),)


def test_a_source_without_data_directories_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"corpus\.source must hold data directories train, heldout, dev, test, got"):
        KaldiCorpus(source=tmp_path).make(tmp_path / "corpus", workers=1, verbose=False)


def test_a_folder_is_prepared_with_its_lexicon(tmp_path: Path) -> None:
    for speaker in ("ann", "bob", "cy", "dee"):
        path = tmp_path / "talks" / speaker / "1.wav"
        path.parent.mkdir(parents=True)
        write_audio(path, np.sin(np.arange(8000) / 9).astype("float32") / 2, rate=16000)
        path.with_suffix(".txt").write_text("Good morning!")
    (tmp_path / "words.txt").write_text("GOOD G UH1 D\nMORNING M AO1 R N IH0 NG\n")
    folder = FolderCorpus(source=tmp_path / "talks", lexicon=str(tmp_path / "words.txt"))
    assert not folder.is_prepared
    folder.make(tmp_path / "corpus", workers=1, verbose=False)
    corpus = SpeechCorpus.read(tmp_path / "corpus")
    assert corpus.lexicon["good"] == (("G", "UH", "D"),)
    assert not corpus.missing_words
    assert FolderCorpus(source=tmp_path / "corpus").is_prepared


def test_by_default_a_tenth_of_the_speakers_each_is_heldout_and_dev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares: dict[str, float] = {}
    monkeypatch.setattr(
        "bochner.acoustic.corpora.prepare_an4", lambda source, directory, **options: shares.update(options)
    )
    An4Corpus(source=tmp_path).make(tmp_path / "corpus", workers=1, verbose=False)
    assert shares == {"heldout": 0.1, "dev": 0.1, "seed": 0}
