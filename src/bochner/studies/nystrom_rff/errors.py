"""How a map errs: k(x, y) - z(x) . z(y) over pairs, where k is small and where it is large."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner.features import FeatureMap
from bochner.studies.ledger import Result

LARGE = 0.25  # kernel values from here on are large
POWERS = (2.5, 3.5, 5.5)
OUTLIER = 0.035
ERROR_EDGES = torch.linspace(-0.105, 0.105, 22, dtype=torch.float64)  # bins of 0.01, one about 0
NORM_EDGES = torch.linspace(0.0, 2.0, 41, dtype=torch.float64)


def measure_errors(z: FeatureMap, X: Tensor) -> Result:
    """Over all pairs of different rows of X [P, d]; bias is the mean error, so that mse = bias^2 + variance.

    Powers are means of |error|^r. Histograms are shares of the pairs, the outermost bins with all beyond them. None
    where no pair is of that kind. O(P^2 (d + D)), P^2 numbers.
    """
    K, Z = z.kernel(X.double()), z(X).double()
    rows, columns = torch.triu_indices(len(X), len(X), offset=1)
    values = K[rows, columns]
    errors = values - (Z @ Z.T)[rows, columns]
    kinds = {"": errors, "small_": errors[values < LARGE], "large_": errors[values >= LARGE]}
    norms = Z.square().sum(dim=1)
    result: Result = {"num_pairs": len(errors), "large_share": float((values >= LARGE).double().mean())}
    for kind, found in kinds.items():
        result |= {kind + name: value for name, value in _moments(found).items()}
    result |= {f"power_{power}": float(errors.abs().pow(power).mean()) for power in POWERS}
    result |= {f"{kind}histogram": _shares(kinds[kind], ERROR_EDGES) for kind in ("small_", "large_")}
    return result | {
        "norm": float(norms.mean()),
        "norm_spread": float(norms.std(unbiased=False)),
        "norm_max": float(norms.max()),
        "norm_histogram": _shares(norms, NORM_EDGES),
    }


def _moments(errors: Tensor) -> Result:
    if not len(errors):
        return dict.fromkeys(("mse", "bias", "variance", "outliers"))
    return {
        "mse": float(errors.square().mean()),
        "bias": float(errors.mean()),
        "variance": float(errors.var(unbiased=False)),
        "outliers": float((errors > OUTLIER).double().mean()),
    }


def _shares(values: Tensor, edges: Tensor) -> list[float] | None:
    if not len(values):
        return None
    inside = values.clamp(float(edges[0]), float(edges[-1]))
    return (torch.histogram(inside.cpu(), edges).hist / len(values)).tolist()
