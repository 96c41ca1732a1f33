"""Low-rank kernel matrices: K ~ U U^T from n points, without ever holding K."""

from bochner.lowrank.als import fit_als
from bochner.lowrank.blocks import BlockFactor, ClusterMap
from bochner.lowrank.cholesky import fit_pivoted_cholesky
from bochner.lowrank.components import Components, principal_components
from bochner.lowrank.embedding import spectral_embedding
from bochner.lowrank.ensemble import fit_ensemble
from bochner.lowrank.errors import frobenius_error, spectral_error, trace_error
from bochner.lowrank.exact import ExactSolution, solve_exact
from bochner.lowrank.extension import extend
from bochner.lowrank.factor import DenseFactor, Eigenpairs, Factor
from bochner.lowrank.fourier import fit_fourier
from bochner.lowrank.lela import TwoSidedFactor, fit_lela
from bochner.lowrank.meka import fit_meka
from bochner.lowrank.norms import Estimate
from bochner.lowrank.nystrom import fit_nystrom
from bochner.lowrank.regression import (
    RidgeProblem,
    candidate_ridges,
    choose_ridge,
    loo_errors,
    ridge_problem,
    solve_ridge,
)
from bochner.lowrank.structure import coherence, principal_angles, stable_rank
from bochner.lowrank.svd import truncate

__all__ = [
    "BlockFactor",
    "ClusterMap",
    "Components",
    "DenseFactor",
    "Eigenpairs",
    "Estimate",
    "ExactSolution",
    "Factor",
    "RidgeProblem",
    "TwoSidedFactor",
    "candidate_ridges",
    "choose_ridge",
    "coherence",
    "extend",
    "fit_als",
    "fit_ensemble",
    "fit_fourier",
    "fit_lela",
    "fit_meka",
    "fit_nystrom",
    "fit_pivoted_cholesky",
    "frobenius_error",
    "loo_errors",
    "principal_angles",
    "principal_components",
    "ridge_problem",
    "solve_exact",
    "solve_ridge",
    "spectral_embedding",
    "spectral_error",
    "stable_rank",
    "trace_error",
    "truncate",
]
