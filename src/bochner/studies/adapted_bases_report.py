"""The studies of adapted bases: figures and tables of Alber et al. 2017, their Markdown page, and the findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median, pstdev

from bochner.report import Page, write_page_or_section
from bochner.studies.adapted_bases import (
    BASES,
    FIGURES,
    FILES,
    TRANSFER,
    TRANSFER_SET,
    Cell,
    cells_of,
    operations,
    prepare,
)
from bochner.studies.drawing import Curve, Panel, draw_panel, save_panels
from bochner.studies.findings import Finding, Rows, SetValues, finding
from bochner.studies.published_tables import published_table
from bochner.studies.results_file import Results
from bochner.studies.study import Row, Size, Study

ALBER = "Alber et al. 2017"
SHORT = {"random": "RB", "unsupervised": "UAB", "supervised": "SAB", "discriminative": "DAB"}
LABELS = {"kernel_error": "kernel error", "accuracy": "test accuracy", "transfer_accuracy": "accuracy on task 2"}
BEST_OF = ("figure 1", "other bandwidths")  # the candidates of Table 1
TABLED = ("figure 1", TRANSFER)  # also shown as tables on the Markdown page
PROTOCOL = """\
RB is random, UAB adapted to the kernel, SAB to the classes by alignment, DAB to the loss together with its head. Inputs
are centred and scaled to [-1, 1]; Gaussian bandwidths are the mean distance to the 50th of 1,000 neighbours, others
follow the median rule. "gaussian" has D/2 cosine-sine pairs, as in the paper; "gaussian cosine", "hadamard",
"laplacian" and "sparse gaussian" have D cosines with phases, and so has "gaussian x0.7", whose bandwidth is 0.7 times
that of the rule. Arc-cosine maps share D among their layers. Kernel error is the mean of (k - z.z')^2 / 2 over pairs of
5,000 test rows. Heads of RB, UAB and SAB are softmax regressions fitted by preconditioned SGD; DAB keeps the head it
was trained with. Early stopping and the choice of D in Table 1 use heldout rows; the test part is read once. Numbers
are means over trials, ± their standard deviation. Transfers adapt by Adam at 1e-3 without decay; the head on task 2
uses the rate chosen on task 1. The paper adapts for up to 200 epochs of 10,000 batches, effort "paper"; effort "small"
for at most 4 of 300. Its CoverType is the full data set of 581,012 rows; covtype here is a sample of it."""


@dataclass(frozen=True)
class Mean:
    """One point of a figure: means over the measured trials of a cell, and their standard deviations."""

    cell: Cell  # of the first trial
    trials: int
    mean: dict[str, float]
    spread: dict[str, float]


def means_of(cells: Iterable[Cell], results: Results[Cell]) -> list[Mean]:
    """The mean over all measured trials of each cell."""
    groups: dict[Cell, list[dict[str, float]]] = {}
    for cell in cells:
        if (result := results.get(cell)) is not None:
            groups.setdefault(replace(cell, seed=0), []).append(result)
    means = []
    for cell, trials in groups.items():
        values = {name: [trial[name] for trial in trials] for name in trials[0]}
        mean, spread = ({name: f(numbers) for name, numbers in values.items()} for f in (fmean, pstdev))
        means.append(Mean(cell, len(trials), mean, spread))
    return means


def best_of(means: Iterable[Mean]) -> Mean | None:
    """The mean with the best heldout accuracy; the test part is not used."""
    return max(means, key=lambda mean: mean.mean["heldout_accuracy"], default=None)


def _row_means(rows: Sequence[Row]) -> list[Mean]:
    names = [field.name for field in fields(Cell)]
    results = {
        Cell(**{name: row[name] for name in names}): {k: v for k, v in row.items() if k not in names} for row in rows
    }
    return means_of(results, results)


def _by_kernel(means: Sequence[Mean]) -> dict[tuple[str, str], list[Mean]]:
    """Means by data set and kernel."""
    groups: dict[tuple[str, str], list[Mean]] = {}
    for mean in means:
        groups.setdefault((mean.cell.data, mean.cell.kernel), []).append(mean)
    return groups


def _panels(means: Sequence[Mean], *, transfer: bool) -> list[tuple[Panel, str]]:
    """Two panels for each data set and kernel, with captions: kernel error and accuracy, or both tasks' accuracies."""
    panels = []
    for (data, kernel), group in _by_kernel(means).items():
        for measure in ("accuracy", "transfer_accuracy") if transfer else ("kernel_error", "accuracy"):
            curves = []
            for style, basis in enumerate(BASES):
                numbers = [
                    (m.cell.num_features, m.mean[measure], m.spread[measure]) for m in group if m.cell.basis == basis
                ]
                curves.append(Curve(basis, [(x, y, y - spread, y + spread) for x, y, spread in numbers], style))
            scale = "log" if measure == "kernel_error" else "linear"
            panel = Panel(f"{data}, {kernel}", "features D", LABELS[measure], curves, y_scale=scale)
            panels.append((panel, f"{data}, {kernel}: {LABELS[measure]} against the number of features."))
    return panels


def _best_texts(means: Sequence[Mean]) -> Iterator[tuple[str, str, list[tuple[str, str, str]]]]:
    """Table 1: for each data set, kernel and basis the accuracy in %, the paper's in parentheses, and D."""
    published = {(line["data"], line["kernel"]): line for line in published_table("adapted_bases")}
    for (data, kernel), group in _by_kernel(means).items():
        texts = []
        for basis in BASES:
            best = best_of(mean for mean in group if mean.cell.basis == basis)
            line = published.get((data, kernel))
            theirs = f" ({float(line[basis]):.1f})" if line else ""
            ours = "-" if best is None else f"{100 * best.mean['accuracy']:.1f}"
            texts.append((ours, theirs, "" if best is None else f"{best.cell.num_features}"))
        yield data, kernel, texts


# -- the report ------------------------------------------------------------------------------------------------


def _show(figure: str, page: Page, rows: Sequence[Row]) -> None:
    means = _row_means(rows)
    page.figures((draw_panel(panel), caption) for panel, caption in _panels(means, transfer=figure == TRANSFER))
    if figure == "figure 1":
        lines = [
            [data, kernel, *((f"{ours}, D = {int(D):,}" if D else ours) + theirs for ours, theirs, D in texts)]
            for data, kernel, texts in _best_texts(means)
        ]
        page.table(["set", "kernel", *(f"{SHORT[basis]}: accuracy in % (paper)" for basis in BASES)], lines)
        page.note("The number of features is chosen on heldout rows, the accuracy is that of the test part.")
    measures = ("accuracy", "transfer_accuracy") if figure == TRANSFER else ("kernel_error", "accuracy")
    page.table(
        ["set", "kernel", "basis", "D", *(LABELS[measure] for measure in measures), "trials"],
        [
            [m.cell.data, m.cell.kernel, m.cell.basis, m.cell.num_features, *(m.mean[x] for x in measures), m.trials]
            for m in means
        ],
    )


def _study(name: str, title: str, figure: str, source: str) -> Study:
    return Study(
        name, title, f"{ALBER}, {source}", PROTOCOL,
        "adapted_bases", Cell, partial(cells_of, figure), prepare, partial(_show, figure),
        {TRANSFER_SET: FILES[TRANSFER_SET]} if figure == TRANSFER else FILES,
        options=("sets", "num_features", "effort"), operations=operations,
    )  # fmt: skip


STUDIES = (
    _study("adapted-bases", "Random and adapted bases: kernel error and accuracy", "figure 1", "Figure 1 and Table 1"),
    _study("adapted-transfer", "Bases adapted on one task, used on another", "figure 2", "Figure 2"),
    _study("adapted-deep-kernels", "Adapted bases of deep arc-cosine kernels", "figure 3", "Figure 3"),
    _study("adapted-structured", "Adapted structured bases", "figure 4", "Figure 4"),
    _study("adapted-other-kernels", "Adapted bases of other kernels", "other kernels", "not in the paper"),
    _study("adapted-other-bandwidths", "Adapted bases at other bandwidths", "other bandwidths", "Table 1"),
)


# -- the Markdown page -----------------------------------------------------------------------------------------


def write_page(
    results: Results[Cell],
    path: Path,
    *,
    size: Size,
    command: str,
    sets: Sequence[str] | None = None,
    effort: str | None = None,
) -> None:
    """Write the page, or its section of an existing page, and its figures to assets/adapted_bases/ beside it."""

    def measured(figure: str) -> list[Mean]:
        return means_of(cells_of(figure, size, sets=sets, effort=effort), results)

    sections = [f"# Adapted bases\n\nWritten by `{command}`; do not edit.", PROTOCOL]
    lines = [
        f"| {data} | {kernel} | {' | '.join(ours + (f'{theirs}, D = {D}' if D else '') for ours, theirs, D in texts)} |"
        for data, kernel, texts in _best_texts([mean for figure in BEST_OF for mean in measured(figure)])
    ]
    if lines:
        head = f"| set | kernel | {' | '.join(SHORT.values())} |\n|{'---|' * 6}"
        sections.append(
            "## Table 1: best test accuracy in %, in parentheses the paper's\n\n" + "\n".join([head, *lines])
        )
    for figure in FIGURES:
        if means := measured(figure):
            name = f"assets/adapted_bases/{figure.replace(' ', '_')}.png"
            panels = [panel for panel, _ in _panels(means, transfer=figure == TRANSFER)]
            save_panels(panels, path.parent / name, columns=2)
            tables = _tables(means) if figure in TABLED else ()
            sections += [f"## {figure.capitalize()}", f"![{figure}]({name})", *tables]
    write_page_or_section(path, "\n\n".join(sections) + "\n", name="bochner study tables adapted-bases")


def _tables(means: Sequence[Mean]) -> Iterator[str]:
    """One table of test accuracies in % per data set, kernel and task: a line for each D."""
    for (data, kernel), group in _by_kernel(means).items():
        cells = {(mean.cell.num_features, mean.cell.basis): mean for mean in group}
        for name, task in (("accuracy", ""), *([("transfer_accuracy", ", task 2")] if group[0].cell.transfer else [])):
            head = f"| {data}, {kernel}{task}: D | {' | '.join(SHORT.values())} |\n|---:|{'---:|' * len(SHORT)}"
            lines = [
                f"| {size:,} | {' | '.join(_accuracy(cells.get((size, basis)), name) for basis in BASES)} |"
                for size in dict.fromkeys(mean.cell.num_features for mean in group)
            ]
            yield "\n".join([head, *lines])


def _accuracy(mean: Mean | None, name: str) -> str:
    """In %, with the standard deviation over several trials."""
    if mean is None:
        return "-"
    spread = f" ± {100 * mean.spread[name]:.1f}" if mean.trials > 1 else ""
    return f"{100 * mean.mean[name]:.1f}{spread}"


# -- findings --------------------------------------------------------------------------------------------------


def _groups(rows: Rows) -> dict[str, dict[tuple[str, int], Mean]]:
    """By data set and kernel: means by basis and number of features."""
    groups = _by_kernel(_row_means(rows))
    return {
        f"{data} ({kernel})": {(mean.cell.basis, mean.cell.num_features): mean for mean in means}
        for (data, kernel), means in groups.items()
    }


def _ratios(means: dict[tuple[str, int], Mean], first: str, second: str, measure: str) -> list[float]:
    """first / second at each number of features that both have, in order."""
    sizes = sorted(size for basis, size in means if basis == first and (second, size) in means)
    return [means[first, size].mean[measure] / means[second, size].mean[measure] for size in sizes]


def _median(first: str, second: str, measure: str) -> SetValues:
    """By data set and kernel, the ratio of two bases: the median over numbers of features."""

    def values(rows: Rows) -> dict[str, float | None]:
        ratios = {name: _ratios(means, first, second, measure) for name, means in _groups(rows).items()}
        return {name: median(numbers) if numbers else None for name, numbers in ratios.items()}

    return values


def _remaining(first: str, second: str, measure: str) -> SetValues:
    """By data set and kernel, |ratio - 1| at the largest number of features over that at the smallest."""

    def values(rows: Rows) -> dict[str, float | None]:
        ratios = {name: _ratios(means, first, second, measure) for name, means in _groups(rows).items()}
        known = {name: numbers for name, numbers in ratios.items() if len(numbers) > 1 and numbers[0] != 1}
        return {name: abs((numbers[-1] - 1) / (numbers[0] - 1)) for name, numbers in known.items()}

    return values


def _over_best_other(rows: Rows) -> dict[str, float | None]:
    """By data set and kernel, at the largest number of features: accuracy on task 2 over that of the best other."""
    values: dict[str, float | None] = {}
    for name, means in _groups(rows).items():
        largest = max(size for _, size in means)
        accuracies = {basis: m.mean["transfer_accuracy"] for (basis, size), m in means.items() if size == largest}
        supervised = accuracies.pop("supervised", None)
        values[name] = supervised / max(accuracies.values()) if supervised is not None and accuracies else None
    return values


_ERROR, _ACCURACY = "kernel error, adapted / random", "test accuracy, adapted / random"
# fmt: off
FINDINGS: tuple[Finding, ...] = (
    finding("A basis adapted to the kernel approximates it better than a random one.", f"{ALBER}, Figure 1",
            "adapted-bases", _median("unsupervised", "random", "kernel_error"), _ERROR, below=1),
    finding("A basis adapted by alignment classifies better than a random one.", f"{ALBER}, Figure 1",
            "adapted-bases", _median("supervised", "random", "accuracy"), _ACCURACY, above=1),
    finding("A basis adapted to the loss classifies better than a random one.", f"{ALBER}, Figure 1",
            "adapted-bases", _median("discriminative", "random", "accuracy"), _ACCURACY, above=1),
    finding("That advantage diminishes with more features.", f"{ALBER}, Figure 1",
            "adapted-bases", _remaining("discriminative", "random", "accuracy"),
            "gain at the largest D / gain at the smallest", below=1),
    finding("On another task the basis adapted by alignment is the best.", f"{ALBER}, Figure 2",
            "adapted-transfer", _over_best_other, "accuracy on task 2 relative to the best other basis", above=1),
    finding("On another task a basis adapted to the loss is still better than a random one.", f"{ALBER}, Figure 2",
            "adapted-transfer", _median("discriminative", "random", "transfer_accuracy"),
            "accuracy on task 2, adapted / random", above=1),
    finding("Deep kernels are approximated better by an adapted basis, too.", f"{ALBER}, Figure 3",
            "adapted-deep-kernels", _median("unsupervised", "random", "kernel_error"), _ERROR, below=1),
    finding("Structured bases can be adapted as well.", f"{ALBER}, Figure 4",
            "adapted-structured", _median("unsupervised", "random", "kernel_error"), _ERROR, below=1),
)
