"""Statistics in one pass, and rows changed by them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bochner.data import ArraySource, EncodeLabels, MappedSource, Standardize, split, statistics
from bochner.data import transforms as moments
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
    monkeypatch.setattr(moments, "MAX_LABELS", 3)
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
