"""Build the models that come with the package from sources that may be redistributed."""

from __future__ import annotations

import re
from pathlib import Path

from bochner.speech.g2p import train_g2p
from bochner.speech.lexicon import Lexicon
from bochner.speech.pretrained import save_model
from bochner.speech.pretrained.sphinx import read_sphinx
from bochner.speech.text_files import FilePath

_VARIANT = re.compile(r"\(\d+\)$")  # word(2) is a further pronunciation of word
PHONE_CLASSES = {
    "vowel": ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"],
    "stop": ["P", "T", "K", "B", "D", "G", "CH", "JH"],
    "fricative": ["F", "V", "TH", "DH", "S", "Z", "SH", "ZH", "HH"],
    "nasal": ["M", "N", "NG"],
    "liquid": ["L", "R", "W", "Y"],
    "pause": ["SIL"],
}
# Milliseconds, aligned minus hand-labelled, of the classes of the phones before (rows) and after the boundary.
BOUNDARY_OFFSETS = [
    [4.9, -0.6, -0.9, -2.3, -1.4, 11.8],
    [-2.5, -5.0, 0.7, -2.1, -11.2, -11.8],
    [-0.1, -1.5, -0.8, -3.7, -3.3, -8.4],
    [2.4, 11.1, 1.9, -7.3, 3.5, 7.7],
    [6.9, 3.0, 1.0, 0.9, 6.1, 13.1],
    [1.6, -6.5, -3.2, -4.8, -7.9, 0.0],
]
OFFSETS_SOURCE = (
    "The offsets subtracted from boundaries are average errors on 12 of the 16 speakers of TIMIT's sample, by the "
    "classes of both phones. They are out of sample for the other 4 speakers."
)
ENGLISH = {
    "name": "en",
    "language": "American English",
    "description": "Context-independent states of CMU Sphinx's en-us acoustic model and its pronunciation dictionary, "
    "trained on recordings of people that Sphinx does not list",
    "source": "the directory model/en-us of PocketSphinx",
    "licence": "BSD-2-Clause, Copyright (c) 2015 Alpha Cephei Inc. and Carnegie Mellon University; see LICENCE.txt",
    "sonorants": [*PHONE_CLASSES["vowel"], *PHONE_CLASSES["liquid"]],
    "boundary_offsets": {"classes": PHONE_CLASSES, "milliseconds": BOUNDARY_OFFSETS, "source": OFFSETS_SOURCE},
}
DICTIONARY_LICENCE = """
The pronunciation dictionary is CMUdict, under the same two conditions and disclaimer:
Copyright (C) 1993-2015 Carnegie Mellon University. All rights reserved.
"""


def build_english(source: FilePath, output_dir: FilePath) -> None:
    """Convert PocketSphinx's directory model/en-us into a model directory."""
    root = Path(source)
    model, lexicon = read_sphinx(root / "en-us"), sphinx_lexicon(root / "cmudict-en-us.dict")
    licence = (root / "en-us" / "README").read_text(encoding="utf-8") + DICTIONARY_LICENCE
    save_model(
        output_dir, about=ENGLISH, hmm=model.hmm, mixtures=model.mixtures, frontend=model.frontend, lexicon=lexicon,
        g2p=train_g2p(lexicon), licence=licence,
    )  # fmt: skip


def sphinx_lexicon(file: Path) -> Lexicon:
    """Sphinx's dictionary, in which further pronunciations of a word are named word(2), word(3)."""
    if not file.is_file():
        raise ValueError(f"source must be PocketSphinx's directory model/en-us, but {file} is missing.")
    entries: dict[str, list[list[str]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        word, *phones = line.split() or [""]
        if word:
            entries.setdefault(_VARIANT.sub("", word).lower(), []).append(phones)
    return Lexicon(entries)
