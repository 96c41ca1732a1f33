"""TIMIT: read American English with hand-labelled phones (Garofolo et al. 1993, LDC93S1).

Two layouts: the LDC's (TRAIN/DR1/FCJF0/SA1.PHN, any case) and the 16-speaker sample that comes with NLTK
(dr1-fvmh0/sa1.phn).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bochner.checks import one_of
from bochner.speech.audio import AudioError, read_audio
from bochner.speech.corpora.corpus_directory import (
    PreparedCorpus,
    recording_fields,
    source_directory,
    write_corpus,
)
from bochner.speech.frames import Array
from bochner.speech.lexicon import Lexicon, phone_lexicon
from bochner.speech.manifest import Segment, Utterance, split_speakers
from bochner.speech.score.protocol import FOLDINGS
from bochner.speech.text_files import FilePath, Skipped

_PHONES = """
aa ae ah ao aw ax ax-h axr ay b bcl ch d dcl dh dx eh el em en eng epi er ey f g gcl h# hh hv ih ix iy jh k kcl l m n ng
nx ow oy p pau pcl q r s sh t tcl th uh uw ux v w y z zh
"""
# Table 1 of the corpus's testset.doc: two men and a woman of each dialect.
_CORE_TEST = """
mdab0 mwbt0 felc0 mtas1 mwew0 fpas0 mjmp0 mlnt0 fpkt0 mlll0 mtls0 fjlm0 mbpm0 mklt0 fnlp0 mcmj0 mjdh0 fmgd0 mgrt0 mnjm0
fdhc0 mjln0 mpam0 fmld0
"""
# The 50 TEST speakers of the development set of Kaldi's recipe and most papers.
_DEVELOPMENT = """
faks0 fdac1 fjem0 mgwt0 mjar0 mmdb1 mmdm2 mpdf0 fcmh0 fkms0 mbdg0 mbwm0 mcsh0 fadg0 fdms0 fedw0 mgjf0 mglb0 mrtk0 mtaa0
mtdt0 mthc0 mwjg0 fnmr0 frew0 fsem0 mbns0 mmjr0 mdls0 mdlf0 mdvc0 mers0 fmah0 fdrw0 mrcs0 mrjm4 fcal1 mmwh0 fjsj0 majc0
mjsw0 mreb0 fgjd0 fjmg0 mroa0 mteb0 mjfc0 mrjr0 fmml0 mrws1
"""

PHONES = tuple(_PHONES.split())
CORE_TEST = frozenset(_CORE_TEST.split())
DEVELOPMENT = frozenset(_DEVELOPMENT.split())


RATE = 16000
# Words of the NLTK sample that its copy of the dictionary lacks; in the LDC's they are `live~v`, `mrs.`, `anti-`, ...
_LACKING = {
    "anti": ["ae n t iy", "ae n t ay"], "live": ["l ih v", "l ay v"], "mrs": ["m ih s ix z"],
    "semi": ["s eh m iy", "s eh m ay"], "use": ["y uw z", "y uw s"], "wound": ["w uw n d", "w aw n d"],
}  # fmt: skip
SAMPLE_SIZES = {"train": 12, "test": 4}
# Samples, mean square and correlation of neighbouring samples of 50 ms that are no speech: fricatives are not as loud.
BLOCK, LOUD, WHITE = 800, 0.005, 0.3
_ENTRY = re.compile(r"^(?:; )?(\S+)  /(.+)/\s*$")  # comments list words that only the transcriptions have


def prepare_timit(
    source: FilePath,
    directory: FilePath,
    *,
    tokens: str = "phones",
    fold: str | None = None,
    heldout: float = 0.05,
    sizes: Mapping[str, float] | None = None,
    seed: int = 0,
    skip_noise: bool = False,
) -> PreparedCorpus:
    """Prepare a corpus directory of TIMIT, from its directory or a zip archive.

    The text is the 61 `phones`, optionally folded ("61-49", "61-48" or "61-39"), or the `words`; both have times. SA
    sentences, which all speakers read, are left out. In the LDC's layout train and heldout are the 462 training
    speakers (heldout the share `heldout` of them), dev the usual 50 and test the 24 of the core test; the other 94 test
    speakers are left out. The NLTK sample is split by `sizes` (12 for train, 4 for test), men and women evenly. With
    `skip_noise`, recordings with loud white noise are left out: in some copies of the sample a byte of them is missing,
    and all samples after it are noise. What is left out is listed in skipped.jsonl. lexicon.txt has each phone as its
    own word, or the words of TIMIT's dictionary (and six that the sample's copy of it lacks).
    """
    one_of("tokens", tokens, ("phones", "words"))
    one_of("fold", fold, (None, "61-49", "61-48", "61-39"))
    root = source_directory(source, directory)
    files = sorted(path for path in root.rglob("*") if path.suffix.lower() == ".phn")
    if not files:
        raise ValueError(f"source must hold TIMIT's .phn files, got none under {root}.")
    parts = _parts({_speaker(path): _official(path) for path in files}, heldout, sizes, seed)
    entries = [_utterance(path, Path(directory), parts, tokens) for path in files]
    if skip_noise:
        Path(directory).mkdir(parents=True, exist_ok=True)  # paths of recordings are relative to it
        entries = [_without_noise(entry, Path(directory)) for entry in entries]
    if fold is None or tokens == "words":
        return write_corpus(directory, entries, lexicon=_lexicon(root, tokens))
    folding = FOLDINGS[fold]
    folded = [fold_utterance(entry, folding) if isinstance(entry, Utterance) else entry for entry in entries]
    phones = {phone for phone in folding.values() if phone is not None}
    return write_corpus(directory, folded, lexicon=phone_lexicon(phones))


def _speaker(path: Path) -> str:
    """
    >>> _speaker(Path("TRAIN/DR1/FCJF0/SA1.PHN")), _speaker(Path("dr1-fvmh0/sa1.phn"))
    ('fcjf0', 'fvmh0')
    """
    return path.parent.name.lower().rpartition("-")[2]


def _official(path: Path) -> str | None:
    """The LDC's own part of a file, or None in the layout of the sample."""
    above = path.parent.parent.parent.name.lower()
    return above if above in ("train", "test") and "-" not in path.parent.name else None


def _parts(
    official: Mapping[str, str | None], heldout: float, sizes: Mapping[str, float] | None, seed: int
) -> dict[str, str]:
    """The part of each speaker; speakers in none are missing."""
    if None in official.values():
        sexes = {speaker: speaker[0] for speaker in official}
        sizes = SAMPLE_SIZES if sizes is None and len(official) == 16 else sizes
        return split_speakers(official, seed=seed, sizes=sizes, alike=sexes)
    if sizes is not None:
        raise ValueError("sizes are only for the NLTK sample: the LDC's corpus has official parts; use heldout.")
    trained = [speaker for speaker, part in official.items() if part == "train"]
    shares = {"train": 1.0 - heldout, "heldout": heldout}
    parts = split_speakers(trained, seed=seed, sizes=shares, alike={speaker: speaker[0] for speaker in trained})
    tested = {speaker for speaker, part in official.items() if part == "test"}
    return {**parts, **dict.fromkeys(tested & DEVELOPMENT, "dev"), **dict.fromkeys(tested & CORE_TEST, "test")}


def _utterance(path: Path, directory: Path, parts: Mapping[str, str], tokens: str) -> Utterance | Skipped:
    speaker, sentence = _speaker(path), path.stem.lower()
    name = f"{speaker}-{sentence}"
    if sentence.startswith("sa"):
        return Skipped(name, "SA sentence")
    if speaker not in parts:
        return Skipped(name, "speaker neither in the core test nor in dev")
    try:
        recording = recording_fields(_beside(path, (".wav", ".wav.wav", ".sph", ".flac")), directory, rate=RATE)
        phones = _segments(path, recording["duration"])
        words = _segments(_beside(path, (".wrd",)), recording["duration"])
    except AudioError as error:
        return Skipped(name, error.reason)
    except ValueError as error:
        return Skipped(name, str(error))
    if unknown := {phone.label for phone in phones} - set(PHONES):
        return Skipped(name, f"unknown phones ({', '.join(sorted(unknown))} in {path.name})")
    text = " ".join(segment.label for segment in (phones if tokens == "phones" else words))
    return Utterance(
        id=name, speaker=speaker, part=parts[speaker], text=text, words=words, phones=phones, language="english",
        **recording,
    )  # fmt: skip


def _without_noise(entry: Utterance | Skipped, directory: Path) -> Utterance | Skipped:
    if isinstance(entry, Skipped) or not is_noise(read_audio(entry, corpus_dir=directory)):
        return entry
    return Skipped(entry.id, "loud white noise")


def is_noise(samples: Array) -> bool:
    """Whether 50 ms of the samples at 16 kHz are loud white noise, unlike speech."""
    blocks = samples[: len(samples) // BLOCK * BLOCK].reshape(-1, BLOCK)
    power = (blocks**2).mean(axis=1)
    correlation = (blocks[:, 1:] * blocks[:, :-1]).mean(axis=1) / np.maximum(power, 1e-12)
    return bool(((power > LOUD) & (np.abs(correlation) < WHITE)).any())


def _beside(path: Path, suffixes: tuple[str, ...]) -> Path:
    """The file of the same sentence with one of the suffixes, in upper or lower case."""
    names = {other.name.lower(): other for other in path.parent.iterdir()}
    for suffix in suffixes:
        if other := names.get(path.stem.lower() + suffix):
            return other
    raise ValueError(f"no {suffixes[0]} file")


def _segments(path: Path, duration: float) -> tuple[Segment, ...]:
    """Lines `first last label` in samples; some hand labels end slightly after the recording."""
    segments = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        fields = line.split()
        if len(fields) != 3 or not (fields[0].isdecimal() and fields[1].isdecimal()):
            raise ValueError(f"broken line ({path.name}, line {number}: {line!r})")
        start, end = int(fields[0]) / RATE, min(int(fields[1]) / RATE, duration)
        if start > end:
            raise ValueError(f"labels after the end of the recording ({path.name}, line {number}: {line!r})")
        segments.append(Segment(fields[2].lower(), start, end))
    if not segments:
        raise ValueError(f"empty labels ({path.name})")
    return tuple(segments)


def _lexicon(root: Path, tokens: str) -> Lexicon | None:
    if tokens == "phones":
        return phone_lexicon(PHONES)
    dictionary = next((path for path in root.rglob("*") if path.name.lower() == "timitdic.txt"), None)
    if dictionary is None:
        return None
    entries: dict[str, list[tuple[str, ...]]] = {}
    for line in dictionary.read_text(encoding="utf-8", errors="replace").splitlines():
        if match := _ENTRY.match(line):  # drops stress, part of speech (`live~v`) and the marks of `mrs.` and `anti-`
            word = match[1].partition("~")[0].strip("-.")
            entries.setdefault(word, []).append(tuple(phone.rstrip("012") for phone in match[2].split()))
    lacking = {word: [tuple(phones.split()) for phones in variants] for word, variants in _LACKING.items()}
    return Lexicon({**lacking, **entries})


def fold_utterance(utterance: Utterance, folding: Mapping[str, str | None]) -> Utterance:
    """The utterance with its tokens and the labels of its phones folded.

    A phone that is folded to None is removed, and its time added to the phone before it (for the first, after it).
    Labels that `folding` does not contain are unchanged.

    >>> utterance = Utterance(id="u", speaker="s", part="train", text="q iy hv", audio="u.wav", rate=16000,
    ...     duration=0.3, phones=(Segment("q", 0.0, 0.1), Segment("iy", 0.1, 0.2), Segment("hv", 0.2, 0.3)))
    >>> folded = fold_utterance(utterance, {"q": None, "hv": "hh"})
    >>> folded.text, folded.phones
    ('iy hh', (Segment(label='iy', start=0.0, end=0.2), Segment(label='hh', start=0.2, end=0.3)))
    """
    tokens = [folding.get(token, token) for token in utterance.tokens]
    phones: list[Segment] = []
    start = utterance.phones[0].start if utterance.phones else 0.0
    for segment in utterance.phones:
        label = folding.get(segment.label, segment.label)
        if label is not None:
            phones.append(Segment(label, segment.start if phones else start, segment.end))
        elif phones:
            phones[-1] = phones[-1]._replace(end=segment.end)
    return utterance.replace(text=" ".join(token for token in tokens if token is not None), phones=tuple(phones))
