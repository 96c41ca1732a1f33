"""Features and metrics learned from data: random feature selection, adapted bases, average gradient outer products."""

from bochner.adaptation.alignment import alignment
from bochner.adaptation.basis import Basis, Plan, adapt, fit_basis

__all__ = ["Basis", "Plan", "adapt", "alignment", "fit_basis"]
