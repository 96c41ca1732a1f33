"""The scikit-learn face: thin classes over kernels, maps and learners."""

from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.lowrank_clustering import LowRankSpectralClustering
from bochner.estimators.lowrank_pca import LowRankPCA
from bochner.estimators.lowrank_ridge import LowRankRidge
from bochner.estimators.maps import (
    ArcCosineFeatures,
    FourierFeatures,
    NystromFeatures,
    TensorSketchFeatures,
)
from bochner.estimators.regressor import KernelRegressor

__all__ = [
    "ArcCosineFeatures",
    "FourierFeatures",
    "KernelClassifier",
    "KernelRegressor",
    "LowRankPCA",
    "LowRankRidge",
    "LowRankSpectralClustering",
    "NystromFeatures",
    "TensorSketchFeatures",
]
