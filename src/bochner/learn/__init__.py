"""What is fitted on features: linear heads, losses, metrics, solvers."""

from bochner.learn.heads import BottleneckHead, LinearHead, svd_bottleneck
from bochner.learn.metrics import Metric
from bochner.learn.model import FeatureModel
from bochner.learn.network import Network
from bochner.learn.solvers import LandmarkModel, LogitAverage

__all__ = [
    "BottleneckHead",
    "FeatureModel",
    "LandmarkModel",
    "LinearHead",
    "LogitAverage",
    "Metric",
    "Network",
    "svd_bottleneck",
]
