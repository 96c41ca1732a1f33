"""Input transformations against NumPy and SciPy, column by column."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import rankdata
from torch import Tensor

import bochner
from bochner.kernels import Gaussian
from bochner.models import LandmarkModel, inputs
from bochner.models.inputs import TRANSFORMS, InputTransform, TransformedModel

every_kind = pytest.mark.parametrize("kind", TRANSFORMS)


def columns(n: int = 3000, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal, skewed, heavy-tailed, tied, mostly zero, large with little spread, two-valued and constant columns."""
    rng = np.random.default_rng(seed)
    X = [
        rng.normal(size=n),
        np.exp(2 * rng.normal(size=n)),
        rng.standard_cauchy(n),
        rng.integers(0, 5, n),
        np.where(rng.random(n) < 0.9, 0, rng.exponential(size=n)),
        1.6e9 + 50 * rng.random(n),
        np.where(rng.random(n) < 0.1, 7.0, 3.0),
        np.full(n, 0.1),
    ]
    return torch.from_numpy(np.stack(X, axis=1)).to(dtype)


BINARY = [False] * 6 + [True] * 2


def expected(kind: str, X: np.ndarray, x: np.ndarray) -> np.ndarray:
    """A column x of new rows, transformed by what is known of the column X."""
    if len(np.unique(X)) <= 2:
        return x - X.mean() if len(np.unique(X)) == 1 else (x - X.mean()) / (X.max() - X.min())
    if kind == "standard":
        return np.clip((x - X.mean()) / X.std(), -20, 20)
    q1, median, q3 = np.quantile(X, [0.25, 0.5, 0.75], method="nearest")
    t = (x - median) / ((q3 - q1) / 1.349 if q3 > q1 else X.std())
    return t / np.sqrt(1 + (t / 3) ** 2)


@pytest.mark.parametrize("kind", ["standard", "robust"])
def test_standard_and_robust_values(kind: str) -> None:
    X, new = columns(), columns(500, seed=1)
    transform = InputTransform.fit(kind, X)
    assert transform.binary.tolist() == BINARY
    assert transform.num_outputs == 8
    right = np.stack([expected(kind, a, b) for a, b in zip(X.numpy().T, new.numpy().T, strict=True)], axis=1)
    # quartiles may be the neighbouring row
    np.testing.assert_allclose(transform(new), right, rtol=0, atol=1e-6 if kind == "standard" else 2e-2)


@pytest.mark.parametrize("n", [3, 100, 512, 3000, 20_000])
def test_normal_scores_are_those_of_the_ranks(n: int) -> None:
    X = columns(n)
    ranks = rankdata(X.numpy(), axis=0)
    scores = InputTransform.fit("normal", X, torch.tensor(BINARY))(X)[:, :6].numpy()
    right = ndtri((ranks - 0.5) / n)[:, :6]
    # within two knots, or ranks where these are further apart; if rows are few, every value has a knot
    bound = 1e-6 if n <= 100 else 2 * (2 * ndtri(1 - 0.5 / n) / 511)
    assert np.abs(scores - right).max() < bound
    for column in range(6):  # the order of rows is kept, and ties stay ties
        order = np.argsort(X[:, column].numpy(), kind="stable")
        assert (np.diff(scores[order, column]) >= -1e-12).all()
        assert len(np.unique(scores[:, column])) <= len(np.unique(X[:, column].numpy()))


def test_scores_between_and_beyond_the_knots() -> None:
    transform = InputTransform.fit("normal", torch.tensor([[0.0], [1.0], [5.0]]))
    end = ndtri(5 / 6)
    x = torch.tensor([-math.inf, -9.0, 0.0, 0.5, 1.0, 2.0, 5.0, 6.0, math.inf])
    right = [-end, -end, -end, -end / 2, 0, end / 4, end, end, end]
    np.testing.assert_allclose(transform(x[:, None])[:, 0], right, atol=1e-6)
    assert transform(torch.tensor([[math.nan]])).isnan().all()


def test_both_is_standard_and_normal_scores_of_the_numbers() -> None:
    X, new = columns(), columns(500, seed=1)
    standard, normal, both = (InputTransform.fit(kind, X) for kind in ("standard", "normal", "both"))
    assert both.num_outputs == 14
    assert both.sources.tolist() == [*range(8), *range(6)]
    assert normal.sources.tolist() == standard.sources.tolist() == list(range(8))
    torch.testing.assert_close(both(new), torch.cat([standard(new), normal(new)[:, :6]], dim=1), rtol=0, atol=0)


@every_kind
@pytest.mark.parametrize("factor", [1e6, 1e-6, 1e150, 1e-200])
def test_the_unit_of_a_column_changes_nothing(kind: str, factor: float) -> None:
    X, new = columns(), columns(500, seed=1)
    right = InputTransform.fit(kind, X)(new)
    for column in range(8):
        unit = torch.ones(8, dtype=torch.float64)
        unit[column] = factor
        torch.testing.assert_close(InputTransform.fit(kind, X * unit)(new * unit), right, rtol=0, atol=1e-5)


@every_kind
def test_rows_in_float32(kind: str) -> None:
    X, new = columns(dtype=torch.float32), columns(500, seed=1, dtype=torch.float32)
    Z = InputTransform.fit(kind, X)(new)
    assert Z.dtype == torch.float32
    right = InputTransform.fit(kind, X.double())(new.double())
    torch.testing.assert_close(Z.double(), right, rtol=1e-6, atol=1e-6)


@every_kind
def test_outliers_stay_in_range_and_in_order(kind: str) -> None:
    X = columns(dtype=torch.float32)
    transform = InputTransform.fit(kind, X)
    sizes = torch.tensor([0.0, 1e3, 1e6, 1e20, 3e38, math.inf])
    for sign in (1.0, -1.0):
        Z = transform((sign * sizes)[:, None].expand(6, 8).contiguous()) * sign
        assert Z.isfinite().all()
        assert (Z.abs() <= 20).all()
        assert (Z.diff(dim=0) >= 0).all()


@every_kind
def test_two_valued_columns_are_only_centred(kind: str) -> None:
    X = columns()
    Z = InputTransform.fit(kind, X)(X)
    np.testing.assert_allclose(Z[:, 6].unique(), np.unique(X[:, 6] - X[:, 6].mean()) / 4, atol=1e-12)
    assert float(Z[:, 7].abs().max()) < 1e-12


@every_kind
def test_columns_that_are_constant_where_fitted(kind: str) -> None:
    """Not marked two-valued, because other rows have other values."""
    X = columns(50)
    X[:, :2] = torch.tensor([0.0, 1.6e9])
    Z = InputTransform.fit(kind, X, torch.zeros(8, dtype=torch.bool))(X)
    assert Z[:, [0, 1, 7]].abs().max() < 1e-6
    assert InputTransform.fit(kind, X[:1])(X).isfinite().all()


@every_kind
def test_rows_do_not_depend_on_their_block(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    transform, X = InputTransform.fit(kind, columns()), columns(500, seed=1)
    right = transform(X)
    monkeypatch.setattr(inputs, "BLOCK_ELEMENTS", 7 * 8)
    torch.testing.assert_close(transform(X), right, rtol=0, atol=0)
    assert transform(X[:0]).shape == (0, transform.num_outputs)


@every_kind
def test_storage(kind: str, tmp_path: Path) -> None:
    X = columns(300)
    transform = InputTransform.fit(kind, X)
    Z = transform(X)
    landmarks = LandmarkModel(Gaussian(), Z[:20], torch.ones(20, 2).double(), torch.zeros(2).double())
    model = TransformedModel(transform, landmarks)
    torch.testing.assert_close(model(X), landmarks(Z), rtol=0, atol=0)
    bochner.save(model, tmp_path / "model")
    torch.testing.assert_close(bochner.load(tmp_path / "model")(X), model(X), rtol=0, atol=0)


def state(**changes: Any) -> dict[str, Any]:
    knots = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    plain = {"center": torch.zeros(2), "scale": torch.ones(2), "binary": torch.zeros(2, dtype=torch.bool)}
    return {"kind": "normal", **plain, "knots": knots, "values": knots, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "log"}, "kind must be one of"),
        ({"kind": "standard"}, "knots and values must be None"),
        ({"knots": None}, "knots and values must be given"),
        ({"center": torch.zeros(3)}, "one entry per input"),
        ({"center": torch.zeros(2, 1)}, "one entry per input"),
        ({"binary": torch.zeros(2)}, "one entry per input"),
        ({"scale": torch.tensor([1.0, 0.0])}, "scale must be positive"),
        ({"scale": torch.tensor([1.0, torch.nan])}, "scale must be positive"),
        ({"scale": torch.tensor([1.0, torch.inf])}, "scale must be finite"),
        ({"center": torch.zeros(2, dtype=torch.int64)}, "center must hold floats"),
        ({"knots": torch.zeros(2, 3)}, "knots and values must have shape"),
        ({"values": torch.zeros(3, 2)}, "knots and values must have shape"),
        ({"knots": torch.zeros(1, 2), "values": torch.zeros(1, 2)}, "knots and values must have shape"),
        ({"knots": torch.tensor([[1.0, 0.0], [0.0, 1.0]])}, "knots must not decrease"),
        ({"values": torch.full((2, 2), torch.nan)}, "values must be finite"),
    ],
    ids=str,
)
def test_hostile_states(changes: dict[str, Any], message: str) -> None:
    InputTransform(**state())
    with pytest.raises(ValueError, match=message):
        InputTransform(**state(**changes))


def test_bad_rows() -> None:
    X = columns(20)
    with pytest.raises(ValueError, match=r"X must have rows and columns, got shape \(0, 8\)"):
        InputTransform.fit("normal", X[:0])
    with pytest.raises(ValueError, match="X must have 8 columns, got 7"):
        InputTransform.fit("normal", X)(X[:, :7])
    X[3, 2] = torch.nan
    with pytest.raises(ValueError, match=r"X must be finite .*column 2"):
        InputTransform.fit("normal", X)
