"""Compressed text: the same rows, no temporary files left, and errors that name damaged files."""

from __future__ import annotations

import bz2
import gc
import gzip
import lzma
import tempfile
from pathlib import Path

import pytest

from bochner.data import open_source
from tests.data import cases
from tests.data.cases import rows
from tests.data.test_conformance import assert_same, whole

PACK = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
packed = pytest.mark.parametrize("suffix", PACK)
texts = pytest.mark.parametrize(("make", "name"), [(cases.csv, "all.csv"), (cases.libsvm, "all.libsvm")])


def write(make, name: str, suffix: str, folder: Path) -> Path:
    make(folder, rows(), 5)
    path = folder / (name + suffix)
    path.write_bytes(PACK[suffix.lower()]((folder / name).read_bytes()))
    return path


def opened(path: Path):
    return open_source(path, target="y", shard_rows=4)


@packed
@texts
def test_the_same_rows(make, name: str, suffix: str, tmp_path: Path) -> None:
    got = whole(opened(write(make, name, suffix, tmp_path)))
    assert_same(got._replace(X=got.X.astype("float32")), rows())


def test_capitals(tmp_path: Path) -> None:
    path = write(cases.csv, "all.csv", ".gz", tmp_path)
    assert sum(opened(path.rename(tmp_path / "ALL.CSV.GZ")).shard_sizes) == 23


def test_archives_one_after_the_other(tmp_path: Path) -> None:
    """The output of `cat a.gz b.gz`."""
    path = write(cases.libsvm, "all.libsvm", ".gz", tmp_path)
    path.write_bytes(path.read_bytes() * 2)
    assert sum(opened(path).shard_sizes) == 46


@packed
@texts
def test_cut_short_anywhere(make, name: str, suffix: str, tmp_path: Path) -> None:
    path = write(make, name, suffix, tmp_path)
    content = path.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=path.name):
            opened(path)


@packed
@texts
def test_a_changed_byte(make, name: str, suffix: str, tmp_path: Path) -> None:
    """Checksums detect any change of the rows. (A few bytes of a header, such as its time, are irrelevant.)"""
    path = write(make, name, suffix, tmp_path)
    content, refused = path.read_bytes(), 0
    for place in range(0, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            got = whole(opened(path))
            assert_same(got._replace(X=got.X.astype("float32")), rows())
        except ValueError as error:
            assert path.name in str(error)
            refused += 1
    assert refused > 35


@packed
@texts
def test_text_that_is_not_compressed_at_all(make, name: str, suffix: str, tmp_path: Path) -> None:
    path = write(make, name, suffix, tmp_path)
    path.write_text("1 1:1\n")
    with pytest.raises(ValueError, match=rf"{path.name} cannot be (read|decompressed)"):
        opened(path)


def test_temporary_text_is_removed_with_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = write(cases.libsvm, "all.libsvm", ".gz", tmp_path)
    source = opened(path)
    assert len(list((tmp_path / "temporary").iterdir())) == 1
    del source
    gc.collect()
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"all\.libsvm\.gz cannot be decompressed"):
        opened(path)
    path.write_bytes(gzip.compress(b"one 1:2\n"))
    with pytest.raises(ValueError, match=r"all\.libsvm\.gz, line 1: "):
        opened(path)
    gc.collect()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"all\.csv\.gz does not exist"):
        opened(tmp_path / "all.csv.gz")


def test_only_text_may_be_compressed(tmp_path: Path) -> None:
    for name in ("X.npy.gz", "t.parquet.xz"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match=rf"path must be text, .* to be read from .*{name}; decompress it"):
            open_source(tmp_path / name)
    (tmp_path / "t.xlsx.gz").write_bytes(b"")
    with pytest.raises(ValueError, match=r"path must be a directory or end in one of"):
        open_source(tmp_path / "t.xlsx.gz")
