"""The same counts as NIST's sclite, ties included: on random files where it is installed, on frozen results always."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bochner.speech.score import PHONES_61, Counts, Protocol, score, write_trn
from tests.speech.score import sclite

needs_sclite = pytest.mark.skipif(sclite.COMMAND is None, reason="sclite is not installed (Debian package sctk)")


def garbled(tokens: list[str], vocabulary: list[str], noise: float, generator: np.random.Generator) -> list[str]:
    recognised = []
    for token in tokens:
        fate = generator.random()
        if fate > noise / 3:
            recognised.append(str(generator.choice(vocabulary)) if fate < 2 * noise / 3 else token)
        if generator.random() < noise / 3:
            recognised.append(str(generator.choice(vocabulary)))
    return recognised


def texts(
    vocabulary: list[str], *, noise: float, longest: int, num: int = 150
) -> tuple[dict[str, str], dict[str, str]]:
    generator = np.random.default_rng(0)
    meant, recognised = {}, {}
    for i in range(num):
        tokens = [str(token) for token in generator.choice(vocabulary, generator.integers(1, longest))]
        meant[f"u{i}"] = " ".join(tokens)
        recognised[f"u{i}"] = " ".join(garbled(tokens, vocabulary, noise, generator))
    return meant, recognised


@needs_sclite
@pytest.mark.parametrize(
    ("protocol", "vocabulary", "noise", "longest"),
    [
        (Protocol(unit="words"), ["a", "b"], 0.9, 40),  # many ties
        (Protocol(unit="words"), [f"w{i}" for i in range(10)], 1.2, 20),
        (Protocol(unit="words", normalize=("lower",)), ["Yes", "yes", "NO", "don't"], 0.5, 15),
        (Protocol(unit="characters"), ["你好", "我", "係", "香港人"], 0.6, 12),
        (Protocol(unit="phones", fold="61-39"), list(PHONES_61), 0.4, 60),
        (Protocol(unit="phones", fold="61-39", silence="ignored"), list(PHONES_61), 0.4, 60),
    ],
)
def test_counts_of_sclite(
    tmp_path: Path, protocol: Protocol, vocabulary: list[str], noise: float, longest: int
) -> None:
    meant, recognised = texts(vocabulary, noise=noise, longest=longest)
    speakers = {name: f"spk{i % 4}" for i, name in enumerate(meant)}
    files = [
        write_trn(tmp_path / f"{side}.trn", texts, protocol=protocol, speakers=speakers)
        for side, texts in (("ref", meant), ("hyp", recognised))
    ]
    expected = sclite.by_utterance(*files)
    found = score(meant, recognised, protocol=protocol, speakers=speakers)
    assert {f"{one.speaker}-{one.id}": one.counts for one in found.utterances} == expected
    by_speaker = {name: Counts() for name in found.by_speaker}
    for name, counts in expected.items():
        by_speaker[name.partition("-")[0]] += counts
    assert found.by_speaker == by_speaker


# Counts of sclite 2.10 (Debian's SCTK 2.4.10). For the last six, kaldialign's sclite_mode and a plain edit distance
# give other totals.
FROZEN = [
    ("the cat sat on the mat", "the cat sat on mat", Counts(0, 1, 0, 6)),
    ("a b c", "x a b c", Counts(0, 0, 1, 3)),
    ("a b", "", Counts(0, 2, 0, 2)),
    ("c c b c", "b a a a", Counts(4, 0, 0, 4)),
    ("a b b b", "c c c a b", Counts(3, 0, 1, 4)),
    ("c b b c c", "c c c b a b", Counts(3, 0, 1, 5)),
    ("b a a a b c c c", "a b b b a a a", Counts(0, 4, 3, 8)),
    ("a a b b b c c a", "c c b a c", Counts(0, 5, 2, 8)),
    ("b c b c b a c a b", "c c a c c a a a", Counts(1, 3, 2, 9)),
]


@pytest.mark.parametrize(("meant", "recognised", "expected"), FROZEN)
def test_frozen_counts_of_sclite(meant: str, recognised: str, expected: Counts) -> None:
    assert score({"u": meant}, {"u": recognised}, protocol=Protocol(unit="words")).counts == expected
