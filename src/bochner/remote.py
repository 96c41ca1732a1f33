"""Files at URLs that fsspec reads and writes, such as s3://, gs://, hdfs://, https:// and memory://."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bochner.temporary import TemporaryDirectory

# A drive of Windows is one letter. pathlib writes s3://bucket as s3:/bucket.
_URL = re.compile(r"([a-z][a-z0-9+.-]+)(?:::|:/)", re.I)


class _Copy(NamedTuple):
    directory: TemporaryDirectory
    path: Path
    version: list[str]


_copies: dict[str, _Copy] = {}


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a URL.

    >>> is_url("s3://bucket/people.parquet"), is_url("C:/people.csv"), is_url("people.csv")
    (True, False, False)
    """
    return bool(_URL.match(os.fspath(path)))


def local_path(path: str | os.PathLike[str]) -> Path:
    """A path itself; for a URL, that of a local copy of the file or directory, with its name.

    A URL is copied once in each process, and again after it has changed, to a temporary directory that is removed at
    exit.

    >>> import fsspec
    >>> with fsspec.open("memory://docs/numbers.csv", "w") as file:
    ...     _ = file.write("a,b")
    >>> local_path("memory://docs/numbers.csv").name, local_path("memory://docs/numbers.csv").read_text()
    ('numbers.csv', 'a,b')
    """
    if not is_url(path):
        return Path(path)
    url = _checked(path)
    system, remote = _opened(url)
    if not system.exists(remote):
        raise FileNotFoundError(f"{url} does not exist.")
    files = system.find(remote) if system.isdir(remote) else [remote]
    version = [system.ukey(file) for file in files]
    if url not in _copies or _copies[url].version != version:
        directory = TemporaryDirectory()
        copy = directory.path / remote.rstrip("/").rpartition("/")[2]
        for file in files:
            target = copy.joinpath(file.removeprefix(remote).lstrip("/")) if system.isdir(remote) else copy
            if not target.resolve().is_relative_to(directory.path.resolve()):
                raise ValueError(f"{url} holds {file}, which is a path out of it.")
            target.parent.mkdir(parents=True, exist_ok=True)
            system.get_file(file, os.fspath(target))
        _copies[url] = _Copy(directory, copy, version)
    return _copies[url].path


@contextmanager
def written(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A local path to write to: the path itself; for a URL, a temporary one whose file is copied to it at the end."""
    if not is_url(path):
        yield Path(path)
        return
    system, remote = _opened(_checked(path))
    directory = TemporaryDirectory()
    try:
        file = directory.path / remote.rpartition("/")[2]
        yield file
        system.put_file(os.fspath(file), remote)
    finally:
        directory.remove()


def refuse_url(name: str, path: str | os.PathLike[str]) -> None:
    """An error if an argument that must be a local path is a URL."""
    if is_url(path):
        raise ValueError(f"{name} must be a local path, got {os.fspath(path)}; copy its files there afterwards.")


def _checked(path: str | os.PathLike[str]) -> str:
    url = os.fspath(path)
    if isinstance(path, Path):  # which has lost a slash
        raise TypeError(f"a URL must be text, not a pathlib.Path, got {url}.")
    return url


def _opened(url: str) -> tuple[Any, str]:
    import fsspec

    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise ImportError(f"{url} needs a package: {error}.") from error
    except ValueError as error:
        raise ValueError(f"{url} cannot be opened: {error}.") from error
