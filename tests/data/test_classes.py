"""Classes of any source, and the targets that cannot be learned from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bochner.data import (
    ArraySource,
    MappedSource,
    NpySource,
    Standardize,
    check_classes,
    classes_of,
    open_source,
    split,
    with_classes,
)
from bochner.data import transforms as classes_module
from tests.data.test_conformance import whole


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
    monkeypatch.setattr(classes_module, "MAX_LABELS", 3)
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
    """Places of labels and classes 0, 1 look alike: a mix must not pass."""
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
