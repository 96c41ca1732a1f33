"""Two corpora of single words: the Free Spoken Digit Dataset and yesno (openslr.org/1)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from bochner.speech.audio import AudioError
from bochner.speech.corpora.corpus_directory import Prepared, finish, recording_fields, source_folder
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance, split_speakers
from bochner.speech.text_files import Skipped

RATE = 8000
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PRONUNCIATIONS = (
    "Z IH R OW", "W AH N", "T UW", "TH R IY", "F AO R", "F AY V", "S IH K S", "S EH V AH N", "EY T", "N AY N",
)  # fmt: skip
_NAME = re.compile(r"^(\d)_(\w+?)_(\d+)$")


def prepare_digits(
    source: str | os.PathLike[str],
    directory: str | os.PathLike[str],
    *,
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Prepared:
    """Make a corpus directory of spoken digits, from their folder or zip archive.

    `sizes` says how many speakers are in each part (of six: three in train, one in each other). The data set's own
    test set, recordings 0 to 4 of everybody, has every speaker in two parts and is not used.
    """
    folder = source_folder(source, directory)
    names = {path: match for path in sorted(folder.rglob("*.wav")) if (match := _NAME.match(path.stem))}
    if not names:
        raise ValueError(f"source must hold recordings named like 7_jackson_32.wav, got none under {folder}.")
    parts = split_speakers((match[2] for match in names.values()), seed=seed, sizes=sizes)
    found = (_utterance(path, match, parts[match[2]], Path(directory)) for path, match in names.items())
    lexicon = Lexicon({word: [phones.split()] for word, phones in zip(DIGITS, PRONUNCIATIONS, strict=True)})
    return finish(directory, found, lexicon=lexicon)


def _utterance(path: Path, name: re.Match[str], part: str, directory: Path) -> Utterance | Skipped:
    try:
        recording = recording_fields(path, directory, rate=RATE)
    except AudioError as error:
        return Skipped(path.stem, error.reason)
    speaker = name[2]
    return Utterance(
        id=f"{speaker}-{name[1]}-{int(name[3]):02d}",
        speaker=speaker,
        part=part,
        text=DIGITS[int(name[1])],
        language="english",
        **recording,
    )


SHARES = {"train": 0.6, "heldout": 0.1, "dev": 0.1, "test": 0.2}
_YESNO_NAME = re.compile(r"^[01](_[01])*$")


def prepare_yesno(source: str | os.PathLike[str], directory: str | os.PathLike[str], *, seed: int = 0) -> Prepared:
    """Make a corpus directory of yesno, from its folder or zip archive.

    The same man speaks in all four parts, so this is the one corpus here that does not measure unseen speakers; each
    part calls him by another name. As in Kaldi's recipe each word is one phone (YES: Y, NO: N).
    """
    folder = source_folder(source, directory)
    files = sorted(path for path in folder.rglob("*.wav") if _YESNO_NAME.match(path.stem))
    if not files:
        raise ValueError(f"source must hold recordings named like 0_1_1_0_1_0_0_1.wav, got none under {folder}.")
    parts = split_speakers((path.stem for path in files), seed=seed, sizes=SHARES)
    found = (_yesno_utterance(path, parts[path.stem], Path(directory)) for path in files)
    return finish(directory, found, lexicon=Lexicon({"YES": [("Y",)], "NO": [("N",)]}))


def _yesno_utterance(path: Path, part: str, directory: Path) -> Utterance | Skipped:
    try:
        recording = recording_fields(path, directory, rate=RATE)
    except AudioError as error:
        return Skipped(path.stem, error.reason)
    text = " ".join("YES" if word == "1" else "NO" for word in path.stem.split("_"))
    return Utterance(id=path.stem, speaker=f"man-{part}", part=part, text=text, **recording)
