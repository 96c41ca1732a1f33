"""Settings: what JSON keeps, what is refused, and what a model is called."""

from __future__ import annotations

import json

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
        ({"bandwidth": -1.0}, "bandwidth must be .*-1"),
        ({"adapt": "rb"}, "adapt must be one of"),
        ({"adapt": "sab", "selection": SelectionParams()}, "selection must be None with adapt='sab'"),
    ],
)
def test_mistakes_are_refused_at_once(wrong: dict[str, object], message: str) -> None:
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
def test_mistakes_of_networks_are_refused_at_once(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkSettings(**wrong)  # type: ignore[arg-type]


def test_titles_say_the_tricks() -> None:
    selected = KernelSettings(kernel="laplacian", num_features=64, selection=SelectionParams(), criterion="erll:1")
    assert selected.title == "laplacian 64 selection erll:1"
    assert KernelSettings(num_features=64, adapt="dab").title == "gaussian 64 dab"
    assert NetworkSettings(hidden=(8, 4), rank=3).title == "relu 8-4 rank 3"
    assert NetworkSettings(hidden=(8, 8), dilations=(1,), activation="gelu").title == "TDNN gelu 2x8"
    assert NetworkSettings(name="the baseline").title == "the baseline"
