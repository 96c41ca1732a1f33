"""The scikit-learn face: thin classes over kernels, maps and learners."""

from bochner.estimators.classifier import KernelClassifier
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
    "NystromFeatures",
    "TensorSketchFeatures",
]
