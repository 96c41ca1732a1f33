"""yesno: sixty recordings of eight words, yes or no, by one man (openslr.org/1), to try whether a chain runs."""

from __future__ import annotations

import os
import re
from pathlib import Path

from bochner.speech.audio import AudioError
from bochner.speech.corpora.prepared import Prepared, finish
from bochner.speech.corpora.recordings import recording_fields
from bochner.speech.corpora.unpack import source_folder
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance
from bochner.speech.parts import split_speakers
from bochner.speech.skipped import Skipped

RATE = 8000
SHARES = {"train": 0.6, "heldout": 0.1, "dev": 0.1, "test": 0.2}
_NAME = re.compile(r"^[01](_[01])*$")


def prepare_yesno(source: str | os.PathLike[str], directory: str | os.PathLike[str], *, seed: int = 0) -> Prepared:
    """Make a corpus directory of yesno, from its folder or zip archive.

    The same man speaks in all four parts, so this is the one corpus here that does not measure unseen speakers; each
    part calls him by another name. As in Kaldi's recipe each word is one phone (YES: Y, NO: N).
    """
    folder = source_folder(source, directory)
    files = sorted(path for path in folder.rglob("*.wav") if _NAME.match(path.stem))
    if not files:
        raise ValueError(f"source must hold recordings named like 0_1_1_0_1_0_0_1.wav, got none under {folder}.")
    parts = split_speakers((path.stem for path in files), seed=seed, sizes=SHARES)
    found = (_utterance(path, parts[path.stem], Path(directory)) for path in files)
    return finish(directory, found, lexicon=Lexicon({"YES": [("Y",)], "NO": [("N",)]}))


def _utterance(path: Path, part: str, directory: Path) -> Utterance | Skipped:
    try:
        recording = recording_fields(path, directory, rate=RATE)
    except AudioError as error:
        return Skipped(path.stem, error.reason)
    text = " ".join("YES" if word == "1" else "NO" for word in path.stem.split("_"))
    return Utterance(id=path.stem, speaker=f"man-{part}", part=part, text=text, **recording)
