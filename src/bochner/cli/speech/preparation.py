"""Corpus directories from sources of each kind, with normalised transcripts and a lexicon of all their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bochner.speech.corpora.an4 import prepare_an4
from bochner.speech.corpora.corpus_directory import LEXICON, PreparedCorpus, write_corpus
from bochner.speech.corpora.digits import prepare_digits, prepare_yesno
from bochner.speech.corpora.directory import prepare_directory
from bochner.speech.corpora.kaldi_directory import prepare_kaldi
from bochner.speech.corpora.lhotse import RECORDINGS, SUPERVISIONS, prepare_lhotse
from bochner.speech.corpora.pronunciations import LETTERS, normalized, with_lexicon
from bochner.speech.corpora.timit import prepare_timit
from bochner.speech.lexicon import read_lexicon
from bochner.speech.manifest import PARTS
from bochner.stages import Stage, locked, read_record
from bochner.storage import write_atomically

RECORD = "prepare.json"
TEXT_OPTIONS = ("lexicon", "normalize")  # options of every kind
NORMALIZE = {"folder": ("lower", "no_punctuation")}  # defaults by kind
MISSING = "missing_words.txt"
Options = Mapping[str, Any]


def prepare_corpus(kind: str, source: Path, out: Path, options: Options, *, seed: int) -> bool:
    """Prepare the corpus directory `out`; returns whether it was finished already."""
    own = _own_options(kind, options)
    inputs = {"kind": kind, "source": str(source.resolve()), "seed": seed, **options}

    def make() -> dict[str, Any]:
        prepared = KINDS[kind][0](source, out, {**own, "seed": seed})
        rules = options.get("normalize", NORMALIZE.get(kind, ()))
        utterances, file = normalized(prepared.utterances, rules), out / LEXICON
        sources = options.get("lexicon", None if file.exists() else LETTERS)
        if sources is None:
            lexicon, missing = read_lexicon(file), list[str]()
        else:
            utterances, lexicon, missing = with_lexicon(utterances, sources, normalize=rules)
        if missing:
            write_atomically(out / MISSING, "".join(f"{word}\n" for word in missing).encode())
        write_corpus(out, [*utterances, *prepared.skipped], lexicon=lexicon)
        return {"utterances": len(utterances), "skipped": len(prepared.skipped), "missing_words": len(missing)}

    with locked(out):
        record = out / RECORD
        if record.exists() and read_record(record)["result"] is None:
            record.unlink()  # a failed attempt may be repeated with other options
        finished = Stage(record, inputs).result() is not None
        Stage(record, inputs).run(make)
    return finished


def _own_options(kind: str, options: Options) -> dict[str, Any]:
    accepted = KINDS[kind][1]
    for name in options:
        if name not in (*accepted, *TEXT_OPTIONS):
            others = [other for other, (_, names) in KINDS.items() if name in names]
            raise ValueError(f"{name} is for {' and '.join(others)}, not for {kind}; leave it out.")
    return {name: value for name, value in options.items() if name in accepted}


def _timit(source: Path, out: Path, options: dict[str, Any]) -> PreparedCorpus:
    fold = options.pop("fold", "61-48")
    return prepare_timit(source, out, fold=None if fold == "none" else fold, **options)


def _an4(source: Path, out: Path, options: dict[str, Any]) -> PreparedCorpus:
    sizes = options.pop("sizes", {})
    if unknown := sorted(set(sizes) - {"heldout", "dev"}):
        raise ValueError(f"sizes must be the shares of AN4's training speakers for heldout and dev, got {unknown}.")
    return prepare_an4(source, out, **options, **sizes)


def _kaldi(source: Path, out: Path, options: dict[str, Any]) -> PreparedCorpus:
    del options["seed"]  # nothing is drawn: the directories are the parts
    sources = {part: source / part for part in PARTS if (source / part / "text").is_file()}
    if not sources:
        raise ValueError(f"source must hold Kaldi's data directories {', '.join(PARTS)}, got none in {source}.")
    return prepare_kaldi(sources, out, **options)


def _lhotse(source: Path, out: Path, options: dict[str, Any]) -> PreparedCorpus:
    return prepare_lhotse(_zipped(source / RECORDINGS), _zipped(source / SUPERVISIONS), out, **options)


def _zipped(path: Path) -> Path:
    """The file, or the same with .gz."""
    for file in (path, path.with_name(f"{path.name}.gz")):
        if file.is_file():
            return file
    raise ValueError(f"source must hold {path.name} or {path.name}.gz, got neither in {path.parent}.")


def _direct(prepare: Callable[..., PreparedCorpus]) -> Callable[[Path, Path, dict[str, Any]], PreparedCorpus]:
    return lambda source, out, options: prepare(source, out, **options)


# How each kind is prepared, and its options.
KINDS: dict[str, tuple[Callable[[Path, Path, dict[str, Any]], PreparedCorpus], tuple[str, ...]]] = {
    "folder": (_direct(prepare_directory), ("speakers", "sizes", "rate", "channel", "language")),
    "timit": (_timit, ("tokens", "fold", "sizes")),
    "an4": (_an4, ("sizes",)),
    "yesno": (_direct(prepare_yesno), ()),
    "digits": (_direct(prepare_digits), ("sizes",)),
    "kaldi": (_kaldi, ("root", "language")),
    "lhotse": (_lhotse, ("sizes",)),
}
