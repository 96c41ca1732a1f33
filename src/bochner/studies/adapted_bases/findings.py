"""What Alber et al. say of adapted bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from bochner.studies.adapted_bases.rows import Row as Mean
from bochner.studies.adapted_bases.studies import means_of
from bochner.studies.findings import Finding, over_sets
from bochner.studies.study import Row

Rows = Sequence[Row]
Number = Callable[[Rows], Mapping[str, float | None]]


def _groups(rows: Rows) -> dict[str, dict[tuple[str, int], Mean]]:
    """By set and kernel: means by basis and number of features."""
    groups: dict[str, dict[tuple[str, int], Mean]] = {}
    for mean in means_of(rows):
        name = f"{mean.cell.data} ({mean.cell.kernel})"
        groups.setdefault(name, {})[mean.cell.basis, mean.cell.num_features] = mean
    return groups


def ratios(means: dict[tuple[str, int], Mean], first: str, second: str, measure: str) -> list[float]:
    """first / second at each number of features that both have, in order."""
    sizes = sorted(size for basis, size in means if basis == first and (second, size) in means)
    return [means[first, size].mean[measure] / means[second, size].mean[measure] for size in sizes]


def _median(first: str, second: str, measure: str) -> Number:
    """By set and kernel, one basis over the other: the median over numbers of features."""

    def number(rows: Rows) -> dict[str, float | None]:
        found = {name: ratios(means, first, second, measure) for name, means in _groups(rows).items()}
        return {name: median(mine) if mine else None for name, mine in found.items()}

    return number


def _left(first: str, second: str, measure: str) -> Number:
    """By set and kernel, |ratio - 1| at the largest number of features over that at the smallest."""

    def number(rows: Rows) -> dict[str, float | None]:
        found = {name: ratios(means, first, second, measure) for name, means in _groups(rows).items()}
        known = {name: mine for name, mine in found.items() if len(mine) > 1 and mine[0] != 1}
        return {name: abs((mine[-1] - 1) / (mine[0] - 1)) for name, mine in known.items()}

    return number


def _best_other(rows: Rows) -> dict[str, float | None]:
    """By set and kernel, at the largest number of features: accuracy on task 2 over that of the best other basis."""
    values: dict[str, float | None] = {}
    for name, means in _groups(rows).items():
        largest = max(size for _, size in means)
        found = {basis: mean.mean["transfer_accuracy"] for (basis, size), mean in means.items() if size == largest}
        others = [value for basis, value in found.items() if basis != "supervised"]
        values[name] = found["supervised"] / max(others) if "supervised" in found and others else None
    return values


def _said(claim: str, place: str, study: str, number: Number, word: str, **limits: float) -> Finding:
    return Finding(claim, f"Alber et al. 2017, {place}", study, lambda rows: over_sets(number(rows), word, **limits))


_ERROR, _ACCURACY = "kernel error, adapted over random", "test accuracy, adapted over random"
FINDINGS = (
    _said(
        "A basis adapted to the kernel approximates it better than a random one.",
        "Figure 1",
        "adapted-bases",
        _median("unsupervised", "random", "kernel_error"),
        _ERROR,
        below=1,
    ),
    _said(
        "A basis adapted by alignment classifies better than a random one.",
        "Figure 1",
        "adapted-bases",
        _median("supervised", "random", "accuracy"),
        _ACCURACY,
        above=1,
    ),
    _said(
        "A basis adapted to the loss classifies better than a random one.",
        "Figure 1",
        "adapted-bases",
        _median("discriminative", "random", "accuracy"),
        _ACCURACY,
        above=1,
    ),
    _said(
        "That advantage diminishes with more features.",
        "Figure 1",
        "adapted-bases",
        _left("discriminative", "random", "accuracy"),
        "gain at the largest D over that at the smallest",
        below=1,
    ),
    _said(
        "On another task the basis adapted by alignment is the best.",
        "Figure 2",
        "adapted-transfer",
        _best_other,
        "accuracy on task 2 over that of the best other basis",
        above=1,
    ),
    _said(
        "On another task a basis adapted to the loss is still better than a random one.",
        "Figure 2",
        "adapted-transfer",
        _median("discriminative", "random", "transfer_accuracy"),
        "accuracy on task 2, adapted over random",
        above=1,
    ),
    _said(
        "Deep kernels are approximated better by an adapted basis, too.",
        "Figure 3",
        "adapted-deep-kernels",
        _median("unsupervised", "random", "kernel_error"),
        _ERROR,
        below=1,
    ),
    _said(
        "Structured bases can be adapted as well.",
        "Figure 4",
        "adapted-structured",
        _median("unsupervised", "random", "kernel_error"),
        _ERROR,
        below=1,
    ),
)
