"""Sparse Random Features: the l1 problem compared with scikit-learn and its optimality conditions, and the rounds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from sklearn.linear_model import Lasso
from torch import Generator, Tensor

from bochner.adaptation import sparse
from bochner.adaptation.selection import input_weights
from bochner.adaptation.sparse import SparseProblem, fit_sparse, select_sparse
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import SparseGaussian
from bochner.models.losses import LOSSES
from bochner.solvers.rows import Tile
from tests.solvers.runs import generator

NUM_INPUTS, USEFUL = 12, 2


def draw_for(form: str = "paired", dtype: torch.dtype = torch.float32) -> Any:
    def draw(num_features: int, generator: Generator) -> FourierMap:
        return FourierMap.draw(
            SparseGaussian(subset_size=2, bandwidth=1.5),
            num_inputs=NUM_INPUTS,
            num_features=num_features,
            form=form,
            generator=generator,
            dtype=dtype,
        )

    return draw


def inputs(count: int, *, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(count, NUM_INPUTS, generator=generator(seed), dtype=dtype)


def signal(X: Tensor) -> Tensor:
    """Two of twelve inputs matter."""
    return torch.sin(2 * X[:, 0]) + X[:, 1].square()


def problem(loss: str, form: str, *, weighted: bool = False, num_features: int = 40) -> SparseProblem:
    X = inputs(300, dtype=torch.float64)
    y = signal(X)
    if loss == "squared":
        targets = torch.stack([y, X[:, 2]], dim=1)
    else:
        classes = (y > 0.5).long() + (0 if loss == "logistic" else (X[:, 2] > 0).long())
        targets = torch.nn.functional.one_hot(classes).double()
    weight = torch.rand(300, generator=generator(1), dtype=torch.float64) if weighted else torch.ones(300).double()
    z = draw_for(form, torch.float64)(num_features, generator(2))
    return SparseProblem(z, Tile(X, targets, weight), LOSSES[loss])


@pytest.mark.parametrize("penalty", [0.001, 0.02, 0.1])
def test_one_output_of_cosines_is_the_lasso(penalty: float) -> None:
    whole = problem("squared", "cosine")
    single = SparseProblem(whole.z, whole.rows._replace(targets=whole.rows.targets[:, :1]), whole.loss)
    solution = fit_sparse(single, penalty=penalty, tolerance=1e-9, max_iterations=20_000)
    phi = (whole.z(whole.rows.X) * 40**0.5).numpy()
    lasso = Lasso(alpha=penalty, tol=1e-12, max_iter=200_000).fit(phi, single.rows.targets[:, 0].numpy())
    torch.testing.assert_close(solution.weights[0], torch.as_tensor(lasso.coef_), rtol=1e-4, atol=1e-6)
    assert float(solution.bias) == pytest.approx(lasso.intercept_, rel=1e-4, abs=1e-5)
    assert (solution.weights[0] == 0).tolist() == (lasso.coef_ == 0).tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", ["paired", "cosine"])
@pytest.mark.parametrize("loss", ["softmax", "logistic", "squared"])
def test_solutions_are_optimal(loss: str, form: str, weighted: bool) -> None:
    """Zero frequencies have gradients of at most the penalty; the others' gradients are -penalty theta / ||theta||."""
    given, penalty = problem(loss, form, weighted=weighted), 0.03
    W, b, objective = fit_sparse(given, penalty=penalty, tolerance=1e-7, max_iterations=5000)
    W, b = W.requires_grad_(), b.requires_grad_()
    z, rows = given.z, given.rows
    scores = z(rows.X) * z.num_frequencies**0.5 @ W.T + b
    y = rows.targets.argmax(dim=1) if loss != "squared" else rows.targets
    value = (LOSSES[loss].value(scores, y) * rows.weight).sum() / 300
    slopes, bias_slope = torch.autograd.grad(value, [W, b])
    assert bias_slope.abs().max() < 1e-6
    P = z.num_frequencies
    groups = [[j] if form == "cosine" else [j, j + P] for j in range(P)]
    norms = [float(W[:, group].detach().norm()) for group in groups]
    for group, norm in zip(groups, norms, strict=True):
        slope, theta = slopes[:, group], W[:, group].detach()
        if norm == 0:
            assert slope.norm() < penalty * (1 + 1e-6)
        else:
            torch.testing.assert_close(slope, -penalty * theta / norm, rtol=0, atol=1e-6)
    assert 0 < sum(norm > 0 for norm in norms) < P
    assert objective == pytest.approx(value.item() + penalty * sum(norms), rel=1e-9)


def test_features_that_do_not_fit_into_memory_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = fit_sparse(problem("softmax", "paired"), penalty=0.03)
    monkeypatch.setattr(sparse, "CACHED_ELEMENTS", 0)
    monkeypatch.setattr(sparse, "TILE_ELEMENTS", 40 * 70)
    streamed = fit_sparse(problem("softmax", "paired"), penalty=0.03)
    torch.testing.assert_close(streamed.weights, cached.weights)


def test_a_step_that_is_too_long_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = fit_sparse(problem("squared", "paired"), penalty=0.02, tolerance=1e-6, max_iterations=5000)
    monkeypatch.setattr(sparse, "SPREAD_MARGIN", 0.2)
    hasty = fit_sparse(problem("squared", "paired"), penalty=0.02, tolerance=1e-6, max_iterations=5000)
    torch.testing.assert_close(hasty.weights, expected.weights, rtol=1e-3, atol=1e-4)


def classes(count: int, seed: int = 0) -> ArraySource:
    X = inputs(count, seed=seed)
    return ArraySource(X, (signal(X) > 0.5).long(), shard_rows=300)


def selected(form: str = "paired", **changed: Any) -> sparse.SparseSelection:
    options = {"loss": "softmax", "num_classes": 2, "num_features": 48, "rounds": 4, "verbose": False, **changed}
    return select_sparse(draw_for(form), classes(1000), generator=generator(3), **options)


@pytest.mark.parametrize("form", ["paired", "cosine"])
def test_rounds_keep_a_growing_share_and_draw_the_rest(form: str) -> None:
    chosen, P = selected(form), 24 if form == "paired" else 48
    assert (chosen.feature_map.num_features, chosen.feature_map.form) == (48, form)
    assert [len(kept) for kept in chosen.kept] == [P // 4, P // 2, 3 * P // 4]
    assert chosen.drawn == [P, 3 * P // 4, P // 2, P // 4]
    assert chosen.births.bincount(minlength=5)[1:].sum() == P
    assert len(chosen.penalties) == 3
    assert all(a >= b for a, b in pairwise(chosen.penalties))  # more are kept with a smaller penalty


def test_at_a_fixed_penalty_the_minimum_falls_and_the_solution_decides_what_is_kept() -> None:
    chosen = selected(penalty=0.02, rounds=6)
    assert chosen.penalties == [0.02] * 5
    assert all(a >= b * (1 - 1e-4) for a, b in pairwise(chosen.objectives))
    assert chosen.objectives[-1] < 0.97 * chosen.objectives[0]
    z, source = draw_for()(48, generator(3)), classes(1000)
    X = torch.cat([source.read(shard).X for shard in range(4)])
    y = torch.cat([source.read(shard).y for shard in range(4)])
    rows = Tile(X, torch.nn.functional.one_hot(y).float(), torch.ones(1000))
    first = fit_sparse(SparseProblem(z, rows, LOSSES["softmax"]), penalty=0.02)
    nonzero = first.weights.reshape(2, 2, 24).norm(dim=(0, 1)) > 0
    assert 0 < int(nonzero.sum()) == len(chosen.kept[0]) < 24


def test_nothing_is_dropped_without_a_penalty() -> None:
    chosen = selected(penalty=0.0, rounds=5)
    assert len(chosen.objectives) == 1
    assert chosen.births.tolist() == [1] * 24


def test_useful_inputs_are_found() -> None:
    source = classes(3000, seed=5)
    weights = [
        input_weights(
            select_sparse(
                draw_for(),
                source,
                loss="logistic",
                num_classes=2,
                num_features=120,
                rounds=6,
                generator=generator(seed),
                verbose=False,
            ).feature_map
        )
        for seed in range(4)
    ]
    mean = torch.stack(weights).mean(dim=0)
    assert mean[:USEFUL].mean() > 1.5 * mean[USEFUL:].mean()  # 1 by chance


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"penalty must be one of \['auto'\], got 'small'"):
        selected(penalty="small")
    with pytest.raises(ValueError, match=r"penalty must be a non-negative finite number, got -1\.0"):
        selected(penalty=-1.0)
    with pytest.raises(ValueError, match=r"rounds must be at most 24.*Got 25"):
        selected(rounds=25)
    with pytest.raises(ValueError, match="num_classes must be given with loss='softmax'"):
        selected(num_classes=None)
    with pytest.raises(ValueError, match="num_rows must be an integer"):
        selected(num_rows=0)
