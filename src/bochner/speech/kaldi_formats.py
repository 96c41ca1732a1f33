"""Kaldi's file formats: archives of frames and alignments, trees, transition models and phone lists."""

from __future__ import annotations

import gzip
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.runtime import imported
from bochner.speech.text_files import FilePath, numbered_lines

BINARY = b"\0B"  # how a binary file of Kaldi's begins
TEXT = re.compile(rb"\s*\[")
PART_BYTES = 2**20
MAX_KEY_BYTES = 4096


class Cursor:
    """A position in the bytes of a Kaldi file; sizes in the file are checked against its length.

    >>> cursor = Cursor(b"<Some> " + struct.pack("<bi", 4, 7))
    >>> cursor.token(), cursor.integer()
    ('<Some>', 7)
    """

    def __init__(self, content: bytes, place: int = 0) -> None:
        self.content, self.place = content, place

    def token(self) -> str:
        end = self.content.index(b" ", self.place)
        start, self.place = self.place, end + 1
        return self.content[start:end].decode("ascii")

    def expect(self, token: str) -> None:
        if (actual := self.token()) != token:
            raise ValueError(f"expected {token}, got {actual[:20]!r}")

    def integer(self) -> int:
        return int(self._sized("<bi", 5)[1])

    def unsigned(self) -> int:
        return int(self._sized("<bI", 5)[1])

    def real(self) -> float:
        """A float32 or float64, depending on the byte before it."""
        wide = self.content[self.place] == 8
        return float(self._sized("<bd", 9)[1] if wide else self._sized("<bf", 5)[1])

    def integers(self) -> list[int]:
        _, count = self._sized("<bi", 5)
        return list(self._sized(f"<{count}i", 4 * count))

    def vector(self) -> Array:
        dtype = np.dtype({"FV": "<f4", "DV": "<f8"}[self.token()])
        count = self.integer()
        start, self.place = self.place, self.place + count * dtype.itemsize
        return np.frombuffer(self.content[start : self.place], dtype=dtype).astype(np.float64)

    def _sized(self, layout: str, size: int) -> tuple[Any, ...]:
        start, self.place = self.place, self.place + size
        return struct.unpack(layout, self.content[start : self.place])


def check_tree(content: bytes) -> None:
    """Raise an error unless `content` is a ContextDependency whose pdfs are below the number of leaves; O(length).

    The format: `CE pdf` is a leaf, `SE key values { yes no }` a question, `TE key size ( ... )` a table of subtrees,
    some of them `NULL`.
    """
    cursor = Cursor(content)
    try:
        cursor.expect("ContextDependency")
        width, central = cursor.integer(), cursor.integer()
        cursor.expect("ToPdf")
        pdfs = list(_leaves(cursor))
        cursor.expect("EndContextDependency")
    except (ValueError, struct.error, RecursionError) as error:
        raise ValueError(f"not a tree of Kaldi's: {error}") from error
    if not (0 <= central < width and pdfs and min(pdfs) >= 0 and max(pdfs) < len(pdfs)):
        raise ValueError(f"a tree must number its pdfs from 0, got {sorted(pdfs)[-3:]} in {len(pdfs)} leaves.")


def _leaves(cursor: Cursor) -> Iterator[int]:
    """The pdfs of the subtree that begins here."""
    match kind := cursor.token():
        case "CE":
            yield cursor.integer()
        case "SE":
            cursor.integer()
            cursor.integers()
            yield from _within(cursor, "{}", 2)
        case "TE":
            cursor.integer()
            yield from _within(cursor, "()", cursor.unsigned())
        case "NULL":
            return
        case _:
            raise ValueError(f"expected CE, SE, TE or NULL, got {kind[:20]!r}")


def _within(cursor: Cursor, brackets: str, count: int) -> Iterator[int]:
    cursor.expect(brackets[0])
    for _ in range(count):
        yield from _leaves(cursor)
    cursor.expect(brackets[1])


class Bytes(Protocol):
    """An open file, compressed or not."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


def read_matrix(place: str | Path) -> Array:
    """The matrix at "file.ark:offset", binary, compressed or text: float32 [T, d].

    Only Kaldi's own formats: kaldiio alone would also unpickle, and run a path that ends in | as a command.
    """
    matio = imported("kaldiio.matio")
    path, colon, offset = str(place).rpartition(":")
    if not colon or not offset.isdecimal():
        raise ValueError(f"frames must be at file.ark:offset, got {place}.")
    with Path(path).open("rb") as file:
        file.seek(int(offset))
        head = file.read(16)
        file.seek(int(offset))
        if not (head.startswith(BINARY) or TEXT.match(head)):
            raise ValueError(f"{place} does not hold a matrix: it begins with {head[:8]!r}.")
        try:
            read = matio.read_matrix_or_vector if head.startswith(BINARY) else matio.read_ascii_mat
            matrix: Array = np.asarray(read(file), np.float32)
        except Exception as error:  # kaldiio asserts and unpacks what it reads
            raise ValueError(f"{place} cannot be read as a matrix: {error!r}.") from error
    if matrix.ndim != 2:
        raise ValueError(f"{place} must hold a matrix [T, d], got shape {list(matrix.shape)}.")
    return matrix


def read_integer_vectors(file: Bytes) -> Iterator[tuple[str, Array]]:
    """(key, int32 [T]) of an archive of integer vectors, binary or text, such as Kaldi's alignments.

    >>> import io
    >>> [(name, ids.tolist()) for name, ids in read_integer_vectors(io.BytesIO(b"ann-1 3 4 4\\nann-2 5\\n"))]
    [('ann-1', [3, 4, 4]), ('ann-2', [5])]
    """
    while (key := _key(file)) is not None:
        first = file.read(1)
        yield key, _binary_integers(file, key) if first == BINARY[:1] else _text_integers(first, file, key)


def _key(file: Bytes) -> str | None:
    """The bytes up to the next space as text, or None at the end."""
    key = b""
    while (byte := file.read(1)) not in (b" ", b""):
        key += byte
        if len(key) > MAX_KEY_BYTES:
            raise ValueError(f"no archive: {key[:20]!r} continues without a space.")
    if not key.strip():
        return None
    if not byte:
        raise ValueError(f"the archive ends after {key[:20]!r}.")
    return key.decode("utf-8").strip()


def _binary_integers(file: Bytes, key: str) -> Array:
    mark, size, count = struct.unpack("<cbi", _exactly(file, 6, key))
    if mark != BINARY[1:] or size != 4 or count < 0:
        raise ValueError(f"{key} is not a vector of 32-bit integers.")
    rows = np.frombuffer(_exactly(file, 5 * count, key), dtype=[("size", "i1"), ("value", "<i4")])
    if (rows["size"] != 4).any():
        raise ValueError(f"{key} is not a vector of 32-bit integers.")
    return rows["value"].astype(np.int32)


def _text_integers(first: bytes, file: Bytes, key: str) -> Array:
    line = first if first == b"\n" else first + file.readline()
    try:
        return np.array([int(number) for number in line.split()], dtype=np.int32)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{key} is not a vector of integers: {line[:20]!r}.") from error


def _exactly(file: Bytes, size: int, key: str) -> bytes:
    """The next `size` bytes, read in parts, since a wrong size must not allocate memory."""
    content = bytearray()
    while len(content) < size:
        part = file.read(min(size - len(content), PART_BYTES))
        if not part:
            raise ValueError(f"the archive ends within {key}.")
        content += part
    return bytes(content)


def read_kaldi_alignments(directory: FilePath) -> Iterator[tuple[str, Array]]:
    """(utterance id, transition ids [T]) from every ali.*.gz (or ali.*.ark) of a directory."""
    files = sorted([*Path(directory).glob("ali.*.gz"), *Path(directory).glob("ali.*.ark")])
    if not files:
        raise ValueError(f"{directory} must hold alignments, ali.*.gz or ali.*.ark, got none.")
    for path in files:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            try:
                yield from read_integer_vectors(file)
            except (ValueError, EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{path} cannot be read as an archive of alignments: {error}") from error


def _read_phones(path: Path) -> tuple[str, ...]:
    """The names of phones 1..n; <eps> and the disambiguation symbols #0, #1, ... are left out."""
    names: dict[int, str] = {}
    for line, text in numbered_lines(path):
        try:
            name, number = text.split()
            if int(number) != 0 and not name.startswith("#"):
                names[int(number)] = name
        except ValueError as error:
            raise ValueError(f"{path}, line {line}, must be `phone number`, got {text!r}.") from error
    if sorted(names) != list(range(1, len(names) + 1)):
        raise ValueError(f"{path} must number its phones from 1 without gaps, got {sorted(names)[:10]} ...")
    return tuple(names[number] for number in sorted(names))


def _read_transition_model(content: bytes) -> tuple[str, list[tuple[int, ...]], Array]:
    """The topology as text, the (phone, state, pdf, pdf of the self-loop) of each transition-state, and log p."""
    if not content.startswith(BINARY):
        raise ValueError("final.mdl is not binary; make it so with `gmm-copy --binary=true`")
    cursor = Cursor(content, len(BINARY))
    cursor.expect("<TransitionModel>")
    topology = _read_topology(cursor)
    kind = cursor.token()
    if kind not in (widths := {"<Triples>": 3, "<Tuples>": 4}):
        raise ValueError(f"expected <Triples> or <Tuples>, got {kind}")
    width = widths[kind]
    rows = [tuple(cursor.integer() for _ in range(width)) for _ in range(cursor.integer())]
    cursor.expect(kind.replace("<", "</"))
    cursor.expect("<LogProbs>")
    return topology, [(*row, row[-1])[:4] for row in rows], cursor.vector()


def _read_topology(cursor: Cursor) -> str:
    cursor.expect("<Topology>")
    phones, entry_of = cursor.integers(), cursor.integers()
    if (count := cursor.integer()) < 0:
        raise ValueError("topologies whose self-loops have pdfs of their own (chain models) cannot be read")
    lines = ["<Topology>"]
    for entry in range(count):
        names = " ".join(str(phone) for phone in phones if entry_of[phone] == entry)
        states = [_read_state(cursor, number) for number in range(cursor.integer())]
        lines += ["<TopologyEntry>", f"<ForPhones> {names} </ForPhones>", *states, "</TopologyEntry>"]
    cursor.expect("</Topology>")
    return "\n".join([*lines, "</Topology>"])


def _read_state(cursor: Cursor, number: int) -> str:
    pdf_class = cursor.integer()
    moves = [(cursor.integer(), cursor.real()) for _ in range(cursor.integer())]
    transitions = " ".join(f"<Transition> {to} {probability:.8g}" for to, probability in moves)
    emits = "" if pdf_class < 0 else f"<PdfClass> {pdf_class} "
    return f"<State> {number} {emits}{transitions} </State>"
