"""What `bochner speech prepare` does, kind by kind."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bochner.cli.report import say
from bochner.cli.speech.texts import LETTERS, lexicon_for, respelled
from bochner.speech.corpora.an4 import prepare_an4
from bochner.speech.corpora.corpus_directory import LEXICON, Prepared, finish
from bochner.speech.corpora.digits import prepare_digits, prepare_yesno
from bochner.speech.corpora.directory import prepare_folder
from bochner.speech.corpora.kaldi_directory import prepare_kaldi
from bochner.speech.corpora.lhotse import RECORDINGS, SUPERVISIONS, prepare_lhotse
from bochner.speech.corpora.timit import prepare_timit
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import PARTS, read_manifest
from bochner.speech.pipeline.steps import Step
from bochner.speech.score.protocol import FOLDINGS
from bochner.speech.text_files import read_skipped

RECORD = "prepare.json"
TEXTS = ("lexicon", "normalize")  # options that every kind takes
SPELLINGS = {"folder": ("lower", "no_punctuation")}
Options = Mapping[str, Any]


def prepare_corpus(kind: str, source: Path, out: Path, options: Options, *, seed: int) -> Prepared:
    """Make the corpus, or find that it is there; say what it holds."""
    own = _own_options(kind, options)
    step = Step(out / RECORD, {"kind": kind, "source": str(source.resolve()), "seed": seed, **options})
    done = step.found()
    if done is None:
        found = _spelled(KINDS[kind][0](source, out, {**own, "seed": seed}), kind, options)
        step.finish({"utterances": len(found.utterances), "skipped": len(found.skipped)})
    say_corpus(Prepared(out, read_manifest(out), read_skipped(out)), finished=done is not None)
    return Prepared(out, read_manifest(out), read_skipped(out))


def say_corpus(corpus: Prepared, *, finished: bool) -> None:
    """How much of what, and how to go on."""
    head, *parts = str(corpus).splitlines()
    say("corpus", head + (" (it was there already)" if finished else ""))
    for line in parts:
        say("", line.strip())
    if corpus.skipped:
        say("skipped", f"{corpus.directory / 'skipped.jsonl'} says why")
    folder = str(corpus.directory)
    say("next", shlex.join(["bochner", "speech", "align", folder, f"{folder}-aligned"]))


def _own_options(kind: str, options: Options) -> dict[str, Any]:
    takes = KINDS[kind][1]
    for name in options:
        if name not in (*takes, *TEXTS):
            others = [other for other, (_, names) in KINDS.items() if name in names]
            raise ValueError(f"{name} is for {' and '.join(others)}, not for {kind}; leave it out.")
    return {name: value for name, value in options.items() if name in takes}


def _spelled(prepared: Prepared, kind: str, options: Options) -> Prepared:
    """With texts spelled alike, and a lexicon of all their words."""
    utterances = respelled(prepared.utterances, options.get("normalize", SPELLINGS.get(kind, ())))
    file = prepared.directory / LEXICON
    wanted = options.get("lexicon", None if file.exists() else LETTERS)
    lexicon = lexicon_for(utterances, wanted) if wanted else read_lexicon(file)
    return finish(prepared.directory, [*utterances, *prepared.skipped], lexicon=lexicon)


def _timit(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    fold, tokens = options.pop("fold", "61-48"), options.get("tokens", "phones")
    prepared = prepare_timit(source, out, **options)
    if fold == "none" or tokens == "words":
        return prepared
    from bochner.speech.corpora.timit import fold_corpus

    return fold_corpus(prepared, FOLDINGS[fold])


def _an4(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    sizes = options.pop("sizes", {})
    if unknown := sorted(set(sizes) - {"heldout", "dev"}):
        raise ValueError(f"sizes must be the shares of AN4's training speakers for heldout and dev, got {unknown}.")
    return prepare_an4(source, out, **options, **sizes)


def _yesno(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    return prepare_yesno(source, out, **options)


def _digits(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    return prepare_digits(source, out, **options)


def _folder(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    return prepare_folder(source, out, **options)


def _kaldi(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    del options["seed"]  # nothing is drawn: the directories are the parts
    sources = {part: source / part for part in PARTS if (source / part / "text").is_file()}
    if not sources:
        raise ValueError(f"source must hold Kaldi's data directories {', '.join(PARTS)}, got none in {source}.")
    return prepare_kaldi(sources, out, **options)


def _lhotse(source: Path, out: Path, options: dict[str, Any]) -> Prepared:
    return prepare_lhotse(_zipped(source / RECORDINGS), _zipped(source / SUPERVISIONS), out, **options)


def _zipped(path: Path) -> Path:
    """The file, or the same with .gz."""
    for there in (path, path.with_name(f"{path.name}.gz")):
        if there.is_file():
            return there
    raise ValueError(f"source must hold {path.name} or {path.name}.gz, got neither in {path.parent}.")


# How each kind is read, and which options it takes.
KINDS: dict[str, tuple[Callable[[Path, Path, dict[str, Any]], Prepared], tuple[str, ...]]] = {
    "folder": (_folder, ("speakers", "sizes", "rate", "language")),
    "timit": (_timit, ("tokens", "fold", "sizes")),
    "an4": (_an4, ("sizes",)),
    "yesno": (_yesno, ()),
    "digits": (_digits, ("sizes",)),
    "kaldi": (_kaldi, ("root", "language")),
    "lhotse": (_lhotse, ("sizes",)),
}
