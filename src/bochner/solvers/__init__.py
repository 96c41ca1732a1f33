"""Solvers: minibatch training (`sgd`) and solvers of convex problems, as functions of a source of rows.

All solvers minimise one objective, in which `alpha` has the same meaning everywhere:

    sum_i w_i l(y_i, f(x_i)) / sum_i w_i + alpha / 2 ||f||^2,

with l the half squared error, the logistic or the softmax loss, and ||f|| the norm of the weights on features, or of f
in the kernel's space where f is a sum over landmarks. The bias is not penalised. This is the alpha of scikit-learn's
`SGDClassifier`; the alpha of its `KernelRidge`, a penalty on a sum over n rows, is n times as large.
"""

from bochner.solvers.askotch import fit_askotch
from bochner.solvers.eigenpro import fit_eigenpro
from bochner.solvers.exact import fit_exact_ridge
from bochner.solvers.landmarks import fit_landmark_ridge
from bochner.solvers.newton import fit_landmark_logistic
from bochner.solvers.ridge import fit_ridge, fit_ridge_path
from bochner.solvers.saga import fit_saga

__all__ = [
    "fit_askotch",
    "fit_eigenpro",
    "fit_exact_ridge",
    "fit_landmark_logistic",
    "fit_landmark_ridge",
    "fit_ridge",
    "fit_ridge_path",
    "fit_saga",
]
