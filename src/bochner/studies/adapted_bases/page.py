"""The page of results, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bochner.studies.adapted_bases.cells import BASES, Cell
from bochner.studies.adapted_bases.plots import draw_figure
from bochner.studies.adapted_bases.published import PUBLISHED
from bochner.studies.adapted_bases.rows import Row, best_of, rows_of
from bochner.studies.adapted_bases.run import FIGURES, TABLE, TRANSFER, Size, cells_of
from bochner.studies.ledger import Ledger

SHORT = {"random": "RB", "unsupervised": "UAB", "supervised": "SAB", "discriminative": "DAB"}
PROTOCOL = """\
RB is random, UAB adapted to the kernel, SAB to the classes by alignment, DAB to the loss, head and all. Inputs are
centred and scaled to [-1, 1]; Gaussian bandwidths are the mean distance to the 50th of 1,000 neighbours, others the
median rule's. "gaussian" has D/2 cosine-sine pairs, as in the paper; "gaussian cosine", "hadamard", "laplacian" and
"sparse gaussian" have D cosines with phases, and so has "gaussian x0.7", whose bandwidth is 0.7 times the rule's.
Arc-cosine maps share D among their layers. Kernel error is the mean of (k - z.z')^2 / 2 over pairs of 5,000 test rows.
Heads of RB, UAB and SAB are softmax regressions by preconditioned SGD, that of DAB is the one it was trained with.
Adaptation and heads stop by heldout rows, and Table 1 chooses D by them; the test part is read once. Numbers are means
over trials, ± their standard deviation. The paper adapts for up to 200 epochs of 10,000 batches, size "paper"; sizes
"small" and "large" for at most 10 of 1,000. Its CoverType is the whole set of 581,012 rows; ours is a sample of it."""


def write_page(size: Size, sets: Sequence[str], ledger: Ledger[Cell], path: Path, *, command: str) -> None:
    """The page, and the figures in assets/adapted_bases/ beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"# Adapted bases: tables\n\nWritten by `{command}`; do not edit.", PROTOCOL]
    parts += _best(rows_of([cell for figure in TABLE for cell in cells_of(figure, size, sets)], ledger))
    for figure in FIGURES:
        rows = rows_of(cells_of(figure, size, sets), ledger)
        if rows:
            name = f"assets/adapted_bases/{figure.replace(' ', '_')}.png"
            draw_figure(rows, path.parent / name, transfer=figure == TRANSFER)
            parts += [f"## {figure.capitalize()}", f"![{figure}]({name})", *_tables(rows)]
    path.write_text("\n\n".join(parts) + "\n")


def _best(rows: Sequence[Row]) -> Iterator[str]:
    lines = []
    for data, kernel in dict.fromkeys((row.cell.data, row.cell.kernel) for row in rows):
        shown = []
        for place, basis in enumerate(BASES):
            best = best_of(
                row for row in rows if (row.cell.data, row.cell.kernel, row.cell.basis) == (data, kernel, basis)
            )
            published = PUBLISHED.get((data, kernel))
            theirs = "" if published is None else f" ({published[place]:.1f})"
            shown.append(
                "-" if best is None else f"{100 * best.mean['accuracy']:.1f}{theirs}, D = {best.cell.num_features}"
            )
        lines.append(f"| {data} | {kernel} | {' | '.join(shown)} |")
    if lines:
        head = f"| set | kernel | {' | '.join(SHORT.values())} |\n|{'---|' * 6}"
        yield "## Table 1: best test accuracy in %, in parentheses the paper's\n\n" + "\n".join([head, *lines])


def _tables(rows: Sequence[Row]) -> Iterator[str]:
    """One table a set and kernel: a line for each D and basis."""
    for data, kernel in dict.fromkeys((row.cell.data, row.cell.kernel) for row in rows):
        mine = [row for row in rows if (row.cell.data, row.cell.kernel) == (data, kernel)]
        transfer = " task 2 |" if mine[0].cell.transfer else ""
        head = f"| {data}, {kernel}: D | basis | kernel error | alignment | accuracy |{transfer} epochs | trials |"
        yield "\n".join([head, "|" + "---|" * (head.count("|") - 1), *map(_line, mine)])


def _line(row: Row) -> str:
    accuracies = [name for name in ("accuracy", "transfer_accuracy") if name in row.mean]
    shown = [f"{100 * row.mean[name]:.2f} ± {100 * row.spread[name]:.2f}" for name in accuracies]
    return (
        f"| {row.cell.num_features} | {SHORT[row.cell.basis]} | {row.mean['kernel_error']:.2e} | "
        f"{row.mean['alignment']:.3f} | {' | '.join(shown)} | {row.mean['epochs']:.0f} | {row.trials} |"
    )
