"""Low-rank factors of kernel matrices, K ~ U U^T, without K in memory."""

from bochner.lowrank.als import fit_als
from bochner.lowrank.components import Components, principal_components, spectral_embedding
from bochner.lowrank.errors import (
    Estimate,
    coherence,
    frobenius_error,
    principal_angles,
    spectral_error,
    stable_rank,
    trace_error,
)
from bochner.lowrank.factor import DenseFactor, Eigenpairs, Factor, extend
from bochner.lowrank.lela import TwoSidedFactor, fit_lela
from bochner.lowrank.meka import BlockFactor, ClusterMap, fit_meka
from bochner.lowrank.methods import LOWRANK_METHODS, Fit, fit_equal_meka, fit_factor
from bochner.lowrank.nystrom import fit_ensemble, fit_fourier, fit_nystrom, fit_pivoted_cholesky
from bochner.lowrank.regression import (
    ExactSolution,
    RidgeProblem,
    candidate_alphas,
    choose_alpha,
    loo_errors,
    ridge_problem,
    solve_exact,
    solve_ridge,
)
from bochner.lowrank.svd import truncate

__all__ = [
    "LOWRANK_METHODS",
    "BlockFactor",
    "ClusterMap",
    "Components",
    "DenseFactor",
    "Eigenpairs",
    "Estimate",
    "ExactSolution",
    "Factor",
    "Fit",
    "RidgeProblem",
    "TwoSidedFactor",
    "candidate_alphas",
    "choose_alpha",
    "coherence",
    "extend",
    "fit_als",
    "fit_ensemble",
    "fit_equal_meka",
    "fit_factor",
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
