"""Kernel methods at scale: kernels, feature maps, and learners on them."""

from bochner import features, kernels, lowrank, models
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

__version__ = "0.1.0"

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
    "save",
]
