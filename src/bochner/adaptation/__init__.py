"""Features and metrics learned from data: feature selection (Algorithm 1, FOBOS), adapted bases, AGOP metrics."""

from bochner.adaptation.alignment import alignment
from bochner.adaptation.basis import Basis, BasisSettings, adapt, fit_basis

__all__ = ["Basis", "BasisSettings", "adapt", "alignment", "fit_basis"]
