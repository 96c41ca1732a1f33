"""The studies of Nystrom maps and random Fourier features, and the findings of May 2018, chapter 6."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import exp
from statistics import fmean, median, stdev

from bochner.report import Page
from bochner.studies import kernel_spectra, nystrom_theorems
from bochner.studies import nystrom_rff_report as plots
from bochner.studies.findings import OFTEN, Finding, Rows, by, finding, per_set
from bochner.studies.nystrom_rff import KMEANS, NYSTROM, POWERS, RFF, Cell, cells, effect_cells, operations, prepare
from bochner.studies.nystrom_rff_data import FILES
from bochner.studies.nystrom_rff_report import Point, alike, compare, curve, slope
from bochner.studies.study import Row, Study

MAY = "May 2018"
PROTOCOL = (
    "Gaussian kernel, bandwidths of Table D.1 for the sets of the thesis. Continuous inputs have mean 0 and "
    "variance 1, binary ones are unchanged; a tenth of the training rows is held out (two speakers of TIMIT). rff "
    "has D cosines with phases; Nystrom maps have D uniform or k-means landmarks and all D directions. Kernel "
    "errors are over all pairs of some heldout rows; memory is d D numbers for rff, d D + D^2 for Nystrom. Models "
    "are linear in the features, fitted by preconditioned SGD with the papers' schedule (batches of 250, rates from "
    "trials on heldout rows); the thesis uses plain SGD. Numbers are medians over seeds with their range; the "
    "test parts are not read. At size small there are at most 5,000 training rows and 1,000 for the errors."
)


def _study(
    name: str, title: str, source: str, show: Callable[[Page, Sequence[Row]], None], *, models: bool = False
) -> Study:
    """Errors and norms have a draw of the map for each seed, also where no model is fitted to its features."""
    return Study(
        name,
        title,
        f"{MAY}, {source}",
        PROTOCOL,
        "nystrom_rff",
        Cell,
        cells,
        prepare,
        show,
        FILES,
        repeats=("seed",) if models else ("seed", "epochs"),
        operations=operations,
    )


# fmt: off
STUDIES = (
    _study("nystrom-rff-kernel-error", "Kernel error by features and by memory", "Figure 6.1", plots.kernel_error),
    kernel_spectra.STUDY,
    _study("nystrom-rff-performance", "Heldout performance by features, memory and kernel error", "Figure 6.3",
           plots.performance, models=True),
    _study("nystrom-rff-bias-variance", "Errors at small and at large kernel values", "Figure 6.4 and Table 6.2",
           plots.bias_and_variance),
    _study("nystrom-rff-norms", "Norms of features", "Figure 6.5", plots.norms),
    _study("nystrom-rff-error-powers", "Heldout performance by |error|^r", "Figure 6.6", plots.powers,
           models=True),
    nystrom_theorems.STUDY,
    Study("effect-of-features", "Effect of the number of features", f"{MAY}, Figure 4.2",
          PROTOCOL + " Laplacian and sparse Gaussian bandwidths follow the median rule.",
          "nystrom_rff", Cell, effect_cells, prepare, plots.effect_of_features, FILES, operations=operations),
)
# fmt: on

# -- one number per data set, from its rows --------------------------------------------------------------------

MIN_DRAWS = 3


def ratio(first: str, second: str, *, x: str, y: str) -> Callable[[Rows], float | None]:
    """The median ratio of y of one map to that of the other at equal x, where the other's curve is interpolated."""

    def number(rows: Rows) -> float | None:
        logs = compare(_curve(rows, first, x, y), _curve(rows, second, x, y))
        return exp(median(logs)) if logs else None

    return number


def steepness(rows: Rows) -> float | None:
    """The slope of log error against log memory of Fourier features minus that of Nystrom maps."""
    ours, theirs = (slope(_curve(rows, kind, "memory", "mse")) for kind in (RFF, NYSTROM))
    return None if ours is None or theirs is None else ours - theirs


def remaining_gap(rows: Rows) -> float | None:
    """|log ratio| of performances at the largest common D, divided by that at the smallest."""
    logs = compare(
        _curve(rows, RFF, "num_features", "performance"), _curve(rows, NYSTROM, "num_features", "performance")
    )
    return abs(logs[-1] / logs[0]) if len(logs) > 1 and logs[0] else None


def least_bias(rows: Rows) -> float | None:
    """The smallest bias of Nystrom maps at large kernel values, over all D and seeds."""
    return min((row["large_bias"] for row in _of(rows, NYSTROM) if row["large_bias"] is not None), default=None)


def variance_ratio(rows: Rows) -> float | None:
    """Variance of Nystrom maps at large kernel values, divided by that at small ones."""
    known = [row for row in _of(rows, NYSTROM) if row["large_variance"] and row["small_variance"]]
    return median(row["large_variance"] / row["small_variance"] for row in known) if known else None


def bias_difference(rows: Rows) -> float | None:
    """|bias| at large kernel values of the Nystrom map minus that of the Fourier map, at equal mean squared error.

    In standard errors over draws: one draw of Fourier features has similar errors on all large values, of random sign.
    """
    pair = alike(rows)
    if pair is None:
        return None
    ours, theirs = (
        [row["large_bias"] for row in _of(rows, match["map"]) if row["num_features"] == match["num_features"]]
        for match in pair
    )
    if None in (*ours, *theirs) or min(len(ours), len(theirs)) < MIN_DRAWS:
        return None
    return _distance(ours) - _distance(theirs)


def outlier_difference(rows: Rows) -> float | None:
    """Share of outliers at large kernel values of the Nystrom map minus that of the Fourier map, at equal mean squared
    error."""
    pair = alike(rows)
    if pair is None or pair[0]["large_outliers"] is None:
        return None
    return float(pair[0]["large_outliers"] - pair[1]["large_outliers"])


def largest_norm(rows: Rows) -> float | None:
    return max((row["norm_max"] for row in _of(rows, NYSTROM)), default=None)


def norm_distance(rows: Rows) -> float | None:
    """|1 - mean norm| of Fourier features divided by that of as many Nystrom features, the median over D."""
    off = [{**row, "off": abs(1 - row["norm"])} for row in rows]
    return ratio(RFF, NYSTROM, x="num_features", y="off")(off)


def least_rise(rows: Rows) -> float | None:
    """The smallest step of the mean norm of Nystrom features from one D to the next."""
    norms = _curve(rows, NYSTROM, "num_features", "norm")
    return min((b.y - a.y for a, b in pairwise(norms)), default=None)


def power_gap(rows: Rows) -> float | None:
    """The distance between the two curves of performance against the best mean |error|^r, divided by that for r = 2."""
    gaps = []
    for x in ("mse", *(f"power_{power}" for power in POWERS)):
        logs = compare(_curve(rows, NYSTROM, x, "performance"), _curve(rows, RFF, x, "performance"))
        gaps.append(median(map(abs, logs)) if logs else None)
    others = [gap for gap in gaps[1:] if gap is not None]
    return min(others) / gaps[0] if gaps[0] and others else None


def loss_ratio(rows: Rows) -> float | None:
    """The loss at the largest D divided by that at the smallest, the maximum over kernels."""
    return max((points[-1].y / points[0].y for points in _losses(rows) if len(points) > 1), default=None)


def gain_ratio(rows: Rows) -> float | None:
    """The relative decrease of the loss in the last step of D divided by that in the first, the maximum over
    kernels."""
    curves = [points for points in _losses(rows) if len(points) > 2]
    return max(((1 - p[-1].y / p[-2].y) / (1 - p[1].y / p[0].y) for p in curves), default=None)


def _distance(values: Sequence[float]) -> float:
    """|mean| in standard errors.

    >>> _distance([1.0, 2.0, 3.0])
    3.4641016...
    """
    return abs(fmean(values)) / max(stdev(values) / len(values) ** 0.5, sys.float_info.min)


def _of(rows: Rows, kind: str) -> list[Row]:
    return [row for row in rows if row["map"] == kind]


def _curve(rows: Rows, kind: str, x: str, y: str) -> list[Point]:
    return curve(_of(rows, kind), x, y)


def _losses(rows: Rows) -> list[list[Point]]:
    """The loss against the number of features, one curve per kernel."""
    return [curve(group, "num_features", "loss") for group in by(rows, "kernel").values()]


# -- findings --------------------------------------------------------------------------------------------------


def _set_finding(
    study: str, place: str, claim: str, number: Callable[[Rows], float | None], quantity: str, **limits: float
) -> Finding:
    return finding(claim, f"{MAY}, {place}", study, per_set(number), quantity, **limits)


_error = partial(_set_finding, "nystrom-rff-kernel-error")
_performance = partial(_set_finding, "nystrom-rff-performance", "6.2.3.2")
_bias = partial(_set_finding, "nystrom-rff-bias-variance", "6.2.4 and Table 6.2")
_norms = partial(_set_finding, "nystrom-rff-norms", "Figure 6.5")
_powers = partial(_set_finding, "nystrom-rff-error-powers", "Figure 6.6")
_effect = partial(_set_finding, "effect-of-features", "Figure 4.2")
# fmt: off
FINDINGS: tuple[Finding, ...] = (
    _error("6.2.3.1", "For a fixed number of features the Nystrom method has a much lower kernel error.",
           ratio(NYSTROM, RFF, x="num_features", y="mse"), "mean squared error, Nystrom / RFF", below=0.5),
    _error("6.2.2", "k-means is a particularly effective way to choose landmarks.",
           ratio(KMEANS, NYSTROM, x="num_features", y="mse"), "error, k-means / uniform", below=1),
    _error("6.2.3.1", "Even for a fixed memory the Nystrom method typically has the lower kernel error.",
           ratio(NYSTROM, RFF, x="memory", y="mse"), "mean squared error, Nystrom / RFF", below=1),
    _error("6.2.3.1", "The error of RFF falls faster with memory than Nystrom's, in many cases.",
           steepness, "slope of log error against log memory, RFF minus Nystrom", below=0, needed=OFTEN),
    *kernel_spectra.FINDINGS,
    _performance("For a fixed number of features Nystrom models generally do better.",
                 ratio(NYSTROM, RFF, x="num_features", y="performance"), "heldout error, Nystrom / RFF", below=1),
    _performance("That gap narrows for large numbers of features.",
                 remaining_gap, "gap at the largest common D / gap at the smallest", below=1),
    _performance("For a fixed memory RFF models perform better.",
                 ratio(RFF, NYSTROM, x="memory", y="performance"), "heldout error, RFF / Nystrom", below=1),
    _performance("For a fixed mean square kernel error RFF models perform much better.",
                 ratio(RFF, NYSTROM, x="mse", y="performance"), "heldout error, RFF / Nystrom", below=1),
    _bias("The Nystrom method underestimates large kernel values, k ≥ 0.25.",
          least_bias, "smallest bias over all D and seeds", above=0),
    _bias("It is noisier where kernel values are large.",
          variance_ratio, "variance at k ≥ 0.25 / variance at k < 0.25", above=1),
    replace(_bias("At a similar mean square error, RFF errors are centred about zero where Nystrom's are not.",
                  bias_difference, "bias at k ≥ 0.25 in standard errors over draws, Nystrom minus RFF", above=0),
            exact=True),  # already in standard errors
    _bias("At a similar mean square error, the Nystrom method has more outliers.",
          outlier_difference, "share of errors > 0.035 at k ≥ 0.25, Nystrom minus RFF", above=0),
    _norms("Squared norms of Nystrom features lie in [0, 1].", largest_norm, "largest squared norm", below=1.001),
    _norms("Those of RFF lie much closer to 1.",
           norm_distance, "distance of the mean from 1, RFF / Nystrom", below=0.5),
    _norms("Those of Nystrom features shift towards 1 with more features.",
           least_rise, "smallest step of the mean from one D to the next", above=0),
    _powers("For some r > 2 the curves of performance by mean |error|^r coincide, unlike those by mean "
            "square.", power_gap, "distance between the curves, best r / r = 2", below=1),
    *nystrom_theorems.FINDINGS,
    _effect("More features improve the heldout cross-entropy, for every kernel.",
            loss_ratio, "loss at the largest D / loss at the smallest, worst kernel", below=1),
    _effect("There are diminishing returns.",
            gain_ratio, "gain of the last step of D / gain of the first, maximum over kernels", below=1),
)
