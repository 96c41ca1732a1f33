"""Synthetic corpora of any length, by espeak-ng."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bochner.speech.corpora.corpus_directory import PreparedCorpus, write_corpus
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import MANIFEST, Utterance
from bochner.speech.runtime import process_pool
from bochner.speech.synthesis.recording import PIECES, record_speaker
from bochner.speech.synthesis.speakers import SynthesisSettings
from bochner.speech.text_files import FilePath
from bochner.stages import Stage, locked
from bochner.storage import write_atomically

CPU_SECONDS = 0.01  # for each second of speech
README = """This speech is synthetic: {language}, {hours} hours, seed {seed}, made by bochner with espeak-ng's voices.

It contains no recordings of people, and results on it do not apply to them: report it as synthetic.
Noise, rooms and telephone lines are simulated. utterances.jsonl has words and phones with their times, lexicon.txt
all pronunciations that occur, settings.json the settings that reproduce the corpus.
"""


def synthesize(directory: FilePath, *, workers: int = 1, verbose: bool = False, **settings: Any) -> PreparedCorpus:
    """Synthesize a corpus directory in four parts of 70, 10, 10 and 10 percent of the speakers.

    A speaker is one of the engine's voices with its own speed and pitch, in a room, in noise or among other voices,
    half of them on a telephone; no voice and no sentence is in two parts. Each has one file in audio/, segmented into
    utterances with timed words and phones. `settings` are the fields of `SynthesisSettings`. The same settings give
    the same bytes with any number of `workers` (processes), and an interrupted call is resumed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     corpus = synthesize(directory, language="bengali", hours=0.005, seed=0)
    ...     sorted({utterance.part for utterance in corpus.utterances})
    ['dev', 'heldout', 'test', 'train']
    """
    checked = SynthesisSettings(**settings)
    target = Path(directory)
    with locked(target):
        Stage(target / "settings.json", asdict(checked)).run(dict)  # records the settings, or checks them
        if not (target / MANIFEST).exists():
            _write(target, checked, workers, verbose)
    shutil.rmtree(target / PIECES, ignore_errors=True)
    return PreparedCorpus.read(target)


def _write(target: Path, settings: SynthesisSettings, workers: int, verbose: bool) -> None:
    (target / "audio").mkdir(exist_ok=True)
    readme = README.format(language=settings.language, seed=settings.seed, hours=settings.hours)
    write_atomically(target / "README.txt", readme.encode())
    speakers = tqdm(_record_all(target, settings, workers), total=settings.num_speakers, disable=not verbose)
    pieces = [PreparedCorpus.read(piece) for piece in speakers]
    utterances = [utterance for piece in pieces for utterance in piece.utterances]
    skipped = [entry for piece in pieces for entry in piece.skipped]
    write_corpus(target, [*utterances, *skipped], lexicon=lexicon_of(utterances))


def lexicon_of(utterances: Iterable[Utterance]) -> Lexicon:
    """Every word with all sequences of phones it occurs with; words and phones must be timed.

    >>> utterance = Utterance(id="1", speaker="s", part="train", text="no", audio="1.wav", rate=8000, duration=1.0,
    ...     words=[("no", 0.2, 0.6)], phones=[("SIL", 0.0, 0.2), ("n", 0.2, 0.4), ("o", 0.4, 0.6)])
    >>> lexicon_of([utterance])["no"]
    (('n', 'o'),)
    """
    entries: dict[str, set[tuple[str, ...]]] = {}
    for utterance in utterances:
        for word in utterance.words:
            phones = (p.label for p in utterance.phones if word.start <= p.start and p.end <= word.end)
            entries.setdefault(word.label, set()).add(tuple(phones))
    return Lexicon({word: sorted(pronunciations) for word, pronunciations in entries.items()})


def _record_all(target: Path, settings: SynthesisSettings, workers: int) -> Iterator[Path]:
    record, speakers = partial(record_speaker, corpus_dir=target, settings=settings), settings.speakers()
    with process_pool(workers, seconds=CPU_SECONDS * 3600 * settings.hours) as pool:
        yield from (map if pool is None else pool.map)(record, range(len(speakers)), speakers)
