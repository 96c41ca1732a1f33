"""Archives of corpora, unpacked whole and nowhere but where they should."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath


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
