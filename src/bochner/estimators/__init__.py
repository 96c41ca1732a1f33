"""scikit-learn estimators over kernels, feature maps, low-rank factors and solvers."""

from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.lowrank import LowRankPCA, LowRankRidge, LowRankSpectralClustering
from bochner.estimators.network import NetworkClassifier, NetworkRegressor
from bochner.estimators.regressor import KernelRegressor
from bochner.estimators.transformers import (
    ArcCosineFeatures,
    FourierFeatures,
    NystromFeatures,
    TensorSketchFeatures,
)

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
]
