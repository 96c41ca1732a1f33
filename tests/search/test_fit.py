"""The assembly: which solver is chosen, blocks of features, networks, tracking, reproducibility."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bochner import KernelClassifier, KernelRegressor, NetworkClassifier, NetworkRegressor
from bochner.data import ArraySource
from bochner.models.heads import LogitAverage
from bochner.search import (
    AdaptParams,
    KernelPlan,
    NetworkPlan,
    SelectionParams,
    SolverParams,
    choose_solver,
    fit_model,
    make_task,
)
from tests.estimators.cases import NETWORK, QUICK, options, rings, waves

FEW, MANY = 2048, 2049


@pytest.mark.parametrize(
    ("arguments", "rows", "classes", "solver"),
    [
        ({}, FEW, 3, "newton"),
        ({}, FEW, None, "landmarks"),
        ({}, FEW, 10, "newton"),
        ({}, FEW, 26, "sgd"),
        ({}, 1500, 26, "newton"),
        ({}, 1000, 1000, "newton"),
        ({}, 1500, 1000, "sgd"),
        ({}, MANY, 3, "sgd"),
        ({}, MANY, None, "landmarks"),
        ({}, 10**5, None, "ridge"),
        ({"n_components": 256}, MANY, None, "ridge"),
        ({"params": SolverParams(memory_budget="100MB")}, MANY, None, "ridge"),
        ({"n_components": 8192}, 10**5, None, "ridge"),
        ({"n_components": 8193}, 10**5, None, "sgd"),
        ({"n_components": 8193}, FEW, None, "landmarks"),
        ({"params": SolverParams(rank=2)}, FEW, 3, "sgd"),
        ({"params": SolverParams(num_blocks=2)}, FEW, None, "sgd"),
        ({"params": SolverParams(checkpoint_dir="here")}, FEW, 3, "sgd"),
        ({"selection": SelectionParams()}, FEW, 3, "sgd"),
        ({"adapt": AdaptParams(method="agop")}, FEW, 3, "newton"),
        ({"adapt": AdaptParams(method="uab")}, FEW, 3, "sgd"),
        ({"adapt": AdaptParams(method="dab")}, FEW, None, "ridge"),
        ({"adapt": AdaptParams(method="dab"), "n_components": 8194}, FEW, None, "sgd"),
        *(
            ({"solver": solver}, MANY, 3, solver)
            for solver in ("sgd", "ridge", "landmarks", "newton", "saga", "askotch", "eigenpro")
        ),
        ({"solver": "exact"}, FEW, 3, "landmarks"),
        ({"solver": "exact"}, 10**6, 3, "askotch"),
        ({"solver": "exact", "params": SolverParams(memory_budget="100MB")}, MANY, 3, "askotch"),
    ],
)
def test_the_solver_of_a_plan(arguments: dict[str, Any], rows: int, classes: int | None, solver: str) -> None:
    assert choose_solver(KernelPlan(**arguments), num_rows=rows, num_classes=classes) == solver


@pytest.mark.parametrize(
    ("arguments", "classes", "message"),
    [
        ({"solver": "newton"}, None, "'newton' .*'landmarks'"),
        ({"adapt": AdaptParams(method="sab")}, None, "'sab' .*'uab' or 'dab'"),
        ({"adapt": AdaptParams(method="uab"), "solver": "landmarks"}, 3, "adapt='uab' .*got 'landmarks'"),
        ({"selection": SelectionParams(), "solver": "saga"}, 3, "selection=.*'sgd', got 'saga'"),
        ({"params": SolverParams(rank=2), "solver": "ridge"}, 3, "rank=2 .*'sgd', got 'ridge'"),
    ],
)
def test_solvers_that_do_not_fit_the_plan(arguments: dict[str, Any], classes: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_solver(KernelPlan(**arguments), num_rows=FEW, num_classes=classes)


# -- blocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, 4])
def test_blocks_are_trained_separately_and_averaged(blocks: int) -> None:
    X, y = rings(300)
    fitted = KernelClassifier(solver="sgd", **options(QUICK, num_blocks=blocks)).fit(X, y)
    assert isinstance(fitted.model_, LogitAverage)
    rows = torch.as_tensor(X, dtype=torch.float32)
    scores = [part(rows).detach() for part in fitted.model_.models]
    assert [part.feature_map.num_features for part in fitted.model_.models] == [64 // blocks] * blocks
    np.testing.assert_allclose(fitted.decision_function(X), torch.stack(scores).mean(dim=0), atol=1e-5)
    assert sorted({record["block"] for record in fitted.history_}) == list(range(blocks))
    frequencies = [part.feature_map.frequencies() for part in fitted.model_.models]
    assert not torch.equal(frequencies[0], frequencies[1])


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pretrain", [False, True])
def test_standardisation_is_folded_into_the_first_layer(pretrain: bool) -> None:
    """The network on raw inputs equals one that was trained on inputs standardised beforehand."""
    X, y = rings(400)
    raw = X * [1e-2, 1e3] + [5.0, -7e3]
    settings = options(NETWORK, pretrain=pretrain, precision="float64", hidden=(16, 8), batch_size=8, max_epochs=5)
    folded = NetworkClassifier(**settings).fit(raw, y)
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    explicit = NetworkClassifier(**{**settings, "standardize": False}).fit(scaled, y)
    np.testing.assert_allclose(folded.decision_function(raw), explicit.decision_function(scaled), atol=1e-6)


def test_a_constant_input_does_no_harm_to_a_network() -> None:
    X, y = waves(300)
    padded = np.hstack([X, np.full((300, 1), 7.0)])
    assert np.isfinite(NetworkRegressor(**NETWORK).fit(padded, y).predict(padded)).all()


def test_the_settings_of_a_network_reach_its_layers() -> None:
    X, y = rings(200)
    network = NetworkClassifier(**options(NETWORK, hidden=(5, 7), activation="tanh", rank=2)).fit(X, y)
    shapes = {tuple(parameter.shape) for parameter in network.model_.parameters()}
    assert {(5, 2), (7, 5)} <= shapes or {(2, 5), (5, 7)} <= shapes
    penalised = NetworkClassifier(**options(NETWORK, alpha=3.0)).fit(X, y)
    plain = NetworkClassifier(**NETWORK).fit(X, y)

    def norm(estimator: NetworkClassifier) -> float:
        return float(sum(parameter.detach().square().sum() for parameter in estimator.model_.head.parameters()))

    assert norm(penalised) < 0.7 * norm(plain)


# -- reproducibility and tracking --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        KernelPlan(n_components=32, solver="sgd", params=SolverParams(max_epochs=2, batch_size=16)),
        KernelPlan(n_components=32, bandwidth="search", params=SolverParams(max_epochs=2, batch_size=16)),
        KernelPlan(n_components=32, adapt=AdaptParams(method="agop", rounds=1), solver="ridge"),
        NetworkPlan(hidden=(4,), params=SolverParams(max_epochs=2, batch_size=16, optimizer="adam")),
    ],
    ids=["sgd", "search", "agop", "network"],
)
def test_the_same_seed_gives_the_same_model(plan: KernelPlan | NetworkPlan) -> None:
    X, y = (torch.as_tensor(part) for part in rings(300))
    train, validation, everything = ArraySource(X[:250], y[:250]), ArraySource(X[250:], y[250:]), ArraySource(X, y)

    def scores(seed: int) -> torch.Tensor:
        task = make_task(train, validation, everything, num_classes=3, seed=seed, params=plan.params)
        fitted = fit_model(plan, task, verbose=False)
        return fitted.model(X.float()).detach()

    assert torch.equal(scores(0), scores(0))
    assert not torch.equal(scores(0), scores(1))


@pytest.mark.parametrize("cls", [KernelClassifier, KernelRegressor, NetworkClassifier])
def test_epochs_are_tracked_by_tensorboard(cls: type, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs bochner[tensorboard]")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    X, y = rings(200)
    settings = options(NETWORK if cls is NetworkClassifier else QUICK, tracking=f"tensorboard:{tmp_path}", max_epochs=3)
    fitted = cls(**settings, **({} if cls is NetworkClassifier else {"solver": "sgd"})).fit(X, y)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    criterion = "mse" if cls is KernelRegressor else "ce"
    tracked = [event.value for event in events.Scalars(criterion)]
    assert tracked == pytest.approx([record[criterion] for record in fitted.history_], rel=1e-6)
