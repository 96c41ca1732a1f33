"""Solvers beyond stochastic gradients, as pure functions of a source of rows.

All minimise one objective, so that one `ridge` means one thing everywhere:

    sum_i w_i l(y_i, f(x_i)) / sum_i w_i + ridge / 2 ||f||^2,

with l the half squared error, the logistic or the softmax loss, and ||f|| the norm of the weights on features, or of
f in the kernel's space when f stands on landmarks. The bias is not penalised. A sum over n rows with penalty alpha, as
elsewhere, is ridge = alpha / n.
"""

from bochner.learn.solvers.average import LogitAverage, draw_blocks
from bochner.learn.solvers.exact import fit_exact_ridge
from bochner.learn.solvers.landmarks import LandmarkModel, fit_landmark_ridge
from bochner.learn.solvers.logistic import fit_landmark_logistic
from bochner.learn.solvers.ridge import fit_ridge, fit_ridge_path
from bochner.learn.solvers.saga import fit_saga

__all__ = [
    "LandmarkModel",
    "LogitAverage",
    "draw_blocks",
    "fit_exact_ridge",
    "fit_landmark_logistic",
    "fit_landmark_ridge",
    "fit_ridge",
    "fit_ridge_path",
    "fit_saga",
]
