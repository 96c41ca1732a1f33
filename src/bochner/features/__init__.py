"""Feature maps z(x) with z(x) . z(y) ~ k(x, y), as torch modules."""

from bochner.features.arc_cosine import ArcCosineMap
from bochner.features.fourier import FourierMap
from bochner.features.landmarks import LANDMARK_RULES, choose_landmarks
from bochner.features.map import FeatureMap
from bochner.features.nystrom import EnsembleNystromMap, NystromMap
from bochner.features.projections import PROJECTION_NAMES, Projection, draw_projection
from bochner.features.sketch import TensorSketchMap

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
