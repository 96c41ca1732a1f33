"""AN4: spelled words and numbers (CMU 1991), from the cepstra and dictionary that CMU distributes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bochner.speech.corpora.corpus_directory import PreparedCorpus, source_directory, write_corpus
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Utterance, split_speakers
from bochner.speech.text_files import FilePath, Skipped

DIMENSION = 13
FRAME_SHIFT = 0.01
_LINE = re.compile(r"^(?:<s>)?\s*(.*?)\s*(?:</s>)?\s*\((\S+)\)\s*$")


def prepare_an4(
    source: FilePath, directory: FilePath, *, heldout: float = 0.05, dev: float = 0.05, seed: int = 0
) -> PreparedCorpus:
    """Prepare a corpus directory of AN4's cepstra (13 per frame, 100 frames per second), from a directory or zip file.

    test is CMU's 130 utterances of 10 speakers. The shares `heldout` and `dev` of the 74 speakers of its 948 training
    utterances are held out (0 and 0 leave the official training set complete). The frames are written to frames/.
    """
    root = _root(source_directory(source, directory))
    lines = {part: list(_lines(root, part)) for part in ("train", "test")}
    shares = {"train": 1.0 - heldout - dev, "heldout": heldout, "dev": dev}
    parts = split_speakers((_speaker(path) for path, _ in lines["train"]), seed=seed, sizes=shares)
    parts |= {_speaker(path): "test" for path, _ in lines["test"]}
    (Path(directory) / "frames").mkdir(parents=True, exist_ok=True)
    entries = (_utterance(root, path, text, parts, Path(directory)) for part in lines.values() for path, text in part)
    return write_corpus(directory, entries, lexicon=_lexicon(root / "etc" / "an4.dic"))


def read_sphinx_cepstra(path: FilePath) -> NDArray[np.float32]:
    """Frames [T, 13] of a Sphinx .mfc file: their count of numbers as a big-endian int32, then the float32 numbers."""
    content = Path(path).read_bytes()
    count = int.from_bytes(content[:4], "big")
    if len(content) != 4 + 4 * count or count % DIMENSION:
        raise ValueError(f"broken cepstra ({Path(path).name}: {len(content)} bytes for {count} numbers)")
    frames = np.frombuffer(content, dtype=">f4", offset=4).reshape(-1, DIMENSION).astype(np.float32)
    if not len(frames):
        raise ValueError(f"no frames ({Path(path).name})")
    if not np.isfinite(frames).all():
        raise ValueError(f"NaN or infinite frames ({Path(path).name})")
    return frames


def _root(source: Path) -> Path:
    for candidate in (source, source / "an4"):
        if (candidate / "etc" / "an4_train.fileids").is_file():
            return candidate
    raise ValueError(f"source must hold AN4 with etc/an4_train.fileids, got {source}.")


def _speaker(path: str) -> str:
    return path.split("/")[-2]


def _lines(root: Path, part: str) -> Iterator[tuple[str, str]]:
    """Each utterance's path below feat/ and its text."""
    names = (root / "etc" / f"an4_{part}.fileids").read_text().split()
    file = root / "etc" / f"an4_{part}.transcription"
    lines = file.read_text().splitlines()
    if len(lines) != len(names):
        raise ValueError(f"{file} must have a line for each of {len(names)} files, got {len(lines)}.")
    for number, (path, line) in enumerate(zip(names, lines, strict=True), start=1):
        match = _LINE.match(line)
        if match is None or match[2] != path.split("/")[-1]:
            raise ValueError(f"{file}, line {number}: expected words and ({path.split('/')[-1]}), got {line!r}.")
        yield path, " ".join(match[1].split())


def _utterance(root: Path, path: str, text: str, parts: Mapping[str, str], directory: Path) -> Utterance | Skipped:
    name, speaker = path.split("/")[-1], _speaker(path)
    try:
        frames = read_sphinx_cepstra(root / "feat" / f"{path}.mfc")
    except (OSError, ValueError) as error:
        return Skipped(name, str(error))
    stored = f"frames/{name}.npy"
    np.save(directory / stored, frames)  # the manifest, written last, makes them a corpus
    return Utterance(
        id=name, speaker=speaker, part=parts[speaker], text=text, duration=len(frames) * FRAME_SHIFT, frames=stored,
        frame_shift=FRAME_SHIFT, language="english",
    )  # fmt: skip


def _lexicon(file: Path) -> Lexicon:
    """Sphinx's dictionary, in which further pronunciations of a word are named WORD(2), WORD(3)."""
    entries: dict[str, list[list[str]]] = {}
    for line in file.read_text().splitlines():
        word, *phones = line.split() or [""]
        if word:
            entries.setdefault(re.sub(r"\(\d+\)$", "", word), []).append(phones)
    return Lexicon(entries)
