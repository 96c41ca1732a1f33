"""Models as the commands find them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bochner.estimators.arrays import resolve_device
from bochner.estimators.machine import KernelMachine
from bochner.storage import load

MODEL_FILE = "model.safetensors"


def model_file(model: Path) -> Path:
    """The file itself, or the one in a folder that `bochner train` made."""
    if not model.is_dir():
        return model
    if not (model / MODEL_FILE).exists():
        raise ValueError(f"{model} holds no {MODEL_FILE}: it is no folder of a finished `bochner train`.")
    return model / MODEL_FILE


def load_model(model: Path, *, device: str = "auto") -> Any:
    """The fitted KernelClassifier or KernelRegressor in a file or folder, on a device."""
    path = model_file(model)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    loaded = load(path, device=resolve_device(device))
    if not isinstance(loaded, KernelMachine):
        raise ValueError(f"{path} must hold a KernelClassifier or KernelRegressor, got {type(loaded).__name__}.")
    return loaded.set_params(device=device)
