"""Hypotheses counted against a corpus, and the files that show the errors."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bochner.speech.chain.corpus import SpeechCorpus
from bochner.speech.manifest import Utterance
from bochner.speech.score import Protocol, Score, confusion_table, error_listing, read_trn, speaker_table, write_trn
from bochner.speech.score import score as count_errors
from bochner.storage import write_atomically


def scored(corpus: SpeechCorpus, heard: Mapping[str, str], protocol: Protocol) -> Score:
    """{utterance id: text} against all utterances of the part they are of."""
    said = references(corpus, heard)
    speakers = {one.id: one.speaker for one in said}
    return count_errors({one.id: one.text for one in said}, heard, protocol=protocol, speakers=speakers)


def write_for_sclite(path: Path, texts: Mapping[str, str], protocol: Protocol, speakers: Mapping[str, str]) -> None:
    """A .trn file, or a warning where sclite could not read the names or tokens: nothing else needs it."""
    try:
        write_trn(path, texts, protocol=protocol, speakers=speakers)
    except ValueError as error:
        warnings.warn(f"{path.name} is not written: {error}", stacklevel=3)


def read_texts(hypotheses: Path, corpus: SpeechCorpus) -> dict[str, str]:
    """Texts by utterance id, from a folder of decoding, its hypotheses.jsonl or a .trn file."""
    path = hypotheses / "hypotheses.jsonl" if hypotheses.is_dir() else hypotheses
    if not path.is_file():
        raise ValueError(f"hypotheses must be a folder of `bochner speech decode` or a .trn file, got {hypotheses}.")
    if path.suffix == ".trn":
        full_names = {f"{said.speaker.replace('-', '.')}-{said.id}": said.id for said in corpus.utterances}
        return {full_names.get(name, name): text for name, text in read_trn(path).items()}
    from bochner.speech.decode import read_hypotheses

    return {name: " ".join(words) for name, words in read_hypotheses(path.parent).words.items()}


def references(corpus: SpeechCorpus, heard: Mapping[str, str]) -> list[Utterance]:
    """All utterances of the part that the hypotheses are of."""
    part_of = {said.id: said.part for said in corpus.utterances}
    if strange := sorted(name for name in heard if name not in part_of):
        raise ValueError(f"hypotheses must be of utterances in {corpus.folder}, got {strange[:5]} besides.")
    parts = {part_of[name] for name in heard}
    if len(parts) != 1:
        raise ValueError(f"hypotheses must be of one part, got {sorted(parts) or 'none at all'}.")
    return corpus.part(parts.pop())


def write_score(target: Path, found: Score, part: str, *, seed: int) -> None:
    """score.json, speakers.txt, errors.txt and confusions.txt in `target`; `seed` is that of the intervals."""
    intervals = {by: found.interval(seed=seed, by=by)._asdict() for by in ("utterance", "speaker")}
    summary = {
        "protocol": asdict(found.protocol) | {"name": found.protocol.name}, "part": part, "rate": found.rate,
        "counts": asdict(found.counts), "intervals": intervals, "seed": seed, "missing": found.missing,
        "speakers": {name: asdict(counts) for name, counts in found.by_speaker.items()},
    }  # fmt: skip
    texts = {
        "score.json": json.dumps(summary, indent=1, ensure_ascii=False),
        "speakers.txt": speaker_table(found),
        "errors.txt": error_listing(found),
        "confusions.txt": confusion_table(found, most=50),
    }
    target.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_atomically(target / name, f"{text}\n".encode())
