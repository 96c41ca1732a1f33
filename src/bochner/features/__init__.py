"""Feature maps z(x) with z(x) . z(y) ~ k(x, y), as torch modules."""

from bochner.features.dot_product import ArcCosineMap, TensorSketchMap
from bochner.features.fourier import FourierMap
from bochner.features.landmarks import LANDMARK_RULES, choose_landmarks
from bochner.features.map import FeatureMap
from bochner.features.nystrom import EnsembleNystromMap, NystromMap
from bochner.features.projections import PROJECTION_NAMES, Projection, draw_projection

__all__ = [
    "LANDMARK_RULES",
    "PROJECTION_NAMES",
    "ArcCosineMap",
    "EnsembleNystromMap",
    "FeatureMap",
    "FourierMap",
    "NystromMap",
    "Projection",
    "TensorSketchMap",
    "choose_landmarks",
    "draw_projection",
]
