"""`bochner speech prepare`: recordings and transcripts of any layout as one corpus directory."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

Kind = Literal["folder", "timit", "an4", "yesno", "digits", "kaldi", "lhotse"]


def prepare(
    kind: Kind,
    source: Path,
    out: Path,
    *,
    speakers: Literal["folder", "prefix", "file"] | None = None,
    sizes: dict[str, int | float] | None = None,
    lexicon: str | None = None,
    normalize: list[Literal["nfkc", "lower", "no_punctuation"]] | None = None,
    tokens: Literal["phones", "words"] | None = None,
    fold: Literal["61-48", "61-39", "none"] | None = None,
    rate: int | None = None,
    root: Path | None = None,
    language: str | None = None,
    seed: int = 0,
) -> None:
    """Make a corpus directory: who says what in which recording, in four parts that share no speaker.

    Examples:

        bochner speech prepare folder recordings corpus
        bochner speech prepare folder recordings corpus --lexicon words.txt --speakers prefix
        bochner speech prepare timit TIMIT.zip corpus --tokens phones
        bochner speech prepare an4 an4_cepstra.zip corpus
        bochner speech prepare kaldi data corpus --lexicon data/local/dict/lexicon.txt

    A "folder" holds recordings, each with its transcript in a .txt of the same name, or a table transcripts.tsv with
    the columns audio and text, perhaps speaker and part. Without a lexicon its words are said by their letters, which
    any alphabet has; a lexicon of phones does better.

    The parts: train; heldout, which drives training; dev, for choices; test, read once. What cannot be used stands in
    OUT/skipped.jsonl with the reason. The page "Speech corpora" of the documentation says more.

    Args:
        kind: The layout of SOURCE: any "folder" of recordings, a corpus by name, "kaldi" (a folder with train/, dev/,
            test/) or "lhotse" (recordings.jsonl and supervisions.jsonl).
        source: A folder, or a zip archive of one.
        out: The corpus directory to make.
        speakers: Who speaks in a "folder" without a table: the folder that a recording lies in (default), the prefix
            of its name up to - or _, or each file another.
        sizes: How many speakers, or which share of them, each part gets, such as '{"train": 12, "test": 4}'. For "an4"
            the shares of its training speakers: '{"heldout": 0.05, "dev": 0.05}'.
        lexicon: A file of lines `word phone phone ...`; "letters" (default where the corpus has no lexicon);
            or "cmudict", English words by the CMU dictionary.
        normalize: How transcripts are spelled alike. Default for "folder": [lower, no_punctuation]; else as they are.
        tokens: What TIMIT's text is: its phones (default) or its words.
        fold: Into how many of its 61 phones TIMIT is folded. Default: "61-48".
        rate: Samples a second of the recordings in a "folder". Default: that of the first.
        root: Where the paths in Kaldi's files begin. Default: here.
        language: A name to keep beside the utterances of "folder" and "kaldi".
        seed: Of the draw of speakers into parts.
    """
    from bochner.cli.speech.preparation import prepare_corpus

    options = {
        "speakers": speakers, "sizes": sizes, "lexicon": lexicon, "normalize": normalize, "tokens": tokens,
        "fold": fold, "rate": rate, "root": root, "language": language,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    prepare_corpus(kind, source, out, given, seed=seed)
