"""Settings: JSON round trips, invalid values, and titles of models."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bochner.acoustic.settings import (
    KernelSettings,
    ModelSettings,
    NetworkSettings,
    settings_from_json,
    settings_to_json,
)
from bochner.search import SelectionParams


@pytest.mark.parametrize(
    "settings",
    [
        KernelSettings(kernel="laplacian", rank=8, selection=SelectionParams(rounds=3), adapt="agop", bandwidth=2.0),
        NetworkSettings(hidden=(4, 5), activation="relu", criterion="erll:1"),
        NetworkSettings(hidden=(4, 5), dilations=(1, 3), weight_decay=0.1),
        KernelSettings(num_features=64, adapt="dab", dilations=(1, 3), width=16),
    ],
)
def test_json_keeps_everything(settings: ModelSettings) -> None:
    assert settings_from_json(json.loads(json.dumps(settings_to_json(settings)))) == settings


def test_unknown_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"\['bandwith'\]"):
        settings_from_json({"kind": "kernel", "bandwith": 3})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_features": 101}, "num_features must be even"),
        ({"kernel": "cubic"}, "kernel must be one of"),
        ({"criterion": "bleu"}, "criterion must be one of.*bleu"),
        ({"rank": 0}, "rank must be .*0"),
        ({"kernel": "auto"}, "kernel='auto' needs a preset"),
        ({"bandwidth": -1.0}, "bandwidth must be .*-1"),
        ({"adapt": "rb"}, "adapt must be one of"),
        ({"adapt": "sab", "selection": SelectionParams()}, "selection must be None with adapt='sab'"),
        ({"dilations": (1, 3)}, r"dilations must be empty unless .*got \[1, 3\] with kernel='gaussian' and adapt=None"),
        ({"adapt": "dab", "kernel": "laplacian", "dilations": (1,)}, r"dilations must be empty .*kernel='laplacian'"),
    ],
)
def test_invalid_settings_are_errors(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelSettings(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"dropout": 1.5}, "dropout must be at least 0 and less than 1, got 1.5"),
        ({"dilations": (1, 1, 1), "hidden": (8,)}, "dilations must be at most one per hidden layer, 1"),
        ({"weight_decay": -1.0}, "weight_decay must be .*-1"),
        ({"schedule": "linear"}, "schedule must be one of"),
    ],
)
def test_invalid_settings_of_networks_are_errors(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkSettings(**wrong)  # type: ignore[arg-type]


def test_an_automatic_size_must_be_fitted_before_it_is_planned() -> None:
    settings = KernelSettings(num_features="auto")
    with pytest.raises(ValueError, match='num_features must be a number, got "auto"'):
        settings.plan()
    assert settings.fitted_to(num_rows=1000, num_states=10).plan().n_components == 1024


def test_titles_name_the_settings() -> None:
    selected = KernelSettings(kernel="laplacian", num_features=64, selection=SelectionParams(), criterion="erll:1")
    assert selected.title == "laplacian 64 selection erll:1"
    assert KernelSettings(num_features=64, adapt="dab").title == "gaussian 64 dab"
    assert KernelSettings(num_features=64, adapt="dab", dropout=0.25).title == "gaussian 64 dab dropout 0.25"
    assert KernelSettings(num_features=64, adapt="dab", dilations=(1,)).title == "gaussian 64 dab convolutional"
    assert NetworkSettings(hidden=(8, 4), rank=3).title == "relu 8-4 rank 3"
    assert NetworkSettings(hidden=(8, 8), dilations=(1,), activation="gelu").title == "TDNN gelu 2x8"
    assert NetworkSettings(name="the baseline").title == "the baseline"


def test_dropout_is_that_of_the_basis() -> None:
    assert KernelSettings(num_features=64, adapt="dab", dropout=0.25).plan().adapt.dropout == 0.25
    with pytest.raises(ValueError, match=r"dropout must be at least 0 and less than 1, got 1\.0"):
        KernelSettings(num_features=64, adapt="dab", dropout=1.0)


@pytest.mark.parametrize(("minutes", "features", "epochs"), [(1, 2048, 60), (60, 12288, 11), (6000, 65536, 10)])
def test_automatic_sizes_grow_with_the_amount_of_speech(minutes: int, features: int, epochs: int) -> None:
    sizes = {"num_rows": 6000 * minutes, "num_states": 700}
    assert KernelSettings(num_features="auto").fitted_to(**sizes).num_features == features
    assert NetworkSettings(max_epochs="auto").fitted_to(**sizes).max_epochs == epochs


@pytest.mark.parametrize(
    ("rank", "num_states", "fitted"),
    [("auto", 97, None), ("auto", 300, 100), ("auto", 3000, 500), (100, 97, None), (50, 97, 50), (None, 97, None)],
)
def test_a_rank_is_below_the_number_of_states(rank: Any, num_states: int, fitted: int | None) -> None:
    assert KernelSettings(rank=rank).fitted_to(num_rows=10_000, num_states=num_states).rank == fitted
