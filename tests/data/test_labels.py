"""Text targets: labels found in the data, labels given in advance, and unknown labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

from bochner.data import (
    ArraySource,
    EncodeLabels,
    MappedSource,
    ShardedSource,
    Standardize,
    cache_to_disk,
    column_names_of,
    open_source,
    split,
)
from bochner.data import labels as labels_module
from bochner.data.labels import encode_labels
from tests.data.test_conformance import whole

INCOME = ["<=50K", ">50K", "<=50K", ">50K", "<=50K"]


def csv(folder: Path, y) -> Path:
    y = y.to_pylist() if isinstance(y, pa.Array) else y
    (folder / "t.csv").write_text("a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(y)))
    return folder / "t.csv"


def parquet(folder: Path, y) -> Path:
    pa.parquet.write_table(pa.table({"a": np.arange(float(len(y))), "y": y}), folder / "t.parquet", row_group_size=2)
    return folder / "t.parquet"


def feather(folder: Path, y) -> Path:
    pa.feather.write_feather(pa.table({"a": np.arange(float(len(y))), "y": y}), folder / "t.feather", chunksize=2)
    return folder / "t.feather"


def npz(folder: Path, y) -> Path:
    np.savez(folder / "t.npz", X=np.arange(float(len(y)))[:, None], y=np.array(y))
    return folder / "t.npz"


def npy(folder: Path, y) -> Path:
    np.save(folder / "t.X.npy", np.arange(float(len(y)))[:, None])
    np.save(folder / "t.y.npy", np.array(y))
    return folder / "t.X.npy"


def cached(folder: Path, y) -> Path:
    cache_to_disk([(np.arange(float(len(y)))[:, None], np.array(y))], folder / "kept", labels=sorted(set(y)))
    return folder / "kept"


tables = pytest.mark.parametrize("write", [csv, parquet, feather], ids=lambda write: write.__name__)
formats = pytest.mark.parametrize("write", [csv, parquet, feather, npz, npy, cached], ids=lambda write: write.__name__)


@formats
def test_a_vocabulary_that_is_given(write, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, INCOME), target="y", labels=["never seen", ">50K", "<=50K"])
    assert source.labels == ("never seen", ">50K", "<=50K")
    assert whole(source).y.tolist() == [2, 1, 2, 1, 2]


@formats
def test_a_label_that_is_not_in_it(write, tmp_path: Path) -> None:
    path = write(tmp_path, ["no", "no", "no", "maybe", "no"])
    with pytest.raises(ValueError, match=r"(t|kept).* must hold the labels \['no', 'yes'\] only, but row 3 is 'maybe'"):
        whole(open_source(path, target="y", labels=["no", "yes"], shard_rows=2))


@pytest.mark.parametrize("write", [csv, parquet, feather, npz, npy], ids=lambda write: write.__name__)
def test_integers_are_looked_up_as_text(write, tmp_path: Path) -> None:
    """A later file may lack the one label that made the first file's target text."""
    source = open_source(write(tmp_path, [2, 1, 2]), target="y", labels=["1", "2", "other"])
    assert whole(source).y.tolist() == [1, 0, 1]


@pytest.mark.parametrize("write", [parquet, feather, npz, npy], ids=lambda write: write.__name__)
def test_floats_are_not(write, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must hold text or integers to be looked up in labels, got (d?type) "):
        open_source(write(tmp_path, [2.0, 1.5]), target="y", labels=["1", "2"])


@tables
def test_labels_without_a_target(write, tmp_path: Path) -> None:
    """As for prediction: the model's labels are known, and those of the file are not needed."""
    source = open_source(write(tmp_path, INCOME), columns=["a"], labels=["<=50K", ">50K"])
    assert (source.labels, whole(source).y.shape) == (("<=50K", ">50K"), (5, 0))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("yes", "labels must be a sequence of strings, got 'yes'"),
        ([], "labels must be a sequence of strings"),
        ([1, 2], "labels must be a sequence of strings"),
        (["a", "b", "a"], r"labels must differ from each other, got \['a', 'b', 'a'\]"),
    ],
)
@formats
def test_invalid_vocabularies(write, labels, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        open_source(write(tmp_path, INCOME), target="y", labels=labels)


@pytest.mark.parametrize("write", [parquet, feather], ids=lambda write: write.__name__)
@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_other_types_of_text(write, kind: pa.DataType, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, pa.array(INCOME).cast(kind)), target="y")
    assert source.labels == ("<=50K", ">50K")
    assert whole(source).y.tolist() == [0, 1, 0, 1, 0]


def test_a_dictionary_that_holds_more_than_the_rows(tmp_path: Path) -> None:
    """As categories of pandas do; and record batches may come with dictionaries of their own."""
    kind = pd.CategoricalDtype(["z", "never", "a"])
    column = pa.array(pd.Series(["a", "z", "a"], dtype=kind))
    assert open_source(feather(tmp_path, column), target="y").labels == ("a", "z")


@pytest.mark.parametrize("write", [parquet, feather], ids=lambda write: write.__name__)
def test_booleans_are_numbers(write, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, [True, False, True]), target="y")
    assert (source.labels, whole(source).y.tolist()) == (None, [1, 0, 1])


def test_booleans_in_text_are_text(tmp_path: Path) -> None:
    source = open_source(csv(tmp_path, [True, False, True]), target="y")
    assert (source.labels, whole(source).y.tolist()) == (("False", "True"), [1, 0, 1])


@pytest.mark.parametrize("write", [parquet, feather], ids=lambda write: write.__name__)
@pytest.mark.parametrize("y", [["a", "b", None, "a"], pa.array(["a", "b", None, "a"]).dictionary_encode()])
def test_text_that_is_missing(write, y, tmp_path: Path) -> None:
    source = open_source(write(tmp_path, y), target="y")
    assert source.labels == ("a", "b")
    with pytest.raises(ValueError, match=r"column 'y' must have a value in every row, but row 2 has none"):
        whole(source)


def test_a_dictionary_that_holds_a_null(tmp_path: Path) -> None:
    source = open_source(feather(tmp_path, pa.DictionaryArray.from_arrays([0, 1, 0], ["a", None])), target="y")
    with pytest.raises(ValueError, match=r"column 'y' must have a value in every row, but row 1 has none"):
        whole(source)


@pytest.mark.parametrize("missing", ["", "NA", "nan"])
def test_text_that_is_missing_in_csv(missing: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column 'y' must have a value in every row, but row 2 has none"):
        open_source(csv(tmp_path, ["a", "b", missing]), target="y")
    assert open_source(csv(tmp_path, ["a", "b", f'"{missing}"']), target="y").labels == tuple(
        sorted(["a", "b", missing])
    )


@pytest.mark.parametrize(
    ("late", "labels", "dtype"),
    [("7", None, torch.int64), ("1.5", None, torch.float64), ("other", ("0", "1", "other"), torch.int64)],
)
def test_the_whole_column_decides_what_it_is(late: str, labels, dtype: torch.dtype, tmp_path: Path) -> None:
    """The whole column counts, not only the first megabyte, in which all targets are 0 and 1."""
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "1, 0\n1,1 \n" * 150_000 + f"1,{late}\n")
    source = open_source(path, target="y")
    assert (source.labels, source.read(0).y.dtype) == (labels, dtype)
    assert source.read(0).y[:4].tolist() == [0, 1, 0, 1]


def test_spaces_around_labels_are_no_part_of_them(tmp_path: Path) -> None:
    assert open_source(csv(tmp_path, [" <=50K", ">50K ", "<=50K"]), target="y").labels == ("<=50K", ">50K")


@formats
def test_text_that_is_no_class(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels_module, "MAX_LABELS", 3)
    assert len(open_source(write(tmp_path, ["a", "b", "c", "a"]), target="y").labels) == 3
    if write is not cached:  # whose labels are given
        with pytest.raises(ValueError, match=r"t\..* must hold class labels or numbers, got text with more than 3"):
            open_source(write(tmp_path, ["a", "b", "c", "d"]), target="y")


def test_one_label_set_for_all_files_of_a_directory(tmp_path: Path) -> None:
    for name, y in {"1": ["b", "c"], "2": ["a", "longer"], "3": [7, 8]}.items():
        np.savez(tmp_path / f"{name}.npz", X=np.eye(2), y=np.array(y))
        pa.parquet.write_table(pa.table({"a": [1.0, 2.0], "y": y}), tmp_path / f"{name}.parquet")
    wanted = ("7", "8", "a", "b", "c", "longer")
    arrays = open_source(tmp_path)
    for path in tmp_path.glob("*.npz"):
        path.unlink()
    for source in (arrays, open_source(tmp_path, target="y")):
        assert source.labels == wanted
    assert whole(source).y.tolist() == [3, 4, 2, 5, 0, 1]


@pytest.mark.parametrize("kind", ["object", "string", "category"])
def test_pandas_columns(kind: str) -> None:
    source = ArraySource(np.eye(3), pd.Series(["b", "a", "b"], dtype=kind))
    assert (source.labels, source.read(0).y.tolist()) == (("a", "b"), [1, 0, 1])


def test_objects_that_are_not_text() -> None:
    with pytest.raises(ValueError, match=r"y must hold numbers or text, .* got \['NoneType', 'str'\]"):
        ArraySource(np.eye(2), np.array(["a", None], dtype=object))


def test_labels_of_two_columns() -> None:
    with pytest.raises(ValueError, match=r"y must have shape \[rows\] to hold labels, got \(2, 1\)"):
        ArraySource(np.eye(2), np.array([["a"], ["b"]]))


@tables
def test_names_go_with_the_rows(write, tmp_path: Path) -> None:
    """Through a split, a change of the inputs and a cache, in memory and on disk."""
    source = open_source(write(tmp_path, INCOME), target="y", labels=["<=50K", ">50K", "?"], shard_rows=2)
    train, validation = split(source, 0.4, seed=0)
    scaled = MappedSource(train, Standardize(torch.zeros(1), torch.ones(1)))
    temporary, kept = cache_to_disk(scaled), cache_to_disk(validation, tmp_path / "kept")
    for each in (train, validation, scaled, temporary, kept, ShardedSource(tmp_path / "kept")):
        assert each.labels == ("<=50K", ">50K", "?")
        assert column_names_of(each) == ("a",)
        got = whole(each)
        assert [INCOME[int(i)] for i in got.X[:, 0]] == [each.labels[place] for place in got.y]


def test_encoded_labels_keep_their_text() -> None:
    source = ArraySource(np.eye(3), ["b", "c", "b"], labels=["a", "b", "c"])
    fewer = MappedSource(source, EncodeLabels(torch.tensor([1, 2])))
    assert (fewer.labels, fewer.read(0).y.tolist()) == (("b", "c"), [0, 1, 0])


def test_text_in_a_stream_needs_its_labels() -> None:
    blocks = [(np.eye(2), np.array(["b", "c"])), (np.eye(2), np.array(["a", "b"]))]
    with pytest.raises(ValueError, match=r"block 0: y holds text such as 'b'.*labels="):
        cache_to_disk(blocks)
    with cache_to_disk(blocks, labels=["a", "b", "c"]) as source:
        assert (source.labels, whole(source).y.tolist()) == (("a", "b", "c"), [1, 2, 0, 1])


@pytest.mark.parametrize("content", ["", "[]", '{"labels": ["a"]}', '{"labels": [1], "columns": null}', '"' * 9])
def test_damaged_names(content: str, tmp_path: Path) -> None:
    (cached(tmp_path, INCOME) / "names.json").write_text(content)
    with pytest.raises(ValueError, match=r"names\.json cannot be read as the names of cached rows"):
        open_source(tmp_path / "kept")


def test_names_of_other_rows(tmp_path: Path) -> None:
    (cached(tmp_path, INCOME) / "names.json").write_text('{"labels": ["a"], "columns": null}')
    with pytest.raises(ValueError, match=r"y\.npy .*1 labels, but row 1 is 1"):
        whole(open_source(tmp_path / "kept"))
    target = next((tmp_path / "kept").glob("*.y.npy"))
    np.save(target, np.zeros(len(INCOME)))
    with pytest.raises(ValueError, match=r"y\.npy must hold text or integers .*, got dtype float"):
        open_source(tmp_path / "kept")
    np.save(target, np.zeros(len(INCOME), np.int64))
    (tmp_path / "kept" / "names.json").write_text('{"labels": null, "columns": ["a", "b"]}')
    with pytest.raises(ValueError, match=r"kept names 2 columns, but its rows have 1"):
        open_source(tmp_path / "kept")


def test_places_of_many_labels() -> None:
    random = np.random.default_rng(0)
    labels = [f"state {i}" for i in random.permutation(500)]
    values = random.choice(labels, 3000)
    places = encode_labels(labels, values, name="y", first_row=0)
    assert [labels[place] for place in places] == values.tolist()
