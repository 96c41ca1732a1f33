"""Files at URLs that fsspec reads and writes, such as s3://, gs://, hdfs://, https:// and memory://.

Sources of rows read the parts of a `RemotePath` that they need. Other readers use a local copy (`local_path`). An
output directory is a `Mirror`: a local directory whose files are uploaded as they are written.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple, Self
from weakref import WeakValueDictionary

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


class RemotePath:
    """A file or directory at a URL, with those methods of `pathlib.Path` that readers of rows use.

    >>> import fsspec
    >>> with fsspec.open("memory://docs/letters.txt", "w") as file:
    ...     _ = file.write("abcdef")
    >>> path = path_of("memory://docs/letters.txt")
    >>> path.suffix, path.stat().st_size, path.exists()
    ('.txt', 6, True)
    >>> with path.open("rb") as file:
    ...     file.seek(2), file.read(3)
    (2, b'cde')
    """

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._system, self._path = _opened(self.url)
        self.name = self._path.rpartition("/")[2]
        self.suffix = PurePosixPath(self.name).suffix

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"RemotePath({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.url == other.url

    def __lt__(self, other: RemotePath) -> bool:
        return self.url < other.url

    def __hash__(self) -> int:
        return hash(self.url)

    def with_suffix(self, suffix: str) -> PurePosixPath:
        return PurePosixPath(self.name).with_suffix(suffix)

    def exists(self) -> bool:
        return bool(self._system.exists(self._path))

    def is_dir(self) -> bool:
        return bool(self._system.isdir(self._path))

    def is_file(self) -> bool:
        return bool(self._system.isfile(self._path))

    def iterdir(self) -> Iterator[Self]:
        """The files and directories in this one."""
        names = (file.rstrip("/").rpartition("/")[2] for file in self._system.ls(self._path, detail=False))
        return (type(self)(f"{self.url}/{name}") for name in names)

    def open(self, mode: str = "rb") -> BufferedReader:
        """The file; what is read is fetched when it is read."""
        file: BufferedReader = self._system.open(self._path, mode)
        return file

    def stat(self) -> SimpleNamespace:
        return SimpleNamespace(st_size=int(self._system.size(self._path)))

    def files(self) -> dict[str, Self]:
        """All files in this directory and below, by their names relative to it."""
        names = sorted(file[len(self._path) :].lstrip("/") for file in self._system.find(self._path))
        return {name: type(self)(f"{self.url}/{name}") for name in names}


AnyPath = Path | RemotePath


def path_of(path: str | os.PathLike[str] | RemotePath) -> AnyPath:
    """A path, or a URL as a `RemotePath`."""
    if isinstance(path, RemotePath):
        return path
    return RemotePath(_checked(path)) if is_url(path) else Path(path)


def local_path(path: str | os.PathLike[str] | RemotePath) -> Path:
    """A path itself; for a URL, that of a local copy of the file or directory, with its name.

    A URL is copied once in each process, and again after it has changed, to a temporary directory that is removed at
    exit.

    >>> import fsspec
    >>> with fsspec.open("memory://docs/numbers.csv", "w") as file:
    ...     _ = file.write("a,b")
    >>> local_path("memory://docs/numbers.csv").name, local_path("memory://docs/numbers.csv").read_text()
    ('numbers.csv', 'a,b')
    """
    if isinstance(path, RemotePath):
        path = path.url
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


class Mirror:
    """A local directory with the files of a directory at a URL, for writers that need a local one.

    `write_atomically` uploads each file that it writes to `path`, in one operation, which object stores make visible
    at once. `finish` removes the files at the URL that were removed locally. There is no lock at the URL: two processes
    must not use it at the same time. The local directory is removed with this object.

    >>> from bochner.storage import write_atomically
    >>> mirror = Mirror("memory://docs/run")
    >>> write_atomically(mirror.path / "config.json", b"{}")
    >>> other = Mirror("memory://docs/run")
    >>> other.path.joinpath("config.json").read_bytes()
    b'{}'
    """

    def __init__(self, url: str) -> None:
        self.url = _checked(url).rstrip("/")
        self._system, self._remote = _opened(self.url)
        self._directory = TemporaryDirectory()
        self.path = self._directory.path / "mirror"
        self.path.mkdir()
        for name in self._names():
            target = self.path / name
            if not target.resolve().is_relative_to(self.path.resolve()):
                raise ValueError(f"{self.url} holds {name}, which is a path out of it.")
            target.parent.mkdir(parents=True, exist_ok=True)
            self._system.get_file(f"{self._remote}/{name}", os.fspath(target))
        _mirrors[self.path] = self

    def upload(self, file: Path) -> None:
        remote = f"{self._remote}/{file.relative_to(self.path).as_posix()}"
        self._system.makedirs(remote.rpartition("/")[0], exist_ok=True)
        self._system.put_file(os.fspath(file), remote)

    def finish(self) -> None:
        """Remove at the URL what was removed here."""
        for name in self._names():
            if not (self.path / name).exists():
                self._system.rm_file(f"{self._remote}/{name}")

    def _names(self) -> list[str]:
        files = self._system.find(self._remote) if self._system.exists(self._remote) else []
        return [file[len(self._remote) :].lstrip("/") for file in files]


_mirrors: WeakValueDictionary[Path, Mirror] = WeakValueDictionary()  # by their local directory


def upload(file: Path) -> None:
    """Upload a file that was written to the directory of a mirror; any other file is left alone."""
    for directory, mirror in list(_mirrors.items()):
        if file.is_relative_to(directory):
            mirror.upload(file)


def refuse_url(name: str, path: str | os.PathLike[str], reason: str) -> None:
    """An error if an argument that must be a local path is a URL."""
    if is_url(path):
        raise ValueError(f"{name} must be a local path {reason}, got {os.fspath(path)}.")


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
