"""Kernel methods at scale: estimators for tables, kernels, feature maps, low-rank factors and models."""

from bochner import estimators, features, kernels, lowrank, models
from bochner.estimators import *  # noqa: F403
from bochner.storage import load, save

__version__ = "0.2.0.dev0"

__all__ = ["features", "kernels", "load", "lowrank", "models", "save"]
__all__ += estimators.__all__
