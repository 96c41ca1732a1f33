"""Synthetic corpora of any length, by espeak-ng."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from tqdm import tqdm

from bochner.checks import positive_int
from bochner.speech.corpora.corpus_directory import Prepared, finish
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import MANIFEST, Segment, Utterance, read_manifest
from bochner.speech.synthesis.recording import PIECES, make_speaker
from bochner.speech.synthesis.speakers import Settings
from bochner.speech.text_files import read_skipped
from bochner.storage import write_atomically

README = """This speech is synthetic: {language}, {hours} hours, seed {seed}, made by bochner with espeak-ng's voices.

No person speaks here. Results on it say nothing about recordings of people: name it as synthetic where they appear.
Noise, rooms and telephone lines are simulated. utterances.jsonl has words and phones with their times, lexicon.txt
every pronunciation that was said, settings.json what to ask for to make the same again.
"""


def synthesize(
    directory: str | os.PathLike[str],
    *,
    language: str,
    hours: float,
    seed: int,
    rate: int = 16000,
    num_words: int = 2000,
    minutes_per_speaker: float = 3.0,
    snr: tuple[float, float] = (5.0, 20.0),
    telephone: float = 0.5,
    babble: float = 0.3,
    workers: int = 1,
    progress: bool = False,
) -> Prepared:
    """Make a corpus directory of synthetic speech in four parts, 70 / 10 / 10 / 10 percent of the speakers.

    A speaker is one of the engine's voices at a speed and pitch, in a room, in noise or among other voices, half of
    them on a telephone; no voice and no sentence is in two parts. Each has one file in audio/, cut into utterances
    with words and phones at their times. `snr` (dB), `telephone` and `babble` (shares of the speakers) say how hard it
    is, `num_words` how many words English and Bengali have. The same settings give the same bytes with any number of
    `workers` (processes); stopped, it goes on where it was when called again. There are eight speakers at least.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = synthesize(folder, language="bengali", hours=0.005, seed=0)
    ...     sorted({said.part for said in corpus.utterances}), all(said.synthetic for said in corpus.utterances)
    (['dev', 'heldout', 'test', 'train'], True)
    """
    settings = Settings(
        language=language, hours=hours, seed=seed, rate=rate, num_words=num_words,
        minutes_per_speaker=minutes_per_speaker, snr=(float(snr[0]), float(snr[1])), telephone=telephone, babble=babble,
    )  # fmt: skip
    folder = Path(directory)
    _begin(folder, settings)
    if not (folder / MANIFEST).exists():
        made = tqdm(_all_speakers(folder, settings, workers), total=settings.num_speakers, disable=not progress)
        _join(folder, list(made))
    shutil.rmtree(folder / PIECES, ignore_errors=True)
    return Prepared(folder, read_manifest(folder), read_skipped(folder))


def _join(folder: Path, pieces: list[Path]) -> None:
    utterances = [said for piece in pieces for said in read_manifest(piece)]
    skipped = [one for piece in pieces for one in read_skipped(piece)]
    finish(folder, [*utterances, *skipped], lexicon=lexicon_of(utterances))


def lexicon_of(utterances: Iterable[Utterance]) -> Lexicon:
    """Every word with each sequence of phones it was said as; words and phones must be timed.

    >>> said = Utterance(id="1", speaker="s", part="train", text="no", audio="1.wav", rate=8000, duration=1.0,
    ...                  words=[("no", 0.2, 0.6)], phones=[("SIL", 0.0, 0.2), ("n", 0.2, 0.4), ("o", 0.4, 0.6)])
    >>> lexicon_of([said])["no"]
    (('n', 'o'),)
    """
    entries: dict[str, set[tuple[str, ...]]] = {}
    for said in utterances:
        for word in said.words:
            entries.setdefault(word.label, set()).add(_within(word, said.phones))
    return Lexicon({word: sorted(found) for word, found in entries.items()})


def _within(word: Segment, phones: tuple[Segment, ...]) -> tuple[str, ...]:
    return tuple(phone.label for phone in phones if word.start <= phone.start and phone.end <= word.end)


def _begin(folder: Path, settings: Settings) -> None:
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    file, text = folder / "settings.json", json.dumps(asdict(settings), indent=1)
    if file.exists() and file.read_text() != text:
        raise ValueError(f"{folder} holds a corpus of other settings ({file}); choose another directory or remove it.")
    write_atomically(file, text.encode())
    readme = README.format(language=settings.language, seed=settings.seed, hours=settings.hours)
    write_atomically(folder / "README.txt", readme.encode())


def _all_speakers(folder: Path, settings: Settings, workers: int) -> Iterator[Path]:
    make, speakers = partial(make_speaker, folder=folder, settings=settings), settings.speakers()
    if positive_int("workers", workers) == 1:
        yield from map(make, range(len(speakers)), speakers)
        return
    # Not by fork: the threads of torch do not survive it.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield from pool.map(make, range(len(speakers)), speakers)
