"""Read a table of any file format into memory, as a pyarrow Table."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bochner.data.columns import pyarrow, reading
from bochner.data.compressed import OPENERS, inner_suffix, is_compressed
from bochner.data.labels import abbreviated
from bochner.data.text_format import TextFormat, detect_format, is_libsvm, utf8_file
from bochner.remote import AnyPath, RemotePath, local_path

logger = logging.getLogger(__name__)

CSV, JSON = (".csv", ".tsv", ".tab"), (".jsonl", ".ndjson", ".json")
ARROW, PARQUET = (".arrow", ".feather"), (".parquet",)
TABLES = (*CSV, *JSON, *ARROW, *PARQUET)
# Text of a missing value, besides those of pyarrow: of R, SQL, pandas, Python and the UCI repository.
MISSING_TEXT = ("None", "none", "NONE", "<NA>", "NaT", "?", "-")
# Text tables hold about as many bytes in memory as on disk; Parquet and gzip compress tables to about an eighth.
COMPRESSION = 8
MEMORY_SHARE = 4  # a table in memory is encoded and transformed: a quarter of the memory leaves room for that
# A column of text with at least this share of numbers is probably meant to be numeric.
MOSTLY = 0.9
_NUMBER = r"^\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*$"
_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0|")  # of pandas, in Parquet and in CSV


def read_table(
    path: str | os.PathLike[str] | RemotePath,
    *,
    kinds: Mapping[str, str] | None = None,
    categories: Sequence[str] = (),
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Any:
    """A CSV, TSV, JSON Lines, Parquet or Arrow file, or all of a directory, as a pyarrow Table in memory.

    Text tables are read as `detect_format` finds them unless `sep`, `encoding` or `decimal` is given. Types are those
    that all values of a column allow: numbers, booleans, dates, else text. Empty fields, NA, NaN, NULL, None and ? are
    missing. `kinds` are those of a `TableEncoder`, by column: categories stay text, however they look, and so do the
    columns of `categories`: codes such as 00501. Index columns of pandas and empty columns without a name are left out,
    with a message unless there are `kinds`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Path(directory, "a.csv").write_text("who;born;size\\nAnn;2001-02-03;1,5\\nBob;;2,25\\n")
    ...     read_table(directory + "/a.csv").to_pylist()[1]
    {'who': 'Bob', 'born': None, 'size': 2.25}
    """
    path = local_path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    options = {"sep": sep, "encoding": encoding, "decimal": decimal}
    files = table_files(path)
    if not files:
        raise ValueError(f"{path} must be a table, {list(TABLES)}, or a directory of them.")
    tables = [_read_file(local_path(file), kinds, categories, options) for file in files]
    try:
        table = pyarrow().concat_tables(tables, promote_options="default") if len(tables) > 1 else tables[0]
    except pyarrow().ArrowException as error:
        raise ValueError(f"the files in {path} must have the same columns: {error}") from error
    if not len(table):
        raise ValueError(f"{path} must have at least one row, got none.")
    table = without_index(table, None if kinds is not None else path)
    for name in categories:
        if name not in table.column_names:
            raise ValueError(f"{path} has no column {name!r}; its columns are {abbreviated(table.column_names)}.")
        place = table.column_names.index(name)
        if pyarrow("types").is_dictionary(table[name].type):
            continue
        table = table.set_column(place, name, table[name].cast("string"))
    return table


def table_files(path: AnyPath) -> list[AnyPath]:
    """The table itself, or the Parquet and Arrow files of a directory in order of their names; [] for other files."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix.lower() in (*PARQUET, *ARROW))
    suffix = table_suffix(path)
    return [path] if suffix in TABLES and (suffix in (*CSV, *JSON) or not is_compressed(path)) else []


def table_suffix(path: AnyPath) -> str:
    """The suffix of the decompressed file; ".csv" for a .txt that is not LIBSVM text, as Excel exports tables."""
    suffix = inner_suffix(path)
    return ".csv" if suffix == ".txt" and path.is_file() and not is_libsvm(path) else suffix


def fits_memory(path: AnyPath, budget: int | None) -> bool:
    """Whether a table is small enough to be read at once: a quarter of `budget`, or of the memory of this machine."""
    size = sum(
        file.stat().st_size * (1 if file.suffix.lower() in (*CSV, *JSON, ".txt") else COMPRESSION)
        for file in table_files(path)
    )
    if budget is None:
        budget = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**33
    return size <= budget // MEMORY_SHARE


def without_index(table: Any, path: Path | None) -> Any:
    """The table without the index of pandas and without empty columns that have no name; names without spaces.

    `path` is that of the message; None logs nothing.
    """
    names = [name.strip() for name in table.column_names]
    dropped = [j for j, name in enumerate(names) if is_index(j, name)]
    dropped += [
        j for j, name in enumerate(names) if not name and j not in dropped and table[j].null_count == len(table)
    ]
    index = [f"column {names[j]!r}" if names[j] else "the first column" for j in dropped if j == 0 or names[j]]
    if index and path is not None:
        logger.warning("%s: %s is an index of rows, and is left out.", path, ", ".join(index))
    kept = [j for j in range(len(names)) if j not in dropped]
    return table.select(kept).rename_columns([names[j] for j in kept])


def is_index(position: int, name: str) -> bool:
    """Whether a column holds the index of a pandas frame, by its name."""
    return bool(_INDEX.fullmatch(name)) and (position == 0 or name.startswith("__"))


def column_kind(kind: Any) -> str:
    """A description of the type of an Arrow column."""
    types = pyarrow("types")
    if types.is_boolean(kind):
        return "boolean"
    if types.is_temporal(kind):
        return "date or time"
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return "numeric" if is_number else "text"


def _read_file(
    path: Path, kinds: Mapping[str, str] | None, categories: Sequence[str], options: dict[str, str | None]
) -> Any:
    suffix = table_suffix(path)
    with reading(path):
        if suffix in PARQUET:
            return pyarrow("parquet").read_table(path, partitioning=None)
        if suffix in ARROW:
            return pyarrow("feather").read_table(path, memory_map=False)
        if suffix in JSON:
            return _read_json(path)
    return _read_csv(path, kinds, categories, detect_format(path, **options))


def _read_csv(path: Path, kinds: Mapping[str, str] | None, categories: Sequence[str], form: TextFormat) -> Any:
    if form != TextFormat():
        logger.info("%s: %s", path, form)
    known = {**(kinds or {}), **dict.fromkeys(categories, "category")}
    csv = pyarrow("csv")
    convert = csv.ConvertOptions(
        column_types={name: "string" for name, kind in known.items() if kind == "category"},
        null_values=[*csv.ConvertOptions().null_values, *MISSING_TEXT],
        strings_can_be_null=True,
        decimal_point=form.decimal,
    )
    parse = csv.ParseOptions(delimiter=form.sep, quote_char=form.quote, newlines_in_values=True)
    try:
        with utf8_file(path, form.encoding) as file, reading(path):
            read = csv.ReadOptions(skip_rows=form.first_line, use_threads=False)
            table = csv.read_csv(file, read_options=read, parse_options=parse, convert_options=convert)
    except ValueError as error:
        if "columns, got" not in str(error):
            raise
        raise ValueError(f"{error} It is read as {form}; correct the row, or choose another --sep.") from error
    if kinds is None:
        _warn_of_header(path, table.column_names)
    for j, field in enumerate(table.schema):
        if field.type == "binary":
            raise ValueError(
                f"{path}: column {field.name!r} cannot be read as {form.encoding}; choose another --encoding."
            )
        if field.type == "string":
            column = _trimmed(table[j])
            if known.get(field.name) != "category":
                column = _without_thousands(column, form.decimal)
            if kinds is None and field.name not in categories:
                _warn_of_numbers(path, field.name, column)
            table = table.set_column(j, field.name, column)
    return table


def _read_json(path: Path) -> Any:
    """One object per line, or a list of objects."""
    opener = OPENERS.get(path.suffix.lower(), Path.open)
    with opener(path, "rb") as file:
        text = file.read()
    if text.lstrip()[:1] == b"[":
        return pyarrow().Table.from_pylist(json.loads(text))
    options = pyarrow("json").ReadOptions(use_threads=False, block_size=max(2**20, len(text) + 1))
    return pyarrow("json").read_json(pyarrow().BufferReader(text), read_options=options)


def _trimmed(column: Any) -> Any:
    return pyarrow("compute").utf8_trim_whitespace(column)


def _without_thousands(column: Any, decimal: str) -> Any:
    """Numbers such as 1,234,567.5 or 1.234.567,5 as float64; other text unchanged."""
    compute, mark = pyarrow("compute"), "," if decimal == "." else "."
    pattern = rf"^[-+]?\d{{1,3}}(\{mark}\d{{3}})*(\{decimal}\d+)?$"
    if column.null_count == len(column) or not compute.all(compute.match_substring_regex(column, pattern)).as_py():
        return column
    plain = compute.replace_substring(column, mark, "")
    return compute.replace_substring(plain, decimal, ".").cast("float64")


def _warn_of_header(path: Path, names: Sequence[str]) -> None:
    """Warn of a file without names of columns, whose first row is lost: all are numbers, or one is a fraction.

    Numbers that increase by 1 are names that pandas gives, or years.
    """
    is_number = [bool(re.fullmatch(_NUMBER, name)) for name in names]
    has_fraction = any(number and re.search(r"[.,]", name) for name, number in zip(names, is_number, strict=True))
    digits = [int(name) for name in names if name.isdigit()]
    is_sequence = len(digits) == len(names) and digits == list(range(digits[0], digits[0] + len(digits)))
    if has_fraction or (all(is_number) and not is_sequence):
        logger.warning(
            "%s: the first line, %s, is taken for the names of the columns, but looks like a row; if it is one, add a "
            "line of names.",
            path,
            abbreviated(names),
        )


def _warn_of_numbers(path: Path, name: str, column: Any) -> None:
    """Warn of the few entries that make a column of numbers text, so that they can be corrected."""
    if column.type != "string" or column.null_count == len(column):
        return
    compute = pyarrow("compute")
    is_number = compute.match_substring_regex(column, _NUMBER)
    share = compute.mean(is_number).as_py()
    if MOSTLY <= share < 1:
        others = compute.unique(column.filter(compute.invert(is_number))).drop_null().to_pylist()
        logger.warning(
            "%s: column %r is text because of %s; all other values are numbers.", path, name, abbreviated(others[:5])
        )
