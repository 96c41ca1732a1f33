"""Models: linear heads and bottlenecks on features, sums over landmarks, networks; losses and criteria."""

from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead, LogitAverage, svd_bottleneck
from bochner.models.landmarks import LandmarkModel
from bochner.models.losses import Criterion
from bochner.models.network import Network

__all__ = [
    "BottleneckHead",
    "Criterion",
    "FeatureModel",
    "LandmarkModel",
    "LinearHead",
    "LogitAverage",
    "Network",
    "svd_bottleneck",
]
