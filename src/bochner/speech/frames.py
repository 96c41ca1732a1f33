"""Frames on disk: one array [T, ...] for each utterance, written once and then mapped into memory.

A store is a directory of parts of some megabytes. `00000000.npy` holds the concatenated frames of many utterances,
`00000000.jsonl` their ids and lengths, `store.json` the shape and type of one frame and how they were computed.
"""

from __future__ import annotations

import io
import json
import secrets
import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bochner.data.npy import DAMAGE
from bochner.speech.text_files import FilePath, numbered_lines
from bochner.stages import check_inputs
from bochner.storage import write_atomically

Array = np.ndarray[Any, Any]  # the type of all NumPy arrays in this package
VERSION = 1
PART_BYTES = 8 * 2**20
SUMMARY = "store.json"
INDEX = "[0-9]" * 8 + ".jsonl"


def write_frames(
    directory: FilePath, arrays: Iterable[tuple[str, Array]], *, about: Mapping[str, Any] | None = None
) -> FrameStore:
    """Write (utterance id, array [T, ...]) pairs as a new store, completely or, after an error, not at all.

    Arrays are float32 [T, d] for frames or integers [T] for labels of frames, all of the same shape and type. `about`
    is stored as JSON: how they were computed. O(8 MiB) memory, whatever their number.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     store = write_frames(directory + "/frames", [("anna-1", np.zeros((200, 13), "float32"))])
    ...     store.ids, store.dim, store["anna-1"].shape
    (('anna-1',), 13, (200, 13))
    """
    final = check_new(Path(directory))
    with new_directory(final) as partial:
        writer = FrameWriter(partial, about=about)
        for name, array in arrays:
            writer.add(name, array)
        writer.close(final)
    return FrameStore(final)


@contextmanager
def new_directory(final: Path) -> Iterator[Path]:
    """A temporary directory beside `final` that becomes `final` at the end, or is removed after an error."""
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = final.with_name(f"{final.name}.{secrets.token_hex(8)}.part")
    partial.mkdir()
    try:
        yield partial
        partial.replace(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


class FrameStore(Mapping[str, Array]):
    """The store in `directory`: utterance id -> array [T, ...], read-only and memory-mapped.

    `ids` are in the order of writing, `sizes` maps ids to T, `shape` and `dtype` are those of one frame, `dim` is the d
    of [T, d], and `about` is what the writer stored. A store can be sent to other processes, which map the same files.
    """

    def __init__(self, directory: FilePath) -> None:
        self.directory = Path(directory)
        if not (self.directory / SUMMARY).exists():
            raise ValueError(f"{directory} must be a directory of frames; it has no {SUMMARY}.")
        summary = _read_summary(self.directory)
        self.shape, self.dtype, self.about = tuple(summary["shape"]), np.dtype(summary["dtype"]), summary["about"]
        self._places = dict(_places(self.directory))
        self._parts: dict[str, Array] = {}
        self._checked: set[str] = set()  # utterances whose checksum was compared, once by each object

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._places)

    @property
    def sizes(self) -> dict[str, int]:
        return {name: place.stop - place.start for name, place in self._places.items()}

    @property
    def num_frames(self) -> int:
        return sum(self.sizes.values())

    @property
    def dim(self) -> int:
        if len(self.shape) != 1:
            raise ValueError(f"{self.directory} has no dim: its arrays are [T{', ' * len(self.shape)}...], not [T, d].")
        return self.shape[0]

    def __getitem__(self, name: str) -> Array:
        try:
            place = self._places[name]
        except KeyError:
            raise KeyError(f"{self.directory} has no utterance {name!r}, only {len(self)} others.") from None
        if place.part not in self._parts:
            self._parts[place.part] = _map(self.directory / f"{place.part}.npy", self.shape, self.dtype)
        if place.stop > len(self._parts[place.part]):
            raise ValueError(f"{self.directory / place.part}.npy ends before the frames of {name!r}.")
        frames = self._parts[place.part][place.start : place.stop]
        if name not in self._checked:
            if place.crc32 is not None and place.crc32 != _crc32(frames):
                raise ValueError(
                    f"{self.directory / place.part}.npy is damaged: the frames of {name!r} have another checksum; "
                    f"delete {self.directory} to compute them again."
                )
            self._checked.add(name)
        return frames

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __reduce__(self) -> tuple[type[FrameStore], tuple[Path]]:
        return FrameStore, (self.directory,)  # the path travels, not the frames

    def __repr__(self) -> str:
        return f"FrameStore({str(self.directory)!r}, {len(self)} utterances, {self.num_frames} frames)"


class FrameWriter:
    """Arrays added to `directory` part by part; the complete parts of an interrupted writer are kept, see `ids`.

    `finish` moves the directory to its final place.
    """

    def __init__(self, directory: FilePath, *, about: Mapping[str, Any] | None = None) -> None:
        self.directory, self._about = Path(directory), json.loads(json.dumps(dict(about or {})))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._kind = self._resumed()
        self.ids = {name for name, _ in _places(self.directory)}
        self._number = len(list(self.directory.glob(INDEX)))
        self._held: list[tuple[str, Array]] = []

    def add(self, name: str, array: Array) -> None:
        """`array` [T, ...] of the utterance `name`; it is copied."""
        array = _checked(name, array)
        kind = (array.shape[1:], array.dtype)
        if self._kind is None:
            self._kind = kind
            self._write_summary()
        if kind != self._kind:
            raise ValueError(f"the array of {name!r} must be like those before it, {self._kind}, got {kind}.")
        if name in self.ids:
            raise ValueError(f"utterance ids must differ, got {name!r} twice.")
        self.ids.add(name)
        self._held.append((name, array))
        if sum(held.nbytes for _, held in self._held) >= PART_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the arrays added so far as a part, which an interruption does not lose."""
        if not self._held:
            return
        part = f"{self._number:08d}"
        content = io.BytesIO()
        np.save(content, np.concatenate([array for _, array in self._held]), allow_pickle=False)
        write_atomically(self.directory / f"{part}.npy", content.getvalue())
        rows = ({"id": name, "frames": len(array), "crc32": _crc32(array)} for name, array in self._held)
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        write_atomically(self.directory / f"{part}.jsonl", lines.encode())  # last: marks the part as complete
        self._number, self._held = self._number + 1, []

    def close(self, final: FilePath) -> None:
        """Write the last part; `final` names the store in errors."""
        self.flush()
        if self._kind is None:
            raise ValueError(f"arrays must hold at least one utterance for {final}, got none.")

    def finish(self, final: FilePath) -> FrameStore:
        """Write the last part and move the directory to `final`."""
        self.close(final)
        return FrameStore(self.directory.replace(check_new(Path(final))))

    def _resumed(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        if not (self.directory / SUMMARY).exists():
            return None
        summary = _read_summary(self.directory)
        check_inputs(self.directory / SUMMARY, summary["about"], self._about)
        return tuple(summary["shape"]), np.dtype(summary["dtype"])

    def _write_summary(self) -> None:
        assert self._kind is not None
        shape, dtype = self._kind
        summary = {"version": VERSION, "shape": shape, "dtype": dtype.str, "about": self._about}
        write_atomically(self.directory / SUMMARY, json.dumps(summary).encode())


class _Place(NamedTuple):
    """Rows start <= i < stop of the part of that name, and their CRC-32 where the writer stored it."""

    part: str
    start: int
    stop: int
    crc32: int | None = None


def _places(directory: Path) -> Iterator[tuple[str, _Place]]:
    for path in sorted(directory.glob(INDEX)):
        start = 0
        for number, line in numbered_lines(path):
            try:
                row = json.loads(line)
                name, size = str(row["id"]), int(row["frames"])
                crc32 = int(row["crc32"]) if "crc32" in row else None
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}, is not the id and size of frames: {error!r}.") from error
            yield name, _Place(path.stem, start, start + size, crc32)
            start += size


def _crc32(array: Array) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data)


def _read_summary(directory: Path) -> dict[str, Any]:
    path = directory / SUMMARY
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        if summary["version"] != VERSION:
            raise ValueError(f"version {summary['version']!r}, this bochner reads {VERSION}")
        return {"shape": summary["shape"], "dtype": summary["dtype"], "about": dict(summary["about"])}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as the summary of a store of frames: {error!r}.") from error


def _map(path: Path, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    try:
        part: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read as an array of frames: {error}") from error
    if part.shape[1:] != tuple(shape) or part.dtype != dtype:
        raise ValueError(f"{path} must hold {dtype} [T, *{list(shape)}], got {part.dtype} {list(part.shape)}.")
    return part


def _checked(name: str, array: Array) -> Array:
    if not isinstance(name, str) or not name or name.split() != [name]:
        raise ValueError(f"an utterance id must be a word without spaces, got {name!r}.")
    array = np.array(array)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    if array.dtype.kind not in "iuf" or array.ndim == 0:
        raise ValueError(f"the array of {name!r} must hold numbers [T, ...], got {array.dtype} {list(array.shape)}.")
    if not len(array):
        raise ValueError(f"the array of {name!r} must have at least one frame, got none; leave the utterance out.")
    if not np.isfinite(array).all():
        raise ValueError(f"the array of {name!r} must be finite, but holds NaN or infinity.")
    return array


def check_new(directory: Path) -> Path:
    """`directory`, checked to be new or empty; its parent is created."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ValueError(f"directory must be new or empty, got {directory}, which is not empty.")
    directory.parent.mkdir(parents=True, exist_ok=True)
    return directory


def check_frames(frames: Array) -> Array:
    """`frames`, checked to be [T, d] with T and d at least 1."""
    frames = np.asarray(frames)
    if frames.ndim != 2 or 0 in frames.shape:
        raise ValueError(f"frames must have shape [T, d] with T and d at least 1, got {list(frames.shape)}.")
    return frames
