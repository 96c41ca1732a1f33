"""Two corpora of single words: the Free Spoken Digit Dataset and yesno (openslr.org/1)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bochner.speech.corpora.corpus_directory import (
    PreparedCorpus,
    recorded_utterance,
    source_directory,
    write_corpus,
)
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import split_speakers
from bochner.speech.text_files import FilePath

RATE = 8000
DIGITS = {
    "zero": "Z IH R OW", "one": "W AH N", "two": "T UW", "three": "TH R IY", "four": "F AO R", "five": "F AY V",
    "six": "S IH K S", "seven": "S EH V AH N", "eight": "EY T", "nine": "N AY N",
}  # fmt: skip
YESNO = {"NO": "N", "YES": "Y"}
YESNO_SHARES = {"train": 0.6, "heldout": 0.1, "dev": 0.1, "test": 0.2}
_DIGIT_FILE = re.compile(r"^(\d)_(\w+?)_(\d+)$")
_YESNO_FILE = re.compile(r"^[01](_[01])*$")


def prepare_digits(
    source: FilePath, directory: FilePath, *, sizes: Mapping[str, float] | None = None, seed: int = 0
) -> PreparedCorpus:
    """Prepare a corpus directory of spoken digits, from their directory or zip archive.

    `sizes` gives the number of speakers in each part (default for six speakers: three in train, one in each other). The
    data set's own test set, recordings 0 to 4 of each speaker, has all speakers in two parts and is not used.
    """
    root = source_directory(source, directory)
    files = {path: match for path in sorted(root.rglob("*.wav")) if (match := _DIGIT_FILE.match(path.stem))}
    if not files:
        raise ValueError(f"source must hold recordings named like 7_jackson_32.wav, got none under {root}.")
    parts = split_speakers((match[2] for match in files.values()), seed=seed, sizes=sizes)
    entries = (
        recorded_utterance(
            path, directory, rate=RATE, id=f"{speaker}-{digit}-{int(number):02d}", speaker=speaker,
            part=parts[speaker], text=list(DIGITS)[int(digit)], language="english",
        )
        for path, (digit, speaker, number) in ((path, match.groups()) for path, match in files.items())
    )  # fmt: skip
    return write_corpus(directory, entries, lexicon=_lexicon(DIGITS))


def prepare_yesno(source: FilePath, directory: FilePath, *, seed: int = 0) -> PreparedCorpus:
    """Prepare a corpus directory of yesno, sixty recordings of eight words each, from its directory or zip archive.

    One man speaks in all four parts, under another name in each, so error rates do not measure unseen speakers. As in
    Kaldi's recipe each word is one phone (YES: Y, NO: N).
    """
    root = source_directory(source, directory)
    files = sorted(path for path in root.rglob("*.wav") if _YESNO_FILE.match(path.stem))
    if not files:
        raise ValueError(f"source must hold recordings named like 0_1_1_0_1_0_0_1.wav, got none under {root}.")
    parts = split_speakers((path.stem for path in files), seed=seed, sizes=YESNO_SHARES)
    entries = (
        recorded_utterance(
            path, directory, rate=RATE, id=path.stem, speaker=f"man-{parts[path.stem]}", part=parts[path.stem],
            text=" ".join(list(YESNO)[int(word)] for word in path.stem.split("_")),
        )
        for path in files
    )  # fmt: skip
    return write_corpus(directory, entries, lexicon=_lexicon(YESNO))


def _lexicon(pronunciations: Mapping[str, str]) -> Lexicon:
    return Lexicon({word: [phones.split()] for word, phones in pronunciations.items()})
