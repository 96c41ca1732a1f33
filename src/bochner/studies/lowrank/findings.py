"""What the thesis says of low-rank methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from bochner.studies.findings import Finding, by, over_sets
from bochner.studies.study import Row

Rows = Sequence[Row]
Number = Callable[[Rows], Mapping[str, float | None]]
PEERS = ("standard nystrom", "standard kmeans-nystrom", "meka", "fourier")


def _means(rows: Rows, measure: str) -> Mapping[str, Mapping[str, float]]:
    """By set, the mean of each method over seeds."""
    return {
        data: {
            method: fmean(row[measure] for row in found)
            for (method,), found in by([row for row in mine if measure in row], "method").items()
        }
        for (data,), mine in by(rows, "data").items()
    }


def _over(first: str, others: Sequence[str], measure: str, pick: Callable[[list[float]], float]) -> Number:
    """By set, a method over the best (`min`) or the worst (`max`) of the others that were measured beside it."""

    def number(rows: Rows) -> dict[str, float | None]:
        values: dict[str, float | None] = {}
        for data, means in _means(rows, measure).items():
            known = [means[name] for name in others if name in means]
            values[data] = means[first] / pick(known) if first in means and known else None
        return values

    return number


def _largest_step(rows: Rows) -> dict[str, float | None]:
    """By set, the largest ratio of the stable rank to that at the next smaller bandwidth."""
    values: dict[str, float | None] = {}
    for (data,), mine in by(rows, "data").items():
        ranks = [fmean(row["stable_rank"] for row in found) for _, found in sorted(by(mine, "bandwidth").items())]
        values[data] = max((b / a for a, b in pairwise(ranks)), default=None)
    return values


def _said(claim: str, place: str, study: str, number: Number, word: str, **limits: float) -> Finding:
    return Finding(claim, f"Bhardwaj 2015, {place}", study, lambda rows: over_sets(number(rows), word, **limits))


FINDINGS = (
    _said(
        "At equal numbers of parameters ALS has a lower error than Nystrom, k-means Nystrom, MEKA and RFF.",
        "Table 5.10",
        "lowrank-spectral-error",
        _over("als", PEERS, "spectral", min),
        "spectral error over that of the best of them",
        below=1,
    ),
    _said(
        "RFF has the largest error.",
        "Table 5.10",
        "lowrank-spectral-error",
        _over("fourier", ("als", *PEERS[:3]), "spectral", max),
        "spectral error over that of the worst other",
        above=1,
    ),
    _said(
        "ALS comes close to the optimum, the SVD.",
        "Table 5.10",
        "lowrank-spectral-error",
        _over("als", ["svd"], "spectral", min),
        "spectral error over that of the SVD of all points",
        below=1.25,
    ),
    _said(
        "From as many entries of K, ALS has a lower error than Nystrom and k-means Nystrom.",
        "Table 5.11",
        "lowrank-same-samples",
        _over("als", PEERS[:2], "spectral", min),
        "spectral error over that of the better of them",
        below=1,
    ),
    _said(
        "ALS takes the longest.",
        "Table 5.12",
        "lowrank-seconds",
        _over("als", PEERS, "seconds", max),
        "seconds over those of the slowest of them",
        above=1,
    ),
    _said(
        "A start from k-means Nystrom ends better than a random one.",
        "Table 5.8",
        "lowrank-starts",
        _over("als from kmeans-nystrom", ["als from random"], "spectral", min),
        "spectral error over that from a random start",
        below=1,
    ),
    _said(
        "The stable rank falls with the bandwidth.",
        "Figure 5.1",
        "stable-rank",
        _largest_step,
        "largest ratio to the one before",
        below=1,
    ),
    _said(
        "Ridge regression by a low-rank factor predicts as well as by all of K.",
        "Table 5.13",
        "lowrank-ridge",
        _over("pivoted-cholesky", ["exact"], "rmse", min),
        "error over that of the exact one, rank 1,000",
        below=1.02,
    ),
)
