"""Fits with a checkpoint_dir: finished stages are read, interrupted ones continue, and the model is the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from bochner import KernelClassifier, NetworkClassifier
from bochner.search import fit as search_fit
from bochner.search import kernel as search_kernel
from bochner.solvers import sgd
from tests.estimators.cases import NETWORK, QUICK, options, rings

X, y = rings(300)
STAGES = {
    "selection": ({"selection": 2}, "_select", "selection"),
    "agop": ({"adapt": {"method": "agop", "rounds": 1}}, "_learn_metric", "kernel"),
    "search": ({"bandwidth": "search"}, "_search_bandwidth", "kernel"),
    "uab": ({"adapt": "uab"}, "_adapt", "basis"),
}


class InterruptedFitError(Exception):
    """Raised in the middle of a fit, as a kill would end it."""


def fail(*_: Any, **__: Any) -> Any:
    raise InterruptedFitError


@pytest.fixture(autouse=True)
def short_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = replace(search_kernel.BASIS, batches=4, validation_batches=2, max_epochs=1)
    monkeypatch.setattr(search_kernel, "BASIS", basis)


def make(directory: Path | None, **changes: Any) -> KernelClassifier:
    return KernelClassifier(solver="sgd", **options(QUICK, checkpoint_dir=directory, max_epochs=4, **changes))


def fail_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises at the given call."""
    calls = iter(range(1, call + 1))

    def called(*arguments: Any, **keywords: Any) -> Any:
        if next(calls) == call:
            raise InterruptedFitError
        return function(*arguments, **keywords)

    return called


def interrupt(
    estimator: Any, labels: Any, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, function: Any
) -> None:
    """Fit the estimator while `function`, which raises, replaces that of the module."""
    with monkeypatch.context() as patch:
        patch.setattr(module, name, function)
        with pytest.raises(InterruptedFitError):
            estimator.fit(X, labels)


@pytest.mark.parametrize(("changes", "step", "stage"), STAGES.values(), ids=STAGES)
def test_a_finished_stage_is_read_and_not_repeated(
    changes: dict[str, Any], step: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make(None, **changes).fit(X, y)
    interrupt(make(tmp_path, **changes), y, monkeypatch, search_fit, "train", fail)
    assert (tmp_path / stage / "value.safetensors").exists()
    with monkeypatch.context() as patch:
        patch.setattr(search_kernel, step, fail)
        resumed = make(tmp_path, **changes).fit(X, y)
    np.testing.assert_array_equal(resumed.decision_function(X), expected.decision_function(X))
    assert resumed.choices_ == expected.choices_
    assert repr(resumed.kernel_) == repr(expected.kernel_)


@pytest.mark.parametrize(("changes", "step", "stage"), STAGES.values(), ids=STAGES)
def test_an_interrupted_stage_is_computed_again(
    changes: dict[str, Any], step: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = make(None, **changes).fit(X, y)
    interrupt(make(tmp_path, **changes), y, monkeypatch, search_kernel, step, fail)
    resumed = make(tmp_path, **changes).fit(X, y)
    np.testing.assert_array_equal(resumed.decision_function(X), expected.decision_function(X))


def test_a_search_of_bandwidths_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = make(None, bandwidth="search").fit(X, y)
    interrupt(
        make(tmp_path, bandwidth="search"), y, monkeypatch, search_kernel, "train", fail_at(3, search_kernel.train)
    )
    calls, train = [], search_kernel.train
    monkeypatch.setattr(search_kernel, "train", lambda *args, **more: calls.append(1) or train(*args, **more))
    resumed = make(tmp_path, bandwidth="search").fit(X, y)
    assert len(calls) == len(expected.choices_["tried"]) - 2
    assert resumed.choices_ == expected.choices_


def test_the_search_of_a_preset_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result may depend on time, and a checkpoint belongs to one kernel."""
    changes = {"preset": "fast", "time_limit": 60.0}
    interrupt(make(tmp_path, **changes), y, monkeypatch, sgd, "_epoch", fail_at(3, sgd._epoch))
    monkeypatch.setattr(search_fit, "search_plan", fail)
    resumed = make(tmp_path, **changes).fit(X, y)
    again = make(tmp_path, **changes).fit(X, y)
    np.testing.assert_array_equal(resumed.decision_function(X), again.decision_function(X))
    assert resumed.search_results_
    assert resumed.choices_ == again.choices_


@pytest.mark.parametrize(
    "changes",
    [{}, {"num_blocks": 2}, {"rank": 2}, {"adapt": "dab", "optimizer": "adamw", "schedule": "one-cycle"}],
    ids=["plain", "blocks", "bottleneck", "basis"],
)
@pytest.mark.parametrize("call", [2, 3])
def test_training_continues_after_its_last_epoch(
    changes: dict[str, Any], call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The epoch that was interrupted is repeated; those before it are not."""
    settings = {"learning_rate": 0.01 if "adapt" in changes else 1.0, "preconditioner_rank": 0, **changes}
    expected = make(None, **settings).fit(X, y)
    interrupt(make(tmp_path, **settings), y, monkeypatch, sgd, "_epoch", fail_at(call, sgd._epoch))
    resumed = make(tmp_path, **settings).fit(X, y)
    np.testing.assert_array_equal(resumed.decision_function(X), expected.decision_function(X))
    assert [record["ce"] for record in resumed.history_] == [record["ce"] for record in expected.history_]


@pytest.mark.parametrize("pretrain", [False, True])
def test_a_network_continues(pretrain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = options(NETWORK, hidden=(16, 8), pretrain=pretrain, batch_size=8, max_epochs=4)
    labels = X[:, 0] > 0  # an epoch of pre-training must learn something
    expected = NetworkClassifier(**settings).fit(X, labels)
    for call in (1, 2, 3):
        network = NetworkClassifier(**options(settings, checkpoint_dir=tmp_path))
        interrupt(network, labels, monkeypatch, sgd, "_epoch", fail_at(call, sgd._epoch))
    resumed = NetworkClassifier(**options(settings, checkpoint_dir=tmp_path)).fit(X, labels)
    np.testing.assert_array_equal(resumed.decision_function(X), expected.decision_function(X))


def test_a_stage_of_other_settings_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, selection=2).fit(X, y)
    for change in ({"selection": 3}, {"random_state": 1}, {"kernel": "laplacian"}):
        with pytest.raises(ValueError, match=r"other inputs.*there.*here|another configuration|other data"):
            make(tmp_path, **{"selection": 2, **change}).fit(X, y)
