"""Sources made from sources: transforms, statistics, splits and classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bochner.data import (
    ArraySource,
    EncodeLabels,
    MappedSource,
    NpySource,
    Standardize,
    check_classes,
    classes_of,
    open_source,
    split,
    statistics,
    with_classes,
)
from bochner.data import transforms as transforms_module
from tests.data.cases import rows
from tests.data.test_conformance import whole


@given(n=st.integers(1, 50), shard_rows=st.integers(1, 60))
def test_as_numpy_has_them(n: int, shard_rows: int) -> None:
    X, y, _ = rows(n, dtype="float64")
    found = statistics(ArraySource(X, y, shard_rows=shard_rows))
    np.testing.assert_allclose(found.mean, X.mean(0), atol=1e-14)
    np.testing.assert_allclose(found.std, X.std(0), atol=1e-14)
    np.testing.assert_array_equal(found.classes, np.unique(y))
    assert found.num_rows == n


def test_a_mean_far_from_zero() -> None:
    X = 1e9 + np.random.default_rng(0).standard_normal((1000, 2))
    np.testing.assert_allclose(statistics(ArraySource(X, shard_rows=7)).std, (X - 1e9).std(0), rtol=1e-7)


def test_float_targets_have_no_classes() -> None:
    assert statistics(ArraySource(*rows(target="float64"))).classes is None


def test_numbers_too_many_to_be_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms_module, "MAX_LABELS", 3)
    X = np.zeros((5, 1))
    assert statistics(ArraySource(X, [3, 1, 2, 3, 1], shard_rows=2)).classes.tolist() == [1, 2, 3]
    assert statistics(ArraySource(X, [3, 1, 2, 4, 1], shard_rows=2)).classes is None


def test_statistics_of_a_part_with_empty_shards() -> None:
    validation = split(ArraySource(*rows(20), shard_rows=1), 0.2, seed=0)[1]
    assert 0 in validation.shard_sizes
    np.testing.assert_allclose(statistics(validation).mean, whole(validation).X.mean(0), rtol=1e-5)


def test_standardized() -> None:
    X = np.random.default_rng(0).normal(5, 3, (100, 3)).astype("float32")
    X[:, 1] = 4
    source = ArraySource(X, shard_rows=9)
    found = statistics(source)
    Z = whole(MappedSource(source, Standardize(found.mean, found.std))).X
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(Z.std(0), [1, 0, 1], atol=1e-6)


def test_labels_become_places() -> None:
    encode = EncodeLabels(torch.tensor([-1, 3, 8]))
    source = ArraySource(np.zeros((4, 1)), np.array([8, -1, 3, 8]), shard_rows=3)
    assert whole(MappedSource(source, encode)).y.tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize("label", [-2, 4, 9])
def test_labels_never_seen(label: int) -> None:
    source = ArraySource(np.zeros((2, 1)), np.array([3, label]))
    with pytest.raises(ValueError, match=rf"y must hold the 3 known classes only, got \[{label}\]"):
        MappedSource(source, EncodeLabels(torch.tensor([-1, 3, 8]))).read(0)


def numbered(n: int, shard_rows: int) -> ArraySource:
    return ArraySource(torch.arange(float(n))[:, None], torch.arange(n), shard_rows=shard_rows)


@given(n=st.integers(2, 60), shard_rows=st.integers(1, 70), fraction=st.floats(0.001, 0.999), seed=st.integers(0, 9))
def test_a_partition(n: int, shard_rows: int, fraction: float, seed: int) -> None:
    source = numbered(n, shard_rows)
    train, validation = (whole(part).y.tolist() for part in split(source, fraction, seed))
    assert sorted(train + validation) == list(range(n))
    assert len(validation) == min(max(round(fraction * n), 1), n - 1)
    assert validation == whole(split(source, fraction, seed)[1]).y.tolist()


def test_nothing_is_read() -> None:
    source = numbered(100, 10)
    source.read = None
    train, validation = split(source, 0.2, seed=0)
    assert (sum(train.shard_sizes), sum(validation.shard_sizes)) == (80, 20)


def test_every_row_is_held_out_equally_often() -> None:
    seeds, n = 2000, 30
    counts = np.zeros(n)
    for seed in range(seeds):
        counts[whole(split(numbered(n, 7), 0.2, seed)[1]).y] += 1
    assert np.abs(counts / seeds - 0.2).max() < 5 * np.sqrt(0.2 * 0.8 / seeds)


def test_seeds_differ() -> None:
    parts = {tuple(whole(split(numbered(50, 10), 0.2, seed)[1]).y) for seed in range(20)}
    assert len(parts) == 20


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan"), "half", None])
def test_invalid_fractions(fraction: object) -> None:
    with pytest.raises(ValueError, match=r"validation_fraction.*0.*1"):
        split(numbered(10, 5), fraction, 0)


def test_one_row() -> None:
    with pytest.raises(ValueError, match="source must have at least 2 rows to be split, got 1"):
        split(numbered(1, 5), 0.5, 0)


@pytest.mark.parametrize("seed", [-1, 0.5, None, True])
def test_invalid_seeds(seed: object) -> None:
    with pytest.raises(ValueError, match="seed must be an integer of at least 0"):
        split(numbered(10, 5), 0.5, seed)


def source(y, **options) -> ArraySource:
    return ArraySource(np.zeros((len(y), 1)), np.array(y), **{"shard_rows": 2} | options)


@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        (["b", "a", "b"], ["a", "b"]),
        ([3, -1, 3, 7], [-1, 3, 7]),
        ([0.5, 2.5, 0.5], [0.5, 2.5]),
        ([True, False, True], [0, 1]),
    ],
)
def test_classes(y: list, wanted: list) -> None:
    found = classes_of(source(y))
    assert found.tolist() == wanted
    assert found.dtype.kind == {str: "U", int: "i", float: "f"}[type(wanted[0])]


def test_labels_are_classes_even_when_no_row_has_them() -> None:
    assert classes_of(source(["b", "b"], labels=["a", "b"])).tolist() == ["a", "b"]


def test_inputs_are_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.full((5, 1), np.nan))  # refused wherever it is read
    np.save(tmp_path / "y.npy", np.arange(5))
    rows = NpySource(tmp_path / "X.npy", tmp_path / "y.npy", shard_rows=2)
    assert classes_of(split(rows, 0.4, seed=0)[0]).size == 3
    with pytest.raises(ValueError, match="must be finite"):
        classes_of(MappedSource(rows, Standardize(torch.zeros(1), torch.ones(1))))


def test_rows_without_targets() -> None:
    with pytest.raises(ValueError, match=r"y must have shape \[rows\] to hold classes, got rows of shape \(0,\)"):
        classes_of(ArraySource(np.eye(2)))


def test_numbers_that_are_no_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transforms_module, "MAX_LABELS", 3)
    assert len(classes_of(source([0, 1, 2, 0]))) == 3
    with pytest.raises(ValueError, match="y must hold classes, got more than 3 different numbers"):
        classes_of(source([0.1, 1.2, 2.3, 0.4]))


@pytest.mark.parametrize(("y", "only"), [([4, 4, 4], r"\[4\]"), (["yes", "yes"], r"\['yes'\]")])
def test_one_class_only(y: list, only: str) -> None:
    with pytest.raises(ValueError, match=f"the training rows must hold at least two classes, got {only} only"):
        check_classes(source(y))


def test_one_class_of_two_labels() -> None:
    with pytest.raises(ValueError, match=r"at least two classes, got \['b'\] only"):
        check_classes(source(["b", "b"], labels=["a", "b"]))


def test_a_class_that_only_validation_has() -> None:
    with pytest.raises(ValueError, match=r"validation data must hold classes.*got \[5, 6\] besides"):
        check_classes(source([0, 1, 2]), source([1, 6, 5, 6]))
    labels = ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"validation data must hold classes.*got \['c'\] besides"):
        check_classes(source(["a", "b"], labels=labels), source(["a", "c"], labels=labels))


def test_a_class_that_a_split_takes_from_train() -> None:
    """One row of a third class: a split that holds it out is refused, one that does not is not."""
    rows, refused = source(["a", "b"] * 8 + ["rare"], shard_rows=4), []
    for seed in range(20):
        train, validation = split(rows, 0.2, seed=seed)
        is_out = 2 in whole(validation).y
        refused.append(is_out)
        if is_out:
            with pytest.raises(ValueError, match=r"got \['rare'\] besides"):
                check_classes(train, validation)
        else:
            assert check_classes(train, validation).tolist() == ["a", "b", "rare"]
    assert set(refused) == {True, False}


def test_a_class_that_only_train_has() -> None:
    assert check_classes(source([0, 1, 2]), source([1, 0])).tolist() == [0, 1, 2]


def test_labels_that_do_not_agree() -> None:
    with pytest.raises(ValueError, match=r"labels of the training rows, \['a', 'b'\], got \['a', 'b', 'c'\]; open it"):
        check_classes(source(["a", "b"]), source(["a", "b", "c"]))
    with pytest.raises(ValueError, match=r"validation data must have the labels.*\['a', 'b'\], got numbers"):
        check_classes(source(["a", "b"]), source([0, 1]))


def test_numbers_as_places() -> None:
    got = with_classes(source([8, -1, 3, 8]), np.array([-1, 3, 8]))
    assert whole(got).y.tolist() == [2, 0, 1, 2]
    with pytest.raises(ValueError, match=r"y must hold the 2 known classes only, got \[3\] besides"):
        whole(with_classes(source([8, -1, 3, 8]), [-1, 8]))


def test_whole_numbers_written_as_floats() -> None:
    assert whole(with_classes(source([2.0, 1.0]), [1, 2])).y.tolist() == [1, 0]
    with pytest.raises(ValueError, match=r"known classes only, got \[1.5\]"):
        whole(with_classes(source([2.0, 1.5]), [1, 2]))


def test_text_is_never_taken_for_numbers() -> None:
    """Indices of labels and classes 0, 1 look the same: mixing them must be an error."""
    with pytest.raises(ValueError, match=r"must hold the classes \[0, 1\], got the labels \['a', 'b'\]"):
        with_classes(source(["a", "b"]), [0, 1])
    with pytest.raises(ValueError, match=r"must have the labels \['a', 'b'\], got numbers"):
        with_classes(source([0, 1]), ["a", "b"])
    with pytest.raises(ValueError, match=r"must have the labels \['a', 'b'\], got \['b', 'c'\]; open it with labels="):
        with_classes(source(["b", "c"]), ["a", "b"])
    same = source(["a", "b"])
    assert with_classes(same, ["a", "b"]) is same


def test_train_and_later_files_agree(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("age,income\n30,low\n40,high\n50,middle\n")
    (tmp_path / "test.csv").write_text("age,income\n60,middle\n20,low\n")
    (tmp_path / "odd.csv").write_text("age,income\n60,middle\n20,none\n")
    train = open_source(tmp_path / "train.csv", target="income")
    classes = classes_of(train)
    test = open_source(tmp_path / "test.csv", target="income", labels=classes, columns=train.column_names)
    assert classes[whole(test).y].tolist() == ["middle", "low"]
    with pytest.raises(ValueError, match=r"odd\.csv: column 'income' must hold the labels .* but row 1 is 'none'"):
        open_source(tmp_path / "odd.csv", target="income", labels=classes)
