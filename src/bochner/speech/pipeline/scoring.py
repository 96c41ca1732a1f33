"""Hypotheses scored against a corpus directory, and the files that list the errors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.manifest import Utterance
from bochner.speech.score import Score, confusion_table, error_listing, read_trn, score, speaker_table, write_trn
from bochner.speech.score.protocol import FOLDINGS, PHONES_39, PHONES_48, PHONES_49, PHONES_61, SPELLINGS, Protocol
from bochner.stages import write_json
from bochner.storage import write_atomically

PHONE_PROTOCOL = re.compile(r"per(?P<classes>48|39)?_sil_(?P<silence>scored|ignored)")
CHARACTER_LANGUAGES = ("cantonese", "yue")  # whose tokens are scored by character


def protocol_for(corpus: SpeechCorpus, name: str | None) -> Protocol:
    """The protocol `name`, or the corpus's default: per39_sil_scored for TIMIT, cer for Cantonese, else wer."""
    if name is None:
        name = _default_protocol(corpus)
    if match := PHONE_PROTOCOL.fullmatch(name):
        return Protocol(unit="phones", fold=_folding(corpus, match["classes"]), silence=match["silence"])
    unit, _, spellings = name.partition("_")
    units = {"wer": "words", "cer": "characters"}
    if unit not in units:
        raise ValueError(f"protocol must be wer, cer, per, per48 or per39 with its rules, such as per39_sil_scored, "
                         f"wer_lower_no_punctuation or cer_nfkc, got {name!r}.")  # fmt: skip
    return Protocol(unit=units[unit], normalize=_spellings(spellings, name))


def _default_protocol(corpus: SpeechCorpus) -> str:
    if corpus.tokens_are_phones:
        return "per39_sil_scored" if _timit_classes(corpus) else "per_sil_scored"
    return "cer" if corpus.utterances[0].language in CHARACTER_LANGUAGES else "wer"


def _timit_classes(corpus: SpeechCorpus) -> str | None:
    """The size of the smallest TIMIT phone set that contains the corpus's phones, or None."""
    phones = set(corpus.lexicon.words)
    sets = {"39": PHONES_39, "48": PHONES_48, "49": PHONES_49, "61": PHONES_61}
    return next((size for size, members in sets.items() if phones <= set(members)), None)


def _folding(corpus: SpeechCorpus, classes: str | None) -> str | None:
    size = _timit_classes(corpus)
    if classes is None or classes == size:
        return None
    if size is None or f"{size}-{classes}" not in FOLDINGS:
        raise ValueError(f"the phones of {corpus.directory} cannot be folded to TIMIT's {classes}; use per_sil_scored.")
    return f"{size}-{classes}"


def _spellings(text: str, name: str) -> tuple[str, ...]:
    """The rules in a name such as lower_no_punctuation."""
    rules = []
    for rule in SPELLINGS:
        if text == rule or text.startswith(f"{rule}_"):
            rules.append(rule)
            text = text.removeprefix(rule).removeprefix("_")
    if text:
        raise ValueError(f"protocol must normalize by {', '.join(SPELLINGS)}, in that order, got {name!r}.")
    return tuple(rules)


def score_hypotheses(corpus: SpeechCorpus, hypotheses: Mapping[str, str], protocol: Protocol) -> Score:
    """Score {utterance id: text} against all utterances of the part that they belong to."""
    utterances = references(corpus, hypotheses)
    texts = {utterance.id: utterance.text for utterance in utterances}
    return score(texts, hypotheses, protocol=protocol, speakers={name: corpus.speaker_of[name] for name in texts})


def score_files(
    corpus: SpeechCorpus, hypotheses: Path, protocol: str | None, *, output_dir: Path | None, seed: int
) -> tuple[Score, str, Path]:
    """Score a file of hypotheses and write the result; returns it with the part and the directory of the result."""
    rules, texts = protocol_for(corpus, protocol), read_texts(hypotheses, corpus)
    utterances, result = references(corpus, texts), score_hypotheses(corpus, texts, rules)
    directory = hypotheses if hypotheses.is_dir() else hypotheses.parent
    target = output_dir or directory / f"score_{rules.name}"
    target.mkdir(parents=True, exist_ok=True)
    write_for_sclite(target / "reference.trn", {u.id: u.text for u in utterances}, rules, corpus.speaker_of)
    write_for_sclite(target / "hypotheses.trn", texts, rules, corpus.speaker_of)
    write_score(target, result, utterances[0].part, seed=seed)
    return result, utterances[0].part, target


def write_for_sclite(path: Path, texts: Mapping[str, str], protocol: Protocol, speakers: Mapping[str, str]) -> None:
    """Write a .trn file, or warn where sclite could not read its names or tokens; no other step reads it."""
    try:
        write_trn(path, texts, protocol=protocol, speakers=speakers)
    except ValueError as error:
        warnings.warn(f"{path.name} is not written: {error}", stacklevel=3)


def read_texts(hypotheses: Path, corpus: SpeechCorpus) -> dict[str, str]:
    """Texts by utterance id, from a directory of `decode_corpus`, its hypotheses.jsonl or a .trn file."""
    path = hypotheses / "hypotheses.jsonl" if hypotheses.is_dir() else hypotheses
    if not path.is_file():
        raise ValueError(f"hypotheses must be a directory of `bochner speech decode` or a .trn file, got {hypotheses}.")
    if path.suffix == ".trn":
        full_names = {f"{speaker.replace('-', '.')}-{name}": name for name, speaker in corpus.speaker_of.items()}
        return {full_names.get(name, name): text for name, text in read_trn(path).items()}
    from bochner.speech.decode import read_hypotheses  # needs the extra `speech`

    return {name: " ".join(words) for name, words in read_hypotheses(path.parent).words.items()}


def references(corpus: SpeechCorpus, hypotheses: Mapping[str, str]) -> list[Utterance]:
    """All utterances of the part that the hypotheses belong to."""
    part_of = {utterance.id: utterance.part for utterance in corpus.utterances}
    if unknown := sorted(name for name in hypotheses if name not in part_of):
        raise ValueError(f"hypotheses must be of utterances in {corpus.directory}, got {unknown[:5]} besides.")
    parts = {part_of[name] for name in hypotheses}
    if len(parts) != 1:
        raise ValueError(f"hypotheses must be of one part, got {sorted(parts) or 'none at all'}.")
    return corpus.part(parts.pop())


def write_score(output_dir: Path, result: Score, part: str, *, seed: int) -> None:
    """Write score.json, speakers.txt, errors.txt and confusions.txt; `seed` is that of the bootstrap intervals."""
    summary = {
        "protocol": asdict(result.protocol) | {"name": result.protocol.name},
        "part": part,
        "rate": result.rate if result.counts.tokens else None,
        "counts": asdict(result.counts),
        "intervals": {by: result.interval(seed=seed, by=by)._asdict() for by in ("utterance", "speaker")},
        "seed": seed,
        "missing": result.missing,
        "speakers": {name: asdict(counts) for name, counts in result.by_speaker.items()},
    }
    write_json(output_dir / "score.json", summary)
    listings = {
        "speakers.txt": speaker_table(result),
        "errors.txt": error_listing(result),
        "confusions.txt": confusion_table(result, most=50),
    }
    for name, text in listings.items():
        write_atomically(output_dir / name, f"{text}\n".encode())
