"""The papers' findings about acoustic models, from one number per task. Error rates are in percentage points."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean

from bochner.acoustic.settings import KERNELS
from bochner.studies.findings import Finding, Rows, by, finding, per_set
from bochner.studies.speech_cells import CE, DEPTH, ERLL, MAY, NETWORK
from bochner.studies.speech_report import NAMES, averaged, correlations
from bochner.studies.study import Row

CLOSE = 0.5  # percentage points of TER
CLEAR = 0.05  # of a correlation; the papers have 0.6 to 1.2


def change_by(trick: str, *, off: object = False, on: object = True) -> Callable[[Rows], float | None]:
    """The mean change of the error rate by a trick, over pairs of models that differ only in it."""

    def number(rows: Rows) -> float | None:
        others = [name for name in NAMES if name != trick]
        pairs = [{row[trick]: row["ter"] for row in pair} for pair in by(averaged(rows), *others).values()]
        changes = [pair[on] - pair[off] for pair in pairs if len(pair) == 2]
        return 100 * fmean(changes) if changes else None

    return number


def laplacian_gain(rows: Rows) -> float | None:
    """The reduction of the error rate by selection for the Laplacian kernel minus the largest for another kernel."""
    changes = {kernel: change_by("selection")(_of(rows, kernel)) for kernel in KERNELS}
    known = {kernel: -change for kernel, change in changes.items() if change is not None}
    return known.pop("laplacian") - max(known.values()) if len(known) == len(KERNELS) else None


def sparse_ahead(rows: Rows) -> float | None:
    """The lowest error rate of Laplacian and sparse Gaussian models minus that of Gaussian models."""
    best = {kernel: min((row["ter"] for row in averaged(_of(rows, kernel))), default=None) for kernel in KERNELS}
    known = {kernel: value for kernel, value in best.items() if value is not None}
    return 100 * (min(known["laplacian"], known["sparse-gaussian"]) - known["gaussian"]) if len(known) == 3 else None


def kernel_behind(rows: Rows) -> float | None:
    """The test error rate of the best kernel model minus that of the best network."""
    errors = {row["kind"]: row["test_ter"] for row in rows}
    return 100 * (errors["kernel"] - errors["network"]) if len(errors) == 2 else None


def erll_ahead(rows: Rows) -> float | None:
    """The correlation of ERLL with the error rate minus that of the cross-entropy."""
    measured = correlations(rows)
    ours, theirs = measured["erll:1"], measured["erll:0"]
    return None if ours is None or theirs is None else ours - theirs


def family_ahead(name: str) -> Callable[[Rows], float | None]:
    """The correlation of a family's best member with the error rate minus that of the cross-entropy."""

    def number(rows: Rows) -> float | None:
        measured = correlations(rows)
        members = [value for metric, value in measured.items() if metric.startswith(name) and value is not None]
        theirs = measured["erll:0"]
        return None if not members or theirs is None else max(members) - theirs

    return number


def features_change(rows: Rows) -> float | None:
    """The mean change of the error rate from the fewest features to the most."""
    kinds = by(averaged(rows), "model", "selection").values()
    changes = [_at(group, max)["ter"] - _at(group, min)["ter"] for group in kinds if len(group) > 1]
    return 100 * fmean(changes) if changes else None


def deeper_gain(rows: Rows) -> float | None:
    """The mean error rate of four layers over widths minus the lowest of more layers."""
    means = {depth: fmean(row["ter"] for row in group) for (depth,), group in by(averaged(rows), "depth").items()}
    deeper = [mean for depth, mean in means.items() if depth > DEPTH]
    return 100 * (means[DEPTH] - min(deeper)) if DEPTH in means and deeper else None


def collapsed_ratio(rows: Rows) -> float | None:
    """Perplexity with all silence as one state: selected Laplacian kernel divided by network."""
    values: dict[bool, list[float]] = {}
    for row in rows:
        if "perplexity_silence_collapsed" in row:  # absent in cells of 0.1
            values.setdefault(row["model"] == NETWORK, []).append(row["perplexity_silence_collapsed"])
    return fmean(values[False]) / fmean(values[True]) if len(values) == 2 else None


def _of(rows: Rows, kernel: str) -> list[Row]:
    return [row for row in rows if row["model"] == kernel]


def _at(rows: Rows, which: Callable[..., Row]) -> Row:
    return which(rows, key=lambda row: row["num_features"])


def _task_finding(
    study: str, place: str, claim: str, number: Callable[[Rows], float | None], quantity: str, **limits: float
) -> Finding:
    return finding(claim, f"{MAY}, {place}", study, per_set(number), quantity, **limits)


_PAIRS = "percentage points of TER, mean over pairs of models"
_kernels = partial(_task_finding, "speech-kernels", "Table 5")
_networks = partial(_task_finding, "speech-networks", "Table 4")
# fmt: off
FINDINGS: tuple[Finding, ...] = (
    _kernels("Halving the rate by ERLL instead of the cross-entropy lowers the token error rate of kernel models.",
             change_by("criterion", off=CE, on=ERLL), f"change in {_PAIRS}", below=0),
    _kernels("Feature selection helps the Laplacian kernel most.",
             laplacian_gain, f"gain of the Laplacian minus the next largest, in {_PAIRS}", above=0),
    _kernels("The best kernel models are Laplacian or sparse Gaussian.",
             sparse_ahead, "TER, the better of them minus the best Gaussian, percentage points", below=0),
    _networks("Halving the rate by ERLL lowers the token error rate of networks, too.",
              change_by("criterion", off=CE, on=ERLL), f"change in {_PAIRS}", below=0),
    _task_finding("speech-best", "Table 7", "The best kernel model is as good as the best network.",
                  kernel_behind, "TER on test, kernel minus network, percentage points", below=CLOSE),
    _task_finding("speech-metrics", "Figure 2",
                  "ERLL correlates clearly better with the token error rate than the cross-entropy.",
                  erll_ahead, "correlation with TER, ERLL minus cross-entropy", above=CLEAR),
    _task_finding("speech-features", "Figure 3 and Table 6", "More features lower the token error rate.",
                  features_change, "change of TER from the fewest to the most features, percentage points", below=0),
    _task_finding("speech-metrics", "Figure 2",
                  "The capped log loss correlates clearly better with the token error rate than the cross-entropy.",
                  family_ahead("capped"), "correlation with TER, best λ minus cross-entropy", above=CLEAR),
    _task_finding("speech-metrics", "Figure 2",
                  "The top-k log loss correlates clearly better with the token error rate than the cross-entropy.",
                  family_ahead("topk"), "correlation with TER, best k minus cross-entropy", above=CLEAR),
    _task_finding("speech-perplexity", "slides",
                  "With silence as one state, kernel models have the lower perplexity.",
                  collapsed_ratio, "perplexity, selected Laplacian kernel / network", below=1),
    _task_finding("speech-depth", "Table 3", "More than four layers do not help.",
                  deeper_gain, "TER, four layers minus the best of more, percentage points", below=CLOSE),
)
