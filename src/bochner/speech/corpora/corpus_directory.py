"""The corpus directory: manifest, lexicon and report of skipped utterances, written and read."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from bochner.speech.audio import read_samples, recording_length
from bochner.speech.lexicon import SILENCE, Lexicon, read_lexicon, write_lexicon
from bochner.speech.manifest import MANIFEST, PARTS, Utterance, read_manifest, write_manifest
from bochner.speech.text_files import Skipped, summarize, write_skipped
from bochner.storage import write_atomically


def source_folder(source: str | os.PathLike[str], directory: str | os.PathLike[str]) -> Path:
    """`source` itself when it is a folder; a zip archive is unpacked into `directory`/source, once."""
    path = Path(source)
    if path.is_dir():
        return path.resolve()
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise ValueError(f"source must be a folder or a zip archive, got {source}.")
    folder = Path(directory).resolve() / "source"
    if not folder.exists():
        unpack(path, folder)
    return folder


def unpack(archive: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Unpack a zip archive into the new `folder`, whole or not at all.

    An archive that is damaged, or has a member that would land outside of the folder or is a link, is refused before
    anything appears under that name.
    """
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = folder.with_name(f"{folder.name}.{secrets.token_hex(8)}.part")
    try:
        with zipfile.ZipFile(archive) as members:
            for member in members.infolist():
                _check_member(archive, member)
            members.extractall(beside)
        beside.rename(folder)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ValueError(f"{archive} cannot be unpacked: {error}; it is damaged or cut short.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _check_member(archive: str | os.PathLike[str], member: zipfile.ZipInfo) -> None:
    name = member.filename.replace("\\", "/")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or re.match("[A-Za-z]:", name):
        raise ValueError(f"{archive}: member {member.filename!r} would be unpacked outside of its folder; refused.")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ValueError(f"{archive}: member {member.filename!r} is a link; refused.")


def recording_fields(path: Path, directory: str | os.PathLike[str], *, rate: int | None = None) -> dict[str, Any]:
    """`audio`, `rate` and `duration` of a whole recording, read to its end; AudioError where it cannot be used.

    With `rate` a recording at another is refused. The path is relative to the corpus directory.
    """
    rate = recording_length(path)[1] if rate is None else rate
    samples = read_samples(path, rate=rate)
    return {"audio": relative(path, directory), "rate": rate, "duration": len(samples) / rate}


def relative(path: Path, directory: str | os.PathLike[str]) -> str:
    return Path(os.path.relpath(path.resolve(), Path(directory).resolve())).as_posix()


@dataclass(frozen=True)
class Prepared:
    """A corpus directory and what is in it."""

    directory: Path
    utterances: list[Utterance]
    skipped: list[Skipped]

    def __str__(self) -> str:
        """How much speech each part has, and what was skipped."""
        lines = [f"{self.directory}: {len(self.utterances)} utterances, {summarize(self.skipped)}"]
        counts = Counter(said.part for said in self.utterances)
        for part in (part for part in PARTS if counts[part]):
            members = [said for said in self.utterances if said.part == part]
            hours = sum(said.duration for said in members) / 3600
            lines.append(
                f"  {part}: {counts[part]} utterances, {len({m.speaker for m in members})} speakers, {hours:.3f} h"
            )
        return "\n".join(lines)


def finish(
    directory: str | os.PathLike[str],
    found: Iterable[Utterance | Skipped],
    *,
    lexicon: Lexicon | None = None,
) -> Prepared:
    """Write lexicon.txt and phones.txt where there is a lexicon, skipped.jsonl, and last utterances.jsonl."""
    folder, everything = Path(directory), list(found)
    said = [one for one in everything if isinstance(one, Utterance)]
    left_out = [one for one in everything if isinstance(one, Skipped)]
    if not said:
        raise ValueError(f"{folder}: no utterance can be used; {summarize(left_out)}.")
    folder.mkdir(parents=True, exist_ok=True)
    if lexicon is not None:
        write_lexicon(folder / "lexicon.txt", lexicon)
        write_atomically(folder / "phones.txt", "".join(f"{phone}\n" for phone in lexicon.phones).encode())
    write_skipped(folder, left_out)
    write_manifest(folder, said)
    return Prepared(folder, said, left_out)


LEXICON = "lexicon.txt"
PAUSES = (SILENCE, "sil", "h#", "pau")  # phones that stand for no speech, by their usual names


@dataclass(frozen=True)
class SpeechCorpus:
    """The utterances and pronunciations of a directory that `bochner speech prepare` made."""

    folder: Path
    utterances: list[Utterance]
    lexicon: Lexicon

    @classmethod
    def read(cls, folder: Path) -> SpeechCorpus:
        if not (folder / MANIFEST).exists():
            raise ValueError(
                f"{folder} must be a corpus directory, but has no {MANIFEST}: run `bochner speech prepare`."
            )
        if not (folder / LEXICON).exists():
            raise ValueError(
                f"{folder} has no {LEXICON}; prepare it with --lexicon, or write lines `word phone phone ...` there."
            )
        return cls(folder, read_manifest(folder), _lexicon(folder / LEXICON))

    @cached_property
    def speaker_of(self) -> dict[str, str]:
        return {said.id: said.speaker for said in self.utterances}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what is said and how: other transcripts or pronunciations are another corpus."""
        content = b"".join((self.folder / name).read_bytes() for name in (MANIFEST, LEXICON))
        return hashlib.sha256(content).hexdigest()[:16]

    @property
    def parts(self) -> list[str]:
        there = {said.part for said in self.utterances}
        return [part for part in PARTS if part in there]

    @property
    def pauses(self) -> tuple[str, ...]:
        return tuple(phone for phone in self.lexicon.phones if phone in PAUSES)

    @property
    def says_phones(self) -> bool:
        """Whether the tokens are phones, each of which sounds like itself."""
        return self.lexicon.silence is None

    def part(self, name: str) -> list[Utterance]:
        found = [said for said in self.utterances if said.part == name]
        if not found:
            raise ValueError(f"part must be one of {self.parts}, those of {self.folder}, got {name!r}.")
        return found


def _lexicon(path: Path) -> Lexicon:
    """Where every word is a phone, silence is one of them, and none is put between."""
    lexicon = read_lexicon(path)
    return read_lexicon(path, silence=None) if spells_itself(lexicon) else lexicon


def spells_itself(lexicon: Lexicon) -> bool:
    """Whether each word is one phone of the same name, as in TIMIT's phone transcripts."""
    return all(pronunciations == ((word,),) for word, pronunciations in lexicon.entries.items())


def missing_words(utterances: Sequence[Utterance], lexicon: Lexicon) -> list[str]:
    return sorted({token for said in utterances for token in said.tokens if token not in lexicon})
