"""Synthetic corpora: reproducible bytes, disjoint parts, always marked as synthetic."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from bochner.speech import runtime
from bochner.speech.audio import read_audio, read_samples
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import PARTS, read_manifest
from bochner.speech.synthesis import recording as sessions
from bochner.speech.synthesis import synthesize
from bochner.speech.synthesis.languages import Bengali
from bochner.speech.synthesis.recording import record_speaker
from bochner.speech.synthesis.speakers import SynthesisSettings, draw_speakers
from bochner.speech.text_files import read_skipped
from tests.processes import forked_workers

__all__ = ["forked_workers"]

ASKED = {"language": "bengali", "hours": 0.01, "seed": 4, "rate": 8000, "num_words": 300}
SETTINGS = SynthesisSettings(**ASKED, minutes_per_speaker=3.0, snr=(5.0, 20.0), telephone=0.5, babble=0.3)


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return synthesize(tmp_path_factory.mktemp("made") / "corpus", **ASKED)


def test_the_directory_says_what_it_is(corpus):
    names = {path.name for path in corpus.directory.iterdir()}
    expected = {
        ".lock",
        "audio",
        "lexicon.txt",
        "phones.txt",
        "skipped.jsonl",
        "utterances.jsonl",
        "settings.json",
        "README.txt",
    }
    assert names == expected
    assert "synthetic" in (corpus.directory / "README.txt").read_text().splitlines()[0]
    assert all(utterance.synthetic and utterance.language == "bengali" for utterance in corpus.utterances)
    assert sum(utterance.duration for utterance in corpus.utterances) >= 36
    assert not corpus.skipped


def test_every_utterance_is_whole(corpus):
    lexicon = read_lexicon(corpus.directory / "lexicon.txt")
    for utterance in corpus.utterances:
        samples = read_audio(utterance, corpus_dir=corpus.directory)
        assert len(samples) == round(utterance.duration * 8000)
        assert np.abs(samples).max() < 1.0
        assert tuple(word.label for word in utterance.words) == utterance.tokens
        assert utterance.phones[0].start == 0.0
        assert utterance.phones[-1].end == utterance.duration
        assert all(a.end == b.start for a, b in pairwise(utterance.phones))
        for word in utterance.words:
            inside = [p.label for p in utterance.phones if word.start <= p.start and p.end <= word.end]
            assert tuple(inside) in lexicon[word.label]


def test_the_files_are_cut_without_gaps(corpus):
    ends = defaultdict(float)
    for utterance in corpus.utterances:
        assert utterance.start == pytest.approx(ends[utterance.audio])
        ends[utterance.audio] = utterance.start + utterance.duration
    for file, end in ends.items():
        assert len(read_samples(corpus.directory / file, rate=8000)) == round(end * 8000)


def test_speech_is_louder_than_silence(corpus):
    """The times are valid after all effects."""
    ratios = []
    for utterance in corpus.utterances:
        power = read_audio(utterance, corpus_dir=corpus.directory).astype(float) ** 2
        first, last = round(utterance.phones[0].end * 8000), round(utterance.phones[-1].start * 8000)
        ratios.append(power[first:last].mean() / power[: first - 160].mean())
    assert np.median(ratios) > 3


def test_parts_share_no_speaker_no_voice_and_no_sentence(corpus):
    assert {utterance.part for utterance in corpus.utterances} == set(PARTS)
    for kind in (
        lambda utterance: utterance.speaker,
        lambda utterance: utterance.speaker.split("-")[1],
        lambda utterance: utterance.text,
    ):
        parts = defaultdict(set)
        for utterance in corpus.utterances:
            parts[kind(utterance)].add(utterance.part)
        assert all(len(found) == 1 for found in parts.values())


@pytest.mark.usefixtures("forked_workers")
def test_two_processes_make_the_same_bytes(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "MIN_SECONDS", 1e-9)  # processes also for little work
    synthesize(tmp_path / "corpus", **ASKED, workers=2)
    assert content(tmp_path / "corpus") == content(corpus.directory)


def test_it_continues_after_an_interruption(corpus, tmp_path):
    """Some speakers exist already, in another order; the call makes the others."""
    (tmp_path / "audio").mkdir()
    speakers = SETTINGS.speakers()
    for place in (5, 2):
        piece = record_speaker(place, speakers[place], corpus_dir=tmp_path, settings=SETTINGS)
    stamp = (piece / "utterances.jsonl").stat().st_mtime_ns
    assert record_speaker(2, speakers[2], corpus_dir=tmp_path, settings=SETTINGS) == piece
    assert (piece / "utterances.jsonl").stat().st_mtime_ns == stamp
    synthesize(tmp_path, **ASKED)
    assert content(tmp_path) == content(corpus.directory)


def test_a_finished_corpus_is_only_read(corpus):
    before = (corpus.directory / "audio").stat().st_mtime_ns
    assert synthesize(corpus.directory, **ASKED).utterances == read_manifest(corpus.directory)
    assert (corpus.directory / "audio").stat().st_mtime_ns == before
    with pytest.raises(ValueError, match="seed: 4 there, 5 here"):
        synthesize(corpus.directory, **{**ASKED, "seed": 5})


class Unruly(Bengali):
    """Every other sentence has a token that the engine does not read."""

    def prompt(self, part, generator):
        prompt = super().prompt(part, generator)
        return prompt._replace(tokens=(*prompt.tokens, "more")) if generator.random() < self.unruly else prompt


@pytest.mark.parametrize("unruly", [0.5, 1.0])
def test_what_the_engine_says_otherwise_is_reported(tmp_path, monkeypatch, unruly):
    language = Unruly(num_words=300)
    language.unruly = unruly
    monkeypatch.setattr(sessions, "_language", lambda name, num_words: language)
    (tmp_path / "audio").mkdir()
    speaker = SETTINGS.speakers()[0]
    if unruly == 1.0:
        with pytest.raises(RuntimeError, match="fails: engine produced other words"):
            record_speaker(0, speaker, corpus_dir=tmp_path, settings=replace(SETTINGS, hours=0.1))
        return
    piece = record_speaker(0, speaker, corpus_dir=tmp_path, settings=replace(SETTINGS, hours=0.1))
    skipped, utterances = read_skipped(piece), read_manifest(piece)
    assert {one.reason.partition(" (")[0] for one in skipped} == {"engine produced other words"}
    numbers = sorted(int(one.id.rpartition("-")[2]) for one in [*skipped, *utterances])
    assert numbers == list(range(1, len(skipped) + len(utterances) + 1))


def test_another_seed_is_another_corpus():
    first, second = (draw_speakers(12, seed=seed, snr=(0, 9), telephone=0.5, babble=0.5) for seed in (1, 2))
    assert first == draw_speakers(12, seed=1, snr=(0, 9), telephone=0.5, babble=0.5)
    assert first != second
    assert len({(one.variant, one.speed, one.pitch) for one in first}) == 12


def test_a_telephone_is_held_close_to_the_mouth():
    held, free = (draw_speakers(40, seed=1, snr=(0, 9), telephone=share, babble=0.5) for share in (1.0, 0.0))
    nearer = [one.direct_ratio - other.direct_ratio for one, other in zip(held, free, strict=True)]
    assert nearer == pytest.approx([12.0] * 40)  # dB; all else of a speaker is the same
    assert all(3.0 <= one.direct_ratio <= 15.0 for one in free)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"language": "klingon"}, "language must be one of"),
        ({"hours": 0}, "hours must be a positive"),
        ({"seed": -1}, "seed must be"),
        ({"rate": 0}, "rate must be"),
        ({"minutes_per_speaker": 0.0}, "minutes_per_speaker must be"),
        ({"babble": -0.5}, "babble must be a share"),
        ({"snr": (20.0, 5.0)}, "snr must be two ratios"),
        ({"telephone": 1.5}, "telephone must be a share"),
        ({"workers": 0}, "workers must be"),
    ],
)
def test_wrong_arguments_are_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        synthesize(tmp_path, **{**ASKED, **changes})
