"""Acoustic models: classifiers of frames into HMM states, and decoding with their posteriors.

Modules that need the extra `speech` are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner.acoustic.experiment import run_recipe
    from bochner.acoustic.model import AcousticModel
    from bochner.acoustic.recipe import load_recipe
    from bochner.acoustic.settings import KernelSettings, NetworkSettings
    from bochner.acoustic.training import train_model

__all__ = [
    "AcousticModel",
    "KernelSettings",
    "NetworkSettings",
    "load_recipe",
    "run_recipe",
    "train_model",
]

_MODULES = {
    "AcousticModel": "model",
    "KernelSettings": "settings",
    "NetworkSettings": "settings",
    "load_recipe": "recipe",
    "run_recipe": "experiment",
    "train_model": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
