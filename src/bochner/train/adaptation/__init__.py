"""From random to learned features: maps adapted to a kernel, to the classes or to a loss."""

from bochner.train.adaptation.alignment import alignment
from bochner.train.adaptation.basis import Basis, adapt, fit_basis
from bochner.train.adaptation.plan import Plan

__all__ = ["Basis", "Plan", "adapt", "alignment", "fit_basis"]
