"""What `bochner speech score` does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bochner.cli.failures import warn
from bochner.cli.report import say
from bochner.cli.speech.corpus import SpeechCorpus
from bochner.cli.speech.protocols import protocol_for
from bochner.speech.manifest import Utterance
from bochner.speech.score import Protocol, Score, confusion_table, error_listing, read_trn, speaker_table, write_trn
from bochner.speech.score import score as count_errors
from bochner.storage import write_atomically


def score_hypotheses(folder: Path, hypotheses: Path, protocol: str | None, *, out: Path | None, seed: int) -> Score:
    """Count, write, say."""
    corpus = SpeechCorpus.read(folder)
    rules = protocol_for(corpus, protocol)
    heard = read_texts(hypotheses, corpus)
    said = references(corpus, heard)
    texts, speakers = {one.id: one.text for one in said}, {one.id: one.speaker for one in said}
    found = count_errors(texts, heard, protocol=rules, speakers=speakers)
    target = out or (hypotheses if hypotheses.is_dir() else hypotheses.parent) / f"score_{rules.name}"
    target.mkdir(parents=True, exist_ok=True)
    for name, theirs in (("reference", texts), ("hypotheses", heard)):
        write_for_sclite(target / f"{name}.trn", theirs, rules, speakers)
    _write(target, found, said[0].part, seed)
    say_score(found, said[0].part, synthetic=any(one.synthetic for one in said), target=target, seed=seed)
    return found


def write_for_sclite(path: Path, texts: Mapping[str, str], protocol: Protocol, speakers: Mapping[str, str]) -> None:
    """A .trn file, or a warning where sclite could not read the names or tokens: nothing else needs it."""
    try:
        write_trn(path, texts, protocol=protocol, speakers=speakers)
    except ValueError as error:
        warn(f"{path.name} is not written: {error}")


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


def say_score(found: Score, part: str, *, synthetic: bool, target: Path, seed: int) -> None:
    by = "speaker" if len(found.by_speaker) > 1 else "utterance"
    low, high, level = found.interval(seed=seed, by=by)
    say(found.protocol.name, f"{100 * found.rate:.2f} % ({100 * low:.2f} to {100 * high:.2f}, {level:.0%}, by {by})")
    counts, speech = found.counts, " (synthetic speech)" if synthetic else ""
    say("errors", f"{counts.errors:,} in {counts.tokens:,} tokens of {part}{speech}")
    if found.missing:
        say("missing", f"{len(found.missing)} utterances have no hypothesis and count as deleted")
    print(f"\n{speaker_table(found)}\n", flush=True)
    say("listing", str(target / "errors.txt"))


def _write(target: Path, found: Score, part: str, seed: int) -> None:
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
    for name, text in texts.items():
        write_atomically(target / name, f"{text}\n".encode())
