"""Open a file or directory of rows by its suffix."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bochner.data.blocks import Source
from bochner.data.cache import cache_to_disk
from bochner.data.compressed import OPENERS, is_compressed
from bochner.data.npy import FilePath, NpySource, NpzSource, ShardedSource, members
from bochner.data.table_files import CSV, table_suffix
from bochner.data.tables import ArrowSource, ParquetSource
from bochner.data.text import CsvBlocks, LibsvmSource
from bochner.remote import AnyPath, RemotePath, local_path, path_of

TABLES = {".parquet": ParquetSource, ".arrow": ArrowSource, ".feather": ArrowSource}
LIBSVM = (".libsvm", ".svm", ".svmlight", ".txt")
TEXT = (*CSV, *LIBSVM)
KNOWN = [".npy", ".npz", *TABLES, *TEXT]


def open_source(
    path: FilePath | RemotePath,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    weight: str | None = None,
    labels: Sequence[str] | None = None,
    num_inputs: int | None = None,
    shard_rows: int | None = None,
    ignore: Sequence[str] = (),
    sep: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
) -> Source:
    """The source that reads `path`, by its suffix or, for a directory, by the files in it.

    | path | target, weight |
    |---|---|
    | `.npy` | paths of .npy files; for `NAME.X.npy` by default `NAME.y.npy` and `NAME.weight.npy` if they exist |
    | `.npz` | names in the archive, by default `y` and `weight` if it has them; columns=[NAME] names X |
    | `.parquet`, `.arrow`, `.feather`, `.csv`, `.tsv` | names of columns; text is cached in a temporary directory |
    | `.libsvm`, `.svm`, `.svmlight`, such `.txt` | the label of each line; `num_inputs` where the width is known |

    Text files may be compressed: `.csv.gz`, `.libsvm.bz2`, `.svm.xz`. Without a target y is int64 [n, 0].

    Text targets become indices into the source's `labels`: all of them, sorted, or those of the argument `labels`,
    which a later file must share with the first; any other label is an error. Tables have the names of their inputs as
    `column_names`; `columns` selects the same ones, in that order, from another file, and `ignore` names columns of a
    table that are not inputs. Separator, encoding and decimal sign of CSV files are detected unless they are given.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = Path(directory, "people.csv").write_text("age,hours,income\\n39,40,<=50K\\n52,45,>50K\\n")
    ...     people = open_source(directory + "/people.csv", target="income")
    ...     people.labels, people.column_names, people.read(0).y
    (('<=50K', '>50K'), ('age', 'hours'), tensor([0, 1]))
    """
    path = path_of(path)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    suffix = _suffix_inside(path) if path.is_dir() else _suffix(path)
    if suffix in TABLES:
        roles: dict[str, Any] = {"target": target, "columns": columns, "weight": weight, "labels": labels}
        return TABLES[suffix](path, **roles, ignore=ignore, shard_rows=shard_rows)
    if suffix in LIBSVM and not path.is_dir():
        if columns is not None:
            raise ValueError(f"columns must be None for {path}, whose inputs have no names, got {list(columns)}.")
        _only(path, target=(target, "y"), weight=(weight, None), labels=(labels, None))
        return LibsvmSource(path, num_inputs=num_inputs, shard_rows=shard_rows)
    path = local_path(path)
    if suffix in CSV:
        text = {"sep": sep, "encoding": encoding, "decimal": decimal}
        roles = {"target": target, "columns": columns, "weight": weight, "labels": labels}
        return cache_to_disk(CsvBlocks(path, **roles, ignore=ignore, **text), shard_rows=shard_rows)
    if suffix == ".npz" and path.is_file():
        if columns is not None and len(columns) != 1:
            raise ValueError(f"columns must name the one array of inputs in {path}, got {list(columns)}.")
        arrays = members(path)
        X, y = columns[0] if columns else "X", target or ("y" if "y" in arrays else None)
        w = weight or ("weight" if "weight" in arrays else None)
        return NpzSource(path, X=X, y=y, weight=w, shard_rows=shard_rows, labels=labels)
    if columns is not None:
        raise ValueError(f"columns must be None for {path}, whose inputs have no names, got {list(columns)}.")
    if path.is_dir():
        _only(path, target=(target, "y"), weight=(weight, "weight"))
        return ShardedSource(path, shard_rows=shard_rows, labels=labels)
    y_path, weight_path = _beside(path, target, "y"), _beside(path, weight, "weight")
    return NpySource(path, y_path, weight_path, shard_rows=shard_rows, labels=labels)


def _suffix(path: AnyPath) -> str:
    suffix = table_suffix(path)
    if suffix not in KNOWN:
        raise ValueError(f"path must be a directory or end in one of {KNOWN}, got {path}.")
    if is_compressed(path) and suffix not in TEXT:
        raise ValueError(
            f"path must be text, {list(TEXT)}, to be read from {list(OPENERS)}, got {path}; decompress it."
        )
    return suffix


def _only(path: AnyPath, **arguments: tuple[object, object]) -> None:
    """Refuse arguments other than the one name, if any, that a part has in such files."""
    for name, (value, known) in arguments.items():
        if value not in (None, known):
            allowed = "None" if known is None else f"None or {known!r}"
            raise ValueError(f"{name} must be {allowed} for {path}, which has no other, got {value!r}.")


def _suffix_inside(directory: AnyPath) -> str:
    """The suffix of the files in a directory; the first known one if there are several."""
    suffixes = {path.suffix.lower() for path in directory.iterdir()}
    known = [suffix for suffix in (".npy", ".npz", *TABLES) if suffix in suffixes]
    if not known:
        raise ValueError(f"{directory} must hold .npy, .npz, {', '.join(TABLES)} files, found {sorted(suffixes)}.")
    return known[0]


def _beside(path: Path, argument: str | None, part: str) -> FilePath | None:
    """`NAME.part.npy` next to `NAME.X.npy`, where `argument` may name another part; else `argument`, a path."""
    other = path.parent / f"{path.name.removesuffix('.X.npy')}.{argument or part}.npy"
    return other if path.name.endswith(".X.npy") and other.exists() else argument
