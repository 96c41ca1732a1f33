"""Plans: settings from dicts, combinations that are rejected, fingerprints, tasks."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
import torch

from bochner.data import ArraySource
from bochner.kernels import Gaussian
from bochner.search import AdaptParams, KernelPlan, NetworkPlan, SelectionParams, SolverParams, make_task
from bochner.search.plan import NETWORK_PARAMS, as_adapt, as_params, as_selection, plan_inputs, resolve_device


def test_settings_from_a_dict_an_instance_or_nothing() -> None:
    params = SolverParams(batch_size=7)
    assert as_params(SolverParams, params, name="solver_params") is params
    assert as_params(SolverParams, {"batch_size": 7}, name="solver_params") == params
    assert as_params(SolverParams, None, name="solver_params") == SolverParams()
    partial = as_params(SolverParams, {"max_epochs": 3}, name="solver_params", defaults=NETWORK_PARAMS)
    assert partial == replace(NETWORK_PARAMS, max_epochs=3)
    assert as_adapt("uab") == as_adapt({"method": "uab"}) == AdaptParams(method="uab")
    assert as_selection(3) == as_selection({"rounds": 3}) == SelectionParams(rounds=3)
    assert as_selection({"method": "fobos"}).rounds == 10
    assert as_adapt(None) is as_selection(None) is None
    adapt, selection = AdaptParams(method="uab"), SelectionParams(rows_per_round=5)
    assert as_adapt(adapt) is adapt
    assert as_selection(selection) is selection


@pytest.mark.parametrize("name", [entry.name for entry in fields(SolverParams)])
def test_every_option_is_suggested_when_misspelt(name: str) -> None:
    for misspelt in (name + "s", name[:-2] + name[-1] + name[-2], name.upper()[:1] + name[1:]):
        with pytest.raises(ValueError, match=f"solver_params .*'{misspelt}'.*did you mean '{name}'"):
            as_params(SolverParams, {misspelt: 1}, name="solver_params")


def test_an_option_like_no_other_lists_all_of_them() -> None:
    with pytest.raises(ValueError, match=r"adapt has no option 'xyz'\. .*method.*rounds.*num_landmarks"):
        as_adapt({"method": "agop", "xyz": 1})


@pytest.mark.parametrize("value", ["fast", 3, [("rank", 2)], True])
def test_other_values_are_rejected(value: Any) -> None:
    with pytest.raises(ValueError, match="solver_params must be a dict or SolverParams"):
        as_params(SolverParams, value, name="solver_params")
    with pytest.raises(ValueError, match="selection must be a dict or SelectionParams"):
        as_selection(True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidth": 1.0, "gamma": 0.5}, "bandwidth=1.0 and gamma=0.5"),
        ({"solver": "lbfgs"}, "solver .*'lbfgs'"),
        ({"n_components": 0}, "n_components .*0"),
        ({"selection": SelectionParams(), "adapt": AdaptParams(method="dab")}, "selection .*adapt='dab'"),
        ({"selection": SelectionParams(), "params": SolverParams(num_blocks=2)}, "num_blocks .*got 2"),
        ({"adapt": AdaptParams(method="sab"), "params": SolverParams(num_blocks=2)}, "num_blocks .*got 2"),
        ({"n_components": 64, "params": SolverParams(num_blocks=3)}, "num_blocks, 3, got 64"),
    ],
)
def test_combinations_that_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelPlan(**arguments)


def test_a_learned_metric_and_a_selection_can_be_combined() -> None:
    plan = KernelPlan(adapt=AdaptParams(method="agop"), selection=SelectionParams())
    assert plan.basis is None
    assert plan.needs_sgd.startswith("selection=")


@pytest.mark.parametrize(("hidden", "message"), [((), "hidden"), ((4, 0), "hidden .*0"), ((2.5,), "hidden .*2.5")])
def test_networks_that_are_rejected(hidden: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkPlan(hidden=hidden)
    with pytest.raises(ValueError, match=r"activation .*'sigmoid'"):
        NetworkPlan(activation="sigmoid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="standardize must be False with dilations"):
        NetworkPlan(hidden=(4, 4), dilations=(1, 2))
    assert NetworkPlan(hidden=(4, 4), dilations=(1, 2), standardize=False).dilations == (1, 2)


@pytest.mark.parametrize("rows", [0, -1, 2.0])
def test_rows_per_round_must_be_a_count(rows: Any) -> None:
    with pytest.raises(ValueError, match=f"rows_per_round must be .*{rows}"):
        SelectionParams(rows_per_round=rows)


def test_inputs_of_a_plan_are_plain_and_tell_plans_apart() -> None:
    plans = [
        KernelPlan(),
        KernelPlan(kernel="laplacian"),
        KernelPlan(kernel=Gaussian(bandwidth=2.0)),
        KernelPlan(kernel=Gaussian(bandwidth=3.0)),
        KernelPlan(alpha=1e-3),
        KernelPlan(adapt=AdaptParams(method="agop")),
        KernelPlan(adapt=AdaptParams(method="agop", rounds=2)),
        KernelPlan(selection=SelectionParams(rounds=2)),
        KernelPlan(params=SolverParams(rank=3)),
        KernelPlan(params=SolverParams(precision="float64")),
        NetworkPlan(),
        NetworkPlan(hidden=(3,)),
    ]
    texts = {json.dumps(plan_inputs(plan), sort_keys=True) for plan in plans}
    assert len(texts) == len(plans)


def test_inputs_of_a_plan_do_not_say_where_it_runs() -> None:
    here = SolverParams(device="cpu", checkpoint_dir="a", tracking="tensorboard:b", memory_budget="1GB")
    assert plan_inputs(KernelPlan(params=here)) == plan_inputs(KernelPlan())


def test_a_task_is_in_the_dtype_of_its_precision() -> None:
    source = ArraySource(torch.randn(6, 2), torch.tensor([0, 1, 1, 1, 0, 1]))
    for precision, dtype in (("float64", torch.float64), ("bf16", torch.float32)):
        params = SolverParams(precision=precision, device="cpu")
        task = make_task(source, source, source, num_classes=2, seed=0, params=params)
        assert task.loss == "logistic"
        assert task.train.read(0).X.dtype == task.dtype == dtype
        torch.testing.assert_close(task.mean.double(), torch.tensor([1 / 3, 2 / 3]).double(), rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match=r"device .*'gpu7'"):
        resolve_device("gpu7")


@pytest.mark.parametrize("name", ["scale", "metric"])
def test_kernels_that_differ_in_a_tensor_have_different_fingerprints(name: str) -> None:
    kernels = [Gaussian(**{name: factor * (torch.eye(2) if name == "metric" else torch.ones(2))}) for factor in (1, 2)]
    first, second = (plan_inputs(KernelPlan(kernel=kernel)) for kernel in kernels)
    assert first["kernel"] == second["kernel"]  # the repr has shapes only
    assert first != second
