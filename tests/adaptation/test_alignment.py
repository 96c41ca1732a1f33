"""Alignment over a source, compared with explicit n x n matrices."""

from __future__ import annotations

import sys
from statistics import fmean

import numpy as np
import pytest
import torch

from bochner.adaptation import alignment
from bochner.adaptation import alignment as public
from bochner.adaptation.alignment import ROWS
from bochner.data import ArraySource
from tests.adaptation.families import draw, points

module = sys.modules["bochner.adaptation.alignment"]  # a name that the package gives to the function


def naive(family: str, X: torch.Tensor, y: torch.Tensor) -> float:
    K = draw(family).approximate(X, X).double().numpy()
    target = (y[:, None] == y).double().numpy()
    return float((K * target).sum() / np.sqrt((K * K).sum() * (target * target).sum()))


@pytest.mark.parametrize("family", ["orthogonal", "hadamard3", "arc-cosine 2"])
def test_exact_alignment_is_that_of_the_matrices(family: str) -> None:
    X, y = points(700)
    source = ArraySource(X, 3 * y - 5, shard_rows=90)  # any integers are classes
    assert alignment(draw(family), source) == pytest.approx(naive(family, X, y), rel=1e-5)


def test_sampled_alignment_is_close_and_unbiased_in_the_norm() -> None:
    X, y = points(3000)
    z, source, exact = draw("orthogonal"), ArraySource(X, y), naive("orthogonal", X, y)
    found = [alignment(z, source, method="sampled", num_blocks=1, seed=seed) for seed in range(30)]
    errors = [exact**2 / one**2 - 1 for one in found]  # only <K, K> is estimated, and its root is taken
    assert max(map(abs, errors)) < 0.15
    assert abs(fmean(errors)) < 3 * np.std(errors) / 30**0.5 < 0.02
    many = alignment(z, source, method="sampled", num_blocks=60)
    assert abs(many / exact - 1) < 0.01


@pytest.mark.parametrize(("limit", "method"), [(0, "exact"), (-1, "sampled")])
def test_many_features_are_sampled(limit: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = points(ROWS + 200)
    z, source = draw("orthogonal"), ArraySource(X, y)
    monkeypatch.setattr(module, "EXACT_FEATURES", z.num_features + limit)
    exact, sampled = (alignment(z, source, method=name, num_blocks=2) for name in ("exact", "sampled"))
    assert exact != sampled
    assert alignment(z, source, num_blocks=2) == {"exact": exact, "sampled": sampled}[method]


def test_few_rows_are_one_block_and_exact() -> None:
    X, y = points(300)
    assert len(X) < ROWS
    found = alignment(draw("laplacian"), ArraySource(X, y), method="sampled", num_blocks=1)
    assert found == pytest.approx(naive("laplacian", X, y), rel=1e-5)


def test_bad_arguments() -> None:
    X, y = points(20)
    with pytest.raises(ValueError, match=r"method must be one of \['auto', 'exact', 'sampled'\], got 'naive'"):
        public(draw("laplacian"), ArraySource(X, y), method="naive")
    with pytest.raises(ValueError, match="must hold at least two classes"):
        public(draw("laplacian"), ArraySource(X, torch.zeros(20, dtype=torch.long)))
