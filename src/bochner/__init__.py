"""Kernel methods at scale: estimators for tables, kernels, feature maps, low-rank factors and models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bochner import features, kernels, lowrank, models
    from bochner.data import open_source
    from bochner.estimators import (
        ArcCosineFeatures,
        FourierFeatures,
        KernelClassifier,
        KernelRegressor,
        LowRankPCA,
        LowRankRidge,
        LowRankSpectralClustering,
        NetworkClassifier,
        NetworkRegressor,
        NystromFeatures,
        TensorSketchFeatures,
    )
    from bochner.storage import load, save

__version__ = "0.2.0"

__all__ = [
    "ArcCosineFeatures",
    "FourierFeatures",
    "KernelClassifier",
    "KernelRegressor",
    "LowRankPCA",
    "LowRankRidge",
    "LowRankSpectralClustering",
    "NetworkClassifier",
    "NetworkRegressor",
    "NystromFeatures",
    "TensorSketchFeatures",
    "features",
    "kernels",
    "load",
    "lowrank",
    "models",
    "open_source",
    "save",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use: `import bochner` takes milliseconds, torch and scikit-learn take seconds."""
    if name not in __all__:
        raise AttributeError(f"module 'bochner' has no attribute {name!r}")
    if name in ("features", "kernels", "lowrank", "models"):
        return import_module(f"bochner.{name}")
    modules = {"load": "bochner.storage", "save": "bochner.storage", "open_source": "bochner.data"}
    value = getattr(import_module(modules.get(name, "bochner.estimators")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
