"""What is fitted on features: linear heads, losses, metrics, solvers."""

from bochner.learn.heads import BottleneckHead, LinearHead, svd_bottleneck
from bochner.learn.metrics import Metric
from bochner.learn.model import FeatureModel
from bochner.learn.solvers import LandmarkModel

__all__ = ["BottleneckHead", "FeatureModel", "LandmarkModel", "LinearHead", "Metric", "svd_bottleneck"]
