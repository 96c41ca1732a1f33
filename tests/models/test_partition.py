"""Models of parts of the input space: routing against a loop over rows and nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, Tensor, nn

import bochner
from bochner.kernels import Gaussian
from bochner.models import LandmarkModel
from bochner.models.partition import PartitionedModel

BRANCHES = [[1, 3], [-1, 2], [-4, -3], [-2, 4], [-5, -6]]


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=Generator().manual_seed(seed), dtype=torch.float64)


def tree(**changes: Any) -> dict[str, Any]:
    models = [
        LandmarkModel(Gaussian(), normal(5, 3, seed=leaf), normal(5, 2, seed=leaf + 10), normal(2, seed=leaf + 20))
        for leaf in range(6)
    ]
    plain = {"directions": normal(5, 3, seed=1), "thresholds": 0.3 * normal(5, seed=2)}
    return {**plain, "branches": torch.tensor(BRANCHES), "models": models, **changes}


def leaf_of(model: PartitionedModel, x: Tensor) -> int:
    place = 0
    while place >= 0:
        side = int(float(x @ model.directions[place]) > float(model.thresholds[place]))
        place = BRANCHES[place][side]
    return -1 - place


def test_every_row_is_routed_and_predicted_by_its_leaf() -> None:
    model, X = PartitionedModel(**tree()), normal(300, 3, seed=0)
    leaves = [leaf_of(model, x) for x in X]
    assert set(leaves) == set(range(6))
    assert model.leaves(X).tolist() == leaves
    right = torch.cat([model.models[leaf](x[None]) for leaf, x in zip(leaves, X, strict=True)])
    torch.testing.assert_close(model(X), right, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    assert PartitionedModel(**tree())(normal(300, 3, seed=0)[:rows]).shape == (rows, 2)


def test_storage_and_float32_rows(tmp_path: Path) -> None:
    model, X = PartitionedModel(**tree()), normal(300, 3, seed=0).float()
    bochner.save(model, tmp_path / "model")
    scores = bochner.load(tmp_path / "model")(X)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, model(X), rtol=0, atol=0)


def test_a_row_with_a_hole_has_no_score() -> None:
    X = normal(3, 3, seed=0)
    X[1, 2] = torch.nan
    assert PartitionedModel(**tree())(X).isnan().any(dim=1).tolist() == [False, True, False]


def changed(node: int, side: int, value: int) -> Tensor:
    branches = torch.tensor(BRANCHES)
    branches[node, side] = value
    return branches


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"branches": changed(4, 1, 0)}, "every node but the root, and every leaf, once"),  # back to the root
        ({"branches": changed(4, 1, 5)}, "every node but the root"),
        ({"branches": changed(4, 1, -1)}, "every node but the root"),
        ({"branches": changed(4, 1, -7)}, "every node but the root"),
        ({"branches": torch.tensor([[-1, -2], [2, 3], [1, -3], [4, -4], [-5, -6]])}, "every node|later nodes"),
        ({"branches": torch.tensor([[2, 3], [-1, -2], [1, 4], [-3, -4], [-5, -6]])}, "must lead to later nodes"),
        ({"branches": torch.tensor(BRANCHES).double()}, "branches must be int64"),
        ({"branches": torch.tensor(BRANCHES)[:4]}, "must have shapes"),
        ({"thresholds": torch.zeros(5, 1)}, "must have shapes"),
        ({"thresholds": torch.zeros(())}, "must have shapes"),
        ({"thresholds": torch.zeros(5, dtype=torch.int64)}, "floats"),
        ({"thresholds": torch.full((5,), torch.nan)}, "thresholds must be finite"),
        ({"directions": torch.full((5, 3), torch.inf)}, "directions must be finite"),
        ({"directions": torch.zeros(5)}, "must have shapes"),
        ({"models": [nn.Linear(3, 2)] * 5}, "models must hold 6 leaves for 5 nodes, got 5"),
        (
            {"directions": torch.zeros(0, 3), "thresholds": torch.zeros(0), "branches": torch.zeros(0, 2).long()},
            "must have shapes",
        ),
    ],
    ids=lambda value: None,
)
def test_hostile_trees(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PartitionedModel(**tree(**changes))


def test_bad_rows() -> None:
    with pytest.raises(ValueError, match="X must have 3 columns, got 4"):
        PartitionedModel(**tree())(torch.zeros(2, 4))
