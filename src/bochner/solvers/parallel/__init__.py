"""Training in several processes, which divide the rows of a batch and the features of a model."""

from bochner.solvers.parallel.workers import Workers, joined

__all__ = ["Workers", "joined"]
