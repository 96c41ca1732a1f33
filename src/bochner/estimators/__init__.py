"""The scikit-learn face: thin classes over kernels, maps and learners."""

from bochner.estimators.maps import (
    ArcCosineFeatures,
    FourierFeatures,
    NystromFeatures,
    TensorSketchFeatures,
)

__all__ = ["ArcCosineFeatures", "FourierFeatures", "NystromFeatures", "TensorSketchFeatures"]
