"""The corpus directory: manifest, lexicon and report of skipped utterances, written and read."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from bochner.speech.audio import AudioError, read_samples, recording_length
from bochner.speech.frames import new_directory
from bochner.speech.lexicon import SILENCE, Lexicon, read_lexicon, write_lexicon
from bochner.speech.manifest import MANIFEST, PARTS, Utterance, read_manifest, write_manifest
from bochner.speech.text_files import FilePath, Skipped, read_skipped, summarize, write_skipped
from bochner.storage import write_atomically

LEXICON = "lexicon.txt"
# Zip archives of recordings shrink by a factor of two or so, transcripts by ten; archives that are made to fill a disk
# by a thousand. Small ones do no harm.
MAX_GROWTH, SMALL_BYTES = 100, 64 * 2**20
SILENCE_PHONES = (SILENCE, "sil", "h#", "pau")  # the usual names of phones without speech


def source_directory(source: FilePath, directory: FilePath) -> Path:
    """`source` itself if it is a directory; a zip archive is unpacked into `directory`/source, once."""
    path = Path(source)
    if path.is_dir():
        return path.resolve()
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ValueError(f"source must be a directory or a zip archive, got {source}.")
    target = Path(directory).resolve() / "source"
    if not target.exists():
        unpack(path, target)
    return target


def unpack(archive: FilePath, directory: FilePath) -> None:
    """Unpack a zip archive into the new `directory`, completely or not at all.

    An archive that is damaged, or has a member that is a link or would be written outside of the directory, is refused,
    and so is one that would grow out of all proportion.
    """
    try:
        with zipfile.ZipFile(archive) as members, new_directory(Path(directory)) as partial:
            for member in members.infolist():
                _check_member(archive, member)
            size, packed = sum(member.file_size for member in members.infolist()), Path(archive).stat().st_size
            if size > MAX_GROWTH * packed + SMALL_BYTES:
                raise ValueError(
                    f"{archive}: {packed:,} bytes would be unpacked to {size:,}, more than {MAX_GROWTH} times as many; "
                    "refused. Unpack it yourself if it is what you expect, and give the directory."
                )
            members.extractall(partial)  # no member grows beyond the size that it declares
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"{archive} cannot be unpacked: {error}; it is damaged or truncated.") from error


def _check_member(archive: FilePath, member: zipfile.ZipInfo) -> None:
    name = member.filename.replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or re.match("[A-Za-z]:", name):
        raise ValueError(f"{archive}: member {member.filename!r} would be unpacked outside of its directory; refused.")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ValueError(f"{archive}: member {member.filename!r} is a link; refused.")


def recording_fields(path: Path, directory: FilePath, *, rate: int, channel: int | None = None) -> dict[str, Any]:
    """`audio`, `rate`, `channel` and `duration` of a recording; AudioError if it cannot be used.

    The recording is read to its end. The path is relative to the corpus directory.
    """
    count, own_rate = recording_length(path)
    read_samples(path, rate=own_rate, channel=channel)
    return {"audio": relative(path, directory), "rate": rate, "channel": channel, "duration": count / own_rate}


def recorded_utterance(
    path: Path, directory: FilePath, *, rate: int, channel: int | None = None, **fields: Any
) -> Utterance | Skipped:
    """The utterance of a whole recording, with the given fields; skipped if the recording cannot be used."""
    try:
        return Utterance(**fields, **recording_fields(path, directory, rate=rate, channel=channel))
    except AudioError as error:
        return Skipped(fields["id"], error.reason)


def relative(path: Path, directory: FilePath) -> str:
    return Path(os.path.relpath(path.resolve(), Path(directory).resolve())).as_posix()


@dataclass(frozen=True)
class PreparedCorpus:
    """A corpus directory with its utterances and those that were skipped."""

    directory: Path
    utterances: list[Utterance]
    skipped: list[Skipped]

    @classmethod
    def read(cls, directory: Path) -> PreparedCorpus:
        return cls(directory, read_manifest(directory), read_skipped(directory))

    def __str__(self) -> str:
        """The amount of speech in each part, and the number of skipped utterances by reason."""
        lines = [f"{self.directory}: {len(self.utterances)} utterances, {summarize(self.skipped)}"]
        for part in PARTS:
            members = [utterance for utterance in self.utterances if utterance.part == part]
            speakers = {utterance.speaker for utterance in members}
            hours = sum(utterance.duration for utterance in members) / 3600
            if members:
                lines.append(f"  {part}: {len(members)} utterances, {len(speakers)} speakers, {hours:.3f} h")
        return "\n".join(lines)


def write_corpus(
    directory: FilePath, entries: Iterable[Utterance | Skipped], *, lexicon: Lexicon | None = None
) -> PreparedCorpus:
    """Write lexicon.txt and phones.txt if there is a lexicon, skipped.jsonl, and finally utterances.jsonl."""
    directory, entries = Path(directory), list(entries)
    utterances = [entry for entry in entries if isinstance(entry, Utterance)]
    skipped = [entry for entry in entries if isinstance(entry, Skipped)]
    if not utterances:
        raise ValueError(f"{directory}: no utterance can be used; {summarize(skipped)}.")
    directory.mkdir(parents=True, exist_ok=True)
    if lexicon is not None:
        write_lexicon(directory / LEXICON, lexicon)
        write_atomically(directory / "phones.txt", "".join(f"{phone}\n" for phone in lexicon.phones).encode())
    write_skipped(directory, skipped)
    write_manifest(directory, utterances)  # last: it makes the directory a corpus
    return PreparedCorpus(directory, utterances, skipped)


@dataclass(frozen=True)
class SpeechCorpus:
    """The utterances and pronunciations of a corpus directory."""

    directory: Path
    utterances: list[Utterance]
    lexicon: Lexicon

    @classmethod
    def read(cls, directory: Path) -> SpeechCorpus:
        if not (directory / MANIFEST).exists():
            raise ValueError(
                f"{directory} must be a corpus directory, but has no {MANIFEST}: run `bochner speech prepare`."
            )
        file = directory / LEXICON
        if not file.exists():
            raise ValueError(
                f"{directory} has no {LEXICON}; prepare it with --lexicon, or write lines `word phone phone ...` there."
            )
        lexicon = read_lexicon(file)
        if is_phone_lexicon(lexicon):  # silence is a token then, and is not inserted between words
            lexicon = read_lexicon(file, silence=None)
        return cls(directory, read_manifest(directory), lexicon)

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {utterance.id: utterance.speaker for utterance in self.utterances}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the manifest and the lexicon."""
        content = b"".join((self.directory / name).read_bytes() for name in (MANIFEST, LEXICON))
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def parts(self) -> list[str]:
        present = {utterance.part for utterance in self.utterances}
        return [part for part in PARTS if part in present]

    @property
    def silence_phones(self) -> tuple[str, ...]:
        return tuple(phone for phone in self.lexicon.phones if phone in SILENCE_PHONES)

    @property
    def tokens_are_phones(self) -> bool:
        """Whether each token is a phone, as in TIMIT's phone transcripts."""
        return self.lexicon.silence is None

    @property
    def missing_words(self) -> list[str]:
        """The words of the transcripts that the lexicon lacks."""
        return sorted({token for utterance in self.utterances for token in utterance.tokens} - set(self.lexicon))

    def part(self, name: str) -> list[Utterance]:
        utterances = [utterance for utterance in self.utterances if utterance.part == name]
        if not utterances:
            raise ValueError(f"part must be one of {self.parts}, those of {self.directory}, got {name!r}.")
        return utterances


def is_phone_lexicon(lexicon: Lexicon) -> bool:
    """Whether each word is one phone of the same name."""
    return all(pronunciations == ((word,),) for word, pronunciations in lexicon.entries.items())
