"""Acoustic models: frames and states, any classifier, and the decoder that turns its posteriors into words.

What needs the extra `speech` is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner.acoustic.model import AcousticModel
    from bochner.acoustic.recipe import load_recipe
    from bochner.acoustic.run import run_recipe
    from bochner.acoustic.settings import KernelSettings, NetworkSettings, SelectionSettings
    from bochner.acoustic.training import train_model

__all__ = [
    "AcousticModel",
    "KernelSettings",
    "NetworkSettings",
    "SelectionSettings",
    "load_recipe",
    "run_recipe",
    "train_model",
]

_PLACES = {
    "AcousticModel": "model",
    "KernelSettings": "settings",
    "NetworkSettings": "settings",
    "SelectionSettings": "settings",
    "load_recipe": "recipe",
    "run_recipe": "run",
    "train_model": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
