"""The format of a text table: its encoding, separator, quotes and decimal sign, detected from its first lines."""

from __future__ import annotations

import codecs
import csv
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bochner import checks
from bochner.data.compressed import OPENERS, reading_errors
from bochner.remote import AnyPath

logger = logging.getLogger(__name__)

SEPARATORS = (",", ";", "\t", "|")  # the first of equally good ones
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "vertical bar", " ": "space"}
SAMPLE_BYTES = 2**18  # a few thousand lines: enough to count separators and decimal signs
CHECKED_BYTES = 2**26  # of which the encoding is checked, in a fraction of a second
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WITH_POINT, _WITH_COMMA = (
    re.compile(r"[-+]?\d*\.\d+(e[-+]?\d+)?", re.I),
    re.compile(r"[-+]?\d[\d.]*,\d+(e[-+]?\d+)?", re.I),
)


_LIBSVM = re.compile(r"[-+\d.,eE]+(\s+(qid|\d+):\S+)*")


class TextFormat(NamedTuple):
    """How the fields of a text table are written; `first_line` counts the lines before the header."""

    encoding: str = "utf-8"
    sep: str = ","
    decimal: str = "."
    quote: str = '"'
    first_line: int = 0

    def __str__(self) -> str:
        comma = ", decimal commas" if self.decimal == "," else ""
        quotes = ", single quotes" if self.quote == "'" else ""
        return f"separated by {NAMES.get(self.sep, repr(self.sep))}{comma}{quotes}, {self.encoding}"


def detect_format(
    path: Path, *, sep: str | None = None, encoding: str | None = None, decimal: str | None = None
) -> TextFormat:
    r"""The format of a CSV or TSV file, of which the arguments that are given are kept.

    Separators are comma, semicolon, tab and vertical bar: the one that gives most lines as many fields, more than one,
    as the header. A decimal comma is assumed if it is not the separator and more fields are written with it than with a
    point. The encoding is UTF-8 or UTF-16 if the bytes are valid, else Windows-1252. A first line `sep=;`, as Excel
    writes it, is followed and skipped.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory, "a.csv")
    ...     _ = path.write_bytes("größe;ort\n1,75;Köln\n1,6;Ulm\n".encode("cp1252"))
    ...     str(detect_format(path))
    'separated by semicolon, decimal commas, cp1252'
    """
    if sep is not None:
        sep = {"tab": "\t", "\\t": "\t"}.get(sep, sep)
        if len(sep) != 1:
            raise ValueError(f"sep must be a single character or 'tab', got {sep!r}.")
    if decimal is not None:
        checks.one_of("decimal", decimal, [".", ","])
    start = _first_bytes(path, CHECKED_BYTES)
    encoding = _encoding(start) if encoding is None else _known_encoding(encoding)
    sample = start if len(start) < SAMPLE_BYTES else start[:SAMPLE_BYTES].rpartition(b"\n")[0]
    text = sample.decode(encoding, errors="replace").removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    first_line = 0
    if lines and (stated := re.fullmatch(r"sep=(.)\s*", lines[0], re.I)):
        sep, first_line, lines = sep or stated[1], 1, lines[1:]
    quote = (
        "'" if '"' not in text and len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|\r\n])", text, re.M)) > 1 else '"'
    )
    sep = sep or _separator(lines, quote)
    if decimal is None:
        fields = [field.strip() for row in csv.reader(lines[1:], delimiter=sep, quotechar=quote) for field in row]
        commas = 0 if sep == "," else sum(bool(_WITH_COMMA.fullmatch(field)) for field in fields)
        decimal = "," if commas > sum(bool(_WITH_POINT.fullmatch(field)) for field in fields) else "."
    if decimal == sep:
        raise ValueError(f"decimal and sep must differ, got {sep!r} for both.")
    return TextFormat(encoding, sep, decimal, quote, first_line)


@contextmanager
def utf8_file(path: Path, encoding: str) -> Iterator[Path]:
    """The path of a file with the same text in UTF-8, compressed by gzip or bzip2 or not; a temporary one if needed."""
    if encoding == "utf-8" and path.suffix.lower() != ".xz":  # which pyarrow cannot read
        yield path
        return
    opener = OPENERS.get(path.suffix.lower(), Path.open)
    with tempfile.TemporaryDirectory(prefix="bochner-text-") as directory:
        plain = Path(directory, "text")
        decoder = codecs.getincrementaldecoder(encoding)()
        with (
            plain.open("wb") as file,
            reading_errors(f"{path} cannot be decompressed, it is damaged"),
            opener(path, "rb") as raw,
        ):
            while block := raw.read(2**20):
                file.write(_decoded(decoder, block, path, encoding))
            file.write(_decoded(decoder, b"", path, encoding))
        yield plain


def _decoded(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, encoding: str) -> bytes:
    try:
        return decoder.decode(block, final=not block).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} cannot be read as {encoding}: {error}; choose another --encoding.") from error


def _first_bytes(path: AnyPath, count: int) -> bytes:
    opener = OPENERS.get(path.suffix.lower())
    with reading_errors(f"{path} cannot be decompressed, it is damaged"), path.open("rb") as file:
        if opener is None:
            return file.read(count)
        with opener(file) as packed:
            return bytes(packed.read(SAMPLE_BYTES))


def is_libsvm(path: AnyPath) -> bool:
    """Whether the first row of a text file is `label index:value ...`, rather than the header of a table.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sparse, table = Path(directory, "a.txt"), Path(directory, "b.txt")
    ...     _ = sparse.write_text("+1 3:0.5 7:1\\n"), table.write_text("age\\tjob\\n39\\tclerk\\n")
    ...     is_libsvm(sparse), is_libsvm(table)
    (True, False)
    """
    start = _first_bytes(path, SAMPLE_BYTES)
    lines = start.decode(_encoding(start), errors="replace").removeprefix("\ufeff").splitlines()
    rows = (line.partition("#")[0].strip() for line in lines)
    return bool(_LIBSVM.fullmatch(next(filter(None, rows), "0")))


def _encoding(start: bytes) -> str:
    for bom, encoding in BOMS.items():
        if start.startswith(bom):
            return encoding
    if start.count(0) > len(start) // 4:  # every second byte of Latin text
        return "utf-16-le" if start[1:2] == b"\0" else "utf-16-be"
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(start)  # which may end inside a character
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"  # which has a character for every byte


def _known_encoding(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except LookupError as error:
        raise ValueError(
            f"encoding must be one that Python knows, such as 'utf-8' or 'cp1252', got {encoding!r}."
        ) from error
    return "utf-8" if name == "utf-8-sig" else name


def _separator(lines: list[str], quote: str) -> str:
    """The separator that gives the largest share of rows as many fields as the header, then the most fields."""
    best, sep = (0.0, 1), ","
    for candidate in SEPARATORS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=candidate, quotechar=quote) if row]
        except csv.Error:  # a field longer than the limit of the csv module: not the separator
            continue
        if widths and widths[0] > 1:
            share = Counter(widths)[widths[0]] / len(widths)
            best, sep = max((best, sep), ((round(share, 2), widths[0]), candidate), key=lambda pair: pair[0])
    return sep
