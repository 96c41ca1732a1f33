"""Hypotheses scored against a corpus directory, and the files that list the errors."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.manifest import Utterance
from bochner.speech.score import Score, confusion_table, error_listing, read_trn, speaker_table, write_trn
from bochner.speech.score import score as count_errors
from bochner.speech.score.protocol import PHONES_39, PHONES_48, PHONES_61, SPELLINGS, Protocol
from bochner.storage import write_atomically

PHONES = re.compile(r"per(?P<classes>48|39)?_sil_(?P<silence>scored|ignored)")
CHARACTERS = ("cantonese", "yue")  # languages whose tokens are scored by character


def protocol_for(corpus: SpeechCorpus, name: str | None) -> Protocol:
    """The protocol of that name, or the usual one of the corpus: per39_sil_scored on TIMIT, cer on Cantonese, wer."""
    if name is None:
        name = _usual(corpus)
    if match := PHONES.fullmatch(name):
        return Protocol(unit="phones", fold=_folding(corpus, match["classes"]), silence=match["silence"])
    unit, *spellings = re.split("_", name, maxsplit=1)
    units = {"wer": "words", "cer": "characters"}
    if unit not in units:
        raise ValueError(f"protocol must be wer, cer, per, per48 or per39 with its rules, such as per39_sil_scored, "
                         f"wer_lower_no_punctuation or cer_nfkc, got {name!r}.")  # fmt: skip
    return Protocol(unit=units[unit], normalize=_spellings(spellings[0] if spellings else "", name))


def _usual(corpus: SpeechCorpus) -> str:
    if corpus.says_phones:
        return "per39_sil_scored" if _size(corpus) else "per_sil_scored"
    return "cer" if corpus.utterances[0].language in CHARACTERS else "wer"


def _size(corpus: SpeechCorpus) -> str | None:
    """Into how many classes TIMIT's phones are folded in a corpus, or None where they are not TIMIT's."""
    phones = set(corpus.lexicon.words)
    sets = {"39": PHONES_39, "48": PHONES_48, "61": PHONES_61}
    return next((size for size, members in sets.items() if phones <= set(members)), None)


def _folding(corpus: SpeechCorpus, classes: str | None) -> str | None:
    size = _size(corpus)
    if classes is None or classes == size:
        return None
    if size is None or int(size) < int(classes):
        raise ValueError(f"the phones of {corpus.folder} cannot be folded to TIMIT's {classes}; use per_sil_scored.")
    return f"{size}-{classes}"


def _spellings(text: str, name: str) -> tuple[str, ...]:
    found, left = [], text
    for spelling in SPELLINGS:
        if left == spelling or left.startswith(f"{spelling}_"):
            found.append(spelling)
            left = left.removeprefix(spelling).removeprefix("_")
    if left:
        raise ValueError(f"protocol must spell words alike by {', '.join(SPELLINGS)}, in that order, got {name!r}.")
    return tuple(found)


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
