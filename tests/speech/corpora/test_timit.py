"""TIMIT in both layouts: artificial files for that of the LDC, and the NLTK sample if available."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import soundfile

from bochner.speech.corpora.timit import CORE_TEST, DEVELOPMENT, PHONES, is_noise, prepare_timit
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import Segment, read_manifest
from bochner.speech.text_files import read_skipped
from tests.speech.made import tone

PHN = "0 1600 h#\n1600 4000 sh\n4000 6400 iy\n6400 8001 h#\n"  # one sample past the end, as in the corpus


def sentence(folder, name, *, phn=PHN, wrd="1600 6400 she\n", samples=None, suffix=".WAV"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.PHN").write_text(phn)
    (folder / f"{name}.WRD").write_text(wrd)
    soundfile.write(folder / f"{name}{suffix}", tone() if samples is None else samples, 16000, "PCM_16", format="NIST")


@pytest.fixture
def ldc(tmp_path):
    """Twenty training speakers, one of dev, one of the core test and one of neither."""
    for k in range(20):
        for name in ("SA1", "SX1"):
            sentence(tmp_path / "timit" / "TRAIN" / "DR1" / f"{'FM'[k % 2]}TR{k:02d}0", name)
    for speaker in ("MDAB0", "FAKS0", "MXYZ0"):
        sentence(tmp_path / "timit" / "TEST" / "DR1" / speaker, "SI9")
    return tmp_path / "timit"


def test_the_official_parts_of_the_ldc_layout(ldc, tmp_path):
    made = prepare_timit(ldc, tmp_path / "corpus", heldout=0.1)
    speakers = {utterance.speaker: utterance.part for utterance in made.utterances}
    assert Counter(speakers.values()) == {"train": 18, "heldout": 2, "dev": 1, "test": 1}
    assert (speakers["mdab0"], speakers["faks0"]) == ("test", "dev")
    assert {speaker[0] for speaker, part in speakers.items() if part == "heldout"} == {"f", "m"}
    reasons = Counter(one.reason for one in made.skipped)
    assert reasons == {"SA sentence": 20, "speaker neither in the core test nor in dev": 1}
    assert read_manifest(tmp_path / "corpus") == made.utterances
    assert read_skipped(tmp_path / "corpus") == made.skipped


def test_no_heldout_leaves_all_training_speakers(ldc, tmp_path):
    made = prepare_timit(ldc, tmp_path / "corpus", heldout=0)
    assert Counter(utterance.part for utterance in made.utterances) == {"train": 20, "dev": 1, "test": 1}


@pytest.mark.parametrize(("tokens", "text"), [("phones", "h# sh iy h#"), ("words", "she")])
def test_times_and_text(ldc, tmp_path, tokens, text):
    utterance = prepare_timit(ldc, tmp_path / "corpus", tokens=tokens).utterances[0]
    assert utterance.text == text
    assert utterance.phones[1:3] == (Segment("sh", 0.1, 0.25), Segment("iy", 0.25, 0.4))
    assert utterance.phones[-1].end == utterance.duration == 0.5
    assert utterance.words == (Segment("she", 0.1, 0.4),)
    assert (tmp_path / "corpus" / utterance.audio).is_file()


def test_bad_files_are_skipped_with_reasons(ldc, tmp_path):
    train = ldc / "TRAIN" / "DR1"
    sentence(train / "FTR000", "SX2", samples=np.zeros(0, np.float32))
    sentence(train / "FTR000", "SX3", phn="0 1600 h#\n1600 what sh\n")
    sentence(train / "FTR000", "SX4", phn="0 1600 h#\n1600 8000 xx\n")
    sentence(train / "FTR000", "SX5", phn="0 1600 h#\n9000 9100 sh\n")
    (train / "FTR000" / "SX1.WAV").unlink()
    made = prepare_timit(ldc, tmp_path / "corpus")
    reasons = {one.id: one.reason for one in made.skipped if "sx" in one.id}
    assert list(reasons) == [f"ftr000-sx{k}" for k in range(1, 6)]
    expected = ["no .wav file", "no samples", "broken line", "unknown phones (xx", "labels after the end"]
    assert all(reason.startswith(start) for reason, start in zip(reasons.values(), expected, strict=True))


def test_facts():
    assert (len(PHONES), len(CORE_TEST), len(DEVELOPMENT)) == (61, 24, 50)
    assert not CORE_TEST & DEVELOPMENT
    assert Counter(speaker[0] for speaker in CORE_TEST) == {"m": 16, "f": 8}


def test_white_noise_in_speech_is_found():
    generator = np.random.default_rng(0)
    tone = 0.3 * np.sin(np.arange(16000) / 10)
    quiet = 1e-4 * generator.standard_normal(16000)
    assert not is_noise(tone + quiet)
    assert not is_noise(quiet)
    assert is_noise(np.concatenate([tone, 0.3 * generator.standard_normal(1600), tone]))


def test_noise_is_left_out_if_asked_for(ldc, tmp_path):
    noise = 0.2 * np.random.default_rng(0).standard_normal(8000).clip(-3, 3)
    half = np.concatenate([tone()[:4000], noise[:4000]])
    sentence(ldc / "TEST" / "DR1" / "MDAB0", "SI10", samples=half)
    sentence(ldc / "TEST" / "DR1" / "MDAB0", "SI11", samples=0.1 * noise)  # not loud
    whole, made = (prepare_timit(ldc, tmp_path / f"{skip}", skip_noise=skip) for skip in (False, True))
    names = {utterance.id for utterance in whole.utterances}
    assert names - {utterance.id for utterance in made.utterances} == {"mdab0-si10"}
    assert [entry.reason for entry in made.skipped if entry.id == "mdab0-si10"] == ["loud white noise"]


def test_folders_without_timit_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"must hold TIMIT's .phn files"):
        prepare_timit(tmp_path, tmp_path / "corpus")


def test_the_nltk_sample(shared_data, tmp_path):
    made = prepare_timit(shared_data("timit_nltk_sample.zip"), tmp_path, tokens="words")
    assert len(made.utterances) == 128
    assert Counter(one.reason for one in made.skipped) == {"SA sentence": 32}
    speakers = {utterance.speaker: utterance.part for utterance in made.utterances}
    assert Counter((part, speaker[0]) for speaker, part in speakers.items()) == {
        ("train", "f"): 6, ("train", "m"): 6, ("test", "f"): 2, ("test", "m"): 2,
    }  # fmt: skip
    assert {phone.label for utterance in made.utterances for phone in utterance.phones} == set(PHONES)
    lexicon = read_lexicon(tmp_path / "lexicon.txt")
    assert {token for utterance in made.utterances for token in utterance.tokens} <= set(lexicon)
    assert {phone for _, phones in lexicon.pairs() for phone in phones} <= set(PHONES)
    assert lexicon["live"] == (("l", "ih", "v"), ("l", "ay", "v"))
    for utterance in made.utterances:  # phones follow each other without a gap
        assert all(a.end == b.start for a, b in pairwise(utterance.phones))
