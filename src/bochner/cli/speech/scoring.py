"""What `bochner speech score` does."""

from __future__ import annotations

from pathlib import Path

from bochner.cli.report import say
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.pipeline.scoring import protocol_for, read_texts, references, scored, write_for_sclite, write_score
from bochner.speech.score import Score, speaker_table


def score_hypotheses(folder: Path, hypotheses: Path, protocol: str | None, *, out: Path | None, seed: int) -> Score:
    """Count, write, say."""
    corpus = SpeechCorpus.read(folder)
    rules = protocol_for(corpus, protocol)
    heard = read_texts(hypotheses, corpus)
    said = references(corpus, heard)
    found = scored(corpus, heard, rules)
    target = out or (hypotheses if hypotheses.is_dir() else hypotheses.parent) / f"score_{rules.name}"
    target.mkdir(parents=True, exist_ok=True)
    for name, texts in (("reference", {one.id: one.text for one in said}), ("hypotheses", heard)):
        write_for_sclite(target / f"{name}.trn", texts, rules, corpus.speaker_of)
    write_score(target, found, said[0].part, seed=seed)
    say_score(found, said[0].part, synthetic=any(one.synthetic for one in said), target=target, seed=seed)
    return found


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
