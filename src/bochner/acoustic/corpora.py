"""The corpora of recipes and their preparation; all later stages are the same."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from bochner.speech.corpora.an4 import prepare_an4
from bochner.speech.corpora.corpus_directory import PreparedCorpus, write_corpus
from bochner.speech.corpora.digits import prepare_yesno
from bochner.speech.corpora.directory import prepare_directory
from bochner.speech.corpora.kaldi_directory import prepare_kaldi
from bochner.speech.corpora.pronunciations import LETTERS, normalized, with_lexicon
from bochner.speech.corpora.timit import prepare_timit
from bochner.speech.lexicon import phone_lexicon, read_lexicon
from bochner.speech.manifest import PARTS, manifest_path


@dataclass(frozen=True, kw_only=True)
class SyntheticCorpus:
    """Synthetic speech of espeak-ng's voices, see `bochner.speech.synthesis.synthesize`; `tokens` are the units."""

    language: Literal["english", "cantonese", "bengali"]
    hours: float
    tokens: Literal["words", "phones"] = "words"
    seed: int = 0
    num_words: int = 2000
    minutes_per_speaker: float = 3.0
    snr: tuple[float, float] = (5.0, 20.0)
    telephone: float = 0.5
    babble: float = 0.3
    rate: int = 16000

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        from bochner.speech.synthesis import synthesize  # needs the extra

        settings = asdict(self)
        tokens = settings.pop("tokens")
        prepared = synthesize(directory, workers=workers, verbose=verbose, **settings)
        return prepared if tokens == "words" else transcribed_in_phones(prepared)


@dataclass(frozen=True, kw_only=True)
class TimitCorpus:
    """TIMIT as the LDC distributes it (LDC93S1), or NLTK's sample of 16 speakers.

    The sample is split into `sizes` speakers, without its damaged recordings if `skip_noise`; the 61 phones are folded
    to 48, or to 49 with the glottal stop as in the papers, which are scored as 39.
    """

    source: Path
    heldout: float = 0.05
    sizes: dict[str, int] | None = None
    seed: int = 0
    phones: Literal[48, 49] = 48
    skip_noise: bool = False

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        return prepare_timit(
            self.source, directory, fold=f"61-{self.phones}", heldout=self.heldout, sizes=self.sizes, seed=self.seed,
            skip_noise=self.skip_noise,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class An4Corpus:
    """AN4's cepstra as CMU distributes them; shares of its training speakers form the parts heldout and dev."""

    source: Path
    heldout: float = 0.1
    dev: float = 0.1
    seed: int = 0

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        return prepare_an4(self.source, directory, heldout=self.heldout, dev=self.dev, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class YesnoCorpus:
    """yesno (openslr.org/1): sixty recordings of one male speaker."""

    source: Path
    seed: int = 0

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        return prepare_yesno(self.source, directory, seed=self.seed)


@dataclass(frozen=True, kw_only=True)
class KaldiCorpus:
    """Kaldi's data directories SOURCE/train, heldout, dev and test, with a `lexicon` of lines `word phone phone ...`.

    Paths in wav.scp and feats.scp are relative to `root`.
    """

    source: Path
    lexicon: Path | None = None
    root: Path = Path()
    language: str = ""

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        sources = {part: self.source / part for part in PARTS if (self.source / part / "text").is_file()}
        if not sources:
            raise ValueError(f"corpus.source must hold data directories {', '.join(PARTS)}, got {self.source}.")
        prepared = prepare_kaldi(sources, directory, root=self.root, language=self.language)
        lexicon = read_lexicon(self.lexicon or self.source / "local" / "dict" / "lexicon.txt")
        return write_corpus(directory, [*prepared.utterances, *prepared.skipped], lexicon=lexicon)


@dataclass(frozen=True, kw_only=True)
class FolderCorpus:
    """Recordings with transcripts, as `bochner speech prepare folder` reads them, or a corpus directory.

    `lexicon` names files, "cmudict" or "letters"; `speakers` is "folder", "prefix" or "file", by default "folder" if
    there are four folders and otherwise "file". A corpus directory is read in place and ignores these settings.
    """

    source: Path
    speakers: Literal["folder", "prefix", "file"] | None = None
    sizes: dict[str, int | float] | None = None
    lexicon: str | list[str] = LETTERS
    normalize: tuple[str, ...] = ("lower", "no_punctuation")
    rate: int | None = None
    channel: int | None = None
    language: str = ""
    seed: int = 0

    @property
    def is_prepared(self) -> bool:
        return manifest_path(self.source).is_file()

    def make(self, directory: Path, *, workers: int, verbose: bool) -> PreparedCorpus:
        prepared = prepare_directory(
            self.source, directory, speakers=self.speakers, sizes=self.sizes, seed=self.seed, rate=self.rate,
            channel=self.channel, language=self.language,
        )  # fmt: skip
        utterances = normalized(prepared.utterances, self.normalize)
        utterances, lexicon, _ = with_lexicon(utterances, self.lexicon, normalize=self.normalize)
        return write_corpus(directory, [*utterances, *prepared.skipped], lexicon=lexicon)


@dataclass(frozen=True, kw_only=True)
class CorpusDirectory:
    """An existing corpus directory, as written by `bochner speech prepare`; it is read in place."""

    source: Path


Corpus = SyntheticCorpus | TimitCorpus | An4Corpus | YesnoCorpus | KaldiCorpus | FolderCorpus | CorpusDirectory
KINDS: dict[str, type[Corpus]] = {
    "synthetic": SyntheticCorpus,
    "timit": TimitCorpus,
    "an4": An4Corpus,
    "yesno": YesnoCorpus,
    "kaldi": KaldiCorpus,
    "folder": FolderCorpus,
    "directory": CorpusDirectory,
}


def transcribed_in_phones(prepared: PreparedCorpus) -> PreparedCorpus:
    """The corpus with phones, including pauses, as transcripts, as in TIMIT."""
    utterances = [u.replace(text=" ".join(phone.label for phone in u.phones)) for u in prepared.utterances]
    phones = {token for utterance in utterances for token in utterance.tokens}
    return write_corpus(prepared.directory, [*utterances, *prepared.skipped], lexicon=phone_lexicon(phones))
