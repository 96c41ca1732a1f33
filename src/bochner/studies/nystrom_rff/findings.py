"""What the chapter says."""

from __future__ import annotations

from bochner.studies.findings import OFTEN, Finding, Judge
from bochner.studies.nystrom_rff import judges, spectra, theorems
from bochner.studies.nystrom_rff.cells import KMEANS, NYSTROM, RFF
from bochner.studies.nystrom_rff.judges import judge_sets, ratio


def _error(claim: str, place: str, judge: Judge) -> Finding:
    return Finding(claim, f"May 2018, {place}", "nystrom-rff-kernel-error", judge)


def _performance(claim: str, judge: Judge) -> Finding:
    return Finding(claim, "May 2018, 6.2.3.2", "nystrom-rff-performance", judge)


def _bias(claim: str, judge: Judge) -> Finding:
    return Finding(claim, "May 2018, 6.2.4 and Table 6.2", "nystrom-rff-bias-variance", judge)


def _norms(claim: str, judge: Judge) -> Finding:
    return Finding(claim, "May 2018, Figure 6.5", "nystrom-rff-norms", judge)


def _theorem(claim: str, place: str, theorem: str) -> Finding:
    return Finding(claim, f"May 2018, {place}", "nystrom-theorems", theorems.holds(theorem))


def _effect(claim: str, judge: Judge) -> Finding:
    return Finding(claim, "May 2018, Figure 4.2", "effect-of-features", judge)


FINDINGS = (
    _error(
        "For a fixed number of features the Nystrom method has a much lower kernel error.",
        "6.2.3.1",
        judge_sets(ratio(NYSTROM, RFF, x="num_features", y="mse"), "mean square error, Nystrom over RFF", below=0.5),
    ),
    _error(
        "k-means is a particularly effective way to choose landmarks.",
        "6.2.2",
        judge_sets(ratio(KMEANS, NYSTROM, x="num_features", y="mse"), "error, k-means over uniform", below=1),
    ),
    _error(
        "Even for a fixed memory the Nystrom method typically has the lower kernel error.",
        "6.2.3.1",
        judge_sets(ratio(NYSTROM, RFF, x="memory", y="mse"), "mean square error, Nystrom over RFF", below=1),
    ),
    _error(
        "The error of RFF falls faster with memory than Nystrom's, in many cases.",
        "6.2.3.1",
        judge_sets(judges.steepness, "slope of log error by log memory, RFF's less Nystrom's", below=0, needed=OFTEN),
    ),
    Finding(
        "The largest eigenvalues of kernel matrices are significantly larger than the others.",
        "May 2018, Figure 6.2",
        "kernel-spectra",
        spectra.heavy_head,
    ),
    Finding(
        "There is a long tail of eigenvalues that are not negligible.",
        "May 2018, Figure 6.2",
        "kernel-spectra",
        spectra.long_tail,
    ),
    _performance(
        "For a fixed number of features Nystrom models generally do better.",
        judge_sets(ratio(NYSTROM, RFF, x="num_features", y="performance"), "heldout error, Nystrom over RFF", below=1),
    ),
    _performance(
        "That gap narrows for large numbers of features.",
        judge_sets(judges.gap_left, "gap at the largest common D over that at the smallest", below=1),
    ),
    _performance(
        "For a fixed memory RFF models perform better.",
        judge_sets(ratio(RFF, NYSTROM, x="memory", y="performance"), "heldout error, RFF over Nystrom", below=1),
    ),
    _performance(
        "For a fixed mean square kernel error RFF models perform much better.",
        judge_sets(ratio(RFF, NYSTROM, x="mse", y="performance"), "heldout error, RFF over Nystrom", below=1),
    ),
    _bias(
        "The Nystrom method underestimates large kernel values, k ≥ 0.25.",
        judge_sets(judges.least_bias, "least bias over all D and seeds", above=0),
    ),
    _bias(
        "It is noisier where kernel values are large.",
        judge_sets(judges.variance_ratio, "variance at k ≥ 0.25 over that at k < 0.25", above=1),
    ),
    _bias(
        "At a similar mean square error, RFF errors are centred about zero where Nystrom's are not.",
        judge_sets(judges.bias_more, "bias at k ≥ 0.25 in standard errors over draws, Nystrom's less RFF's", above=0),
    ),
    _bias(
        "At a similar mean square error, the Nystrom method has more outliers.",
        judge_sets(judges.outliers_more, "share of errors > 0.035 at k ≥ 0.25, Nystrom less RFF", above=0),
    ),
    _norms(
        "Squared norms of Nystrom features lie in [0, 1].",
        judge_sets(judges.largest_norm, "largest squared norm", below=1.001),
    ),
    _norms(
        "Those of RFF lie much closer to 1.",
        judge_sets(judges.norm_distance, "distance of the mean from 1, RFF over Nystrom", below=0.5),
    ),
    _norms(
        "Those of Nystrom features shift towards 1 with more features.",
        judge_sets(judges.least_rise, "least step of the mean from one D to the next", above=0),
    ),
    Finding(
        "For some r > 2 the curves of performance by mean |error|^r lie on each other, unlike those by mean square.",
        "May 2018, Figure 6.6",
        "nystrom-rff-error-powers",
        judge_sets(judges.power_gap, "distance of the curves, best r over r = 2", below=1),
    ),
    _theorem(
        "A Nystrom map is a projection: norms do not grow, landmarks are exact.",
        "Corollaries 1.2 and 1.3",
        "corollaries 1.2, 1.3",
    ),
    _theorem("Around every point with an error lies a ball of underestimates.", "Theorem 4", "4"),
    _theorem("The expected error at k(x, x) is at least the tail of the centred spectrum.", "Theorem 5", "5"),
    _theorem("The probability of an error at k(x, x) has a lower bound.", "Theorem 6", "6"),
    _theorem("The mean error is the squared distance of the mean map from the landmarks' span.", "Theorem 7", "7"),
    _effect(
        "More features improve the heldout cross-entropy, for every kernel.",
        judge_sets(judges.loss_ratio, "loss at the largest D over that at the smallest, worst kernel", below=1),
    ),
    _effect(
        "There are diminishing returns.",
        judge_sets(judges.gain_ratio, "gain of the last step of D over that of the first, largest kernel's", below=1),
    ),
)
