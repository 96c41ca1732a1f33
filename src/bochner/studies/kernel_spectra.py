"""The spectrum of the kernel matrix: May 2018, Figure 6.2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from bochner.report import Page
from bochner.studies import costs
from bochner.studies.drawing import Curve, Panel, draw_panel
from bochner.studies.findings import finding
from bochner.studies.nystrom_rff import ALL_SETS, make_kernel
from bochner.studies.nystrom_rff_data import FILES, loader
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

PLACES = 40  # number of stored eigenvalues, evenly spaced in log j
HEAD, TAIL = 10, 100
SOURCE = "May 2018, Figure 6.2"


@dataclass(frozen=True)
class Cell:
    """The kernel matrix of `num_points` training rows."""

    data: str
    num_points: int
    seed: int = 0


def cells(size: Size) -> list[Cell]:
    sets, num_points = {
        "smoke": (("digits", "a9a", "cpu"), 500),
        "small": (ALL_SETS, 3_000),
        "paper": (ALL_SETS, 20_000),
    }[size]
    return [Cell(name, num_points) for name in sets]


def prepare(context: Context) -> Callable[[Cell], Result]:
    load = loader(context)

    def measure(cell: Cell) -> Result:
        X = load(cell.data, cell.num_points).train.X.double()
        values = torch.linalg.eigvalsh(make_kernel(cell.data, "gaussian", X)(X)).flip(0).clamp_min(0) / len(X)
        places = torch.logspace(0, torch.log10(torch.tensor(float(len(X)))), PLACES).round().long().unique()
        return {
            "places": places.tolist(),
            "eigenvalues": values[places - 1].tolist(),
            "head_ratio": float(values[0] / values[HEAD]),
            "tail_share": float(values[TAIL:].sum() / values.sum()),
        }

    return measure


def show(page: Page, rows: Sequence[Row]) -> None:
    curves = []
    for style, row in enumerate(rows):
        points = [(j, v, v, v) for j, v in zip(row["places"], row["eigenvalues"], strict=True) if v > 1e-12]
        curves.append(Curve(f"{row['data']}, n = {row['num_points']:,}", points, style))
    panel = Panel("eigenvalues of K / n", "place j", "eigenvalue", curves)
    page.figure(draw_panel(panel), "The spectrum of the Gaussian kernel matrix of training rows, divided by n.")
    page.table(
        ["set", "n", f"first / {HEAD + 1}th eigenvalue", f"share of the trace beyond the first {TAIL}"],
        [[row["data"], row["num_points"], row["head_ratio"], row["tail_share"]] for row in rows],
    )


# fmt: off
STUDY = Study(
    "kernel-spectra", "Spectra of kernel matrices", SOURCE,
    "Eigenvalues of the Gaussian kernel matrix of n random training rows, divided by n; float64.",
    "kernel_spectra", Cell, cells, prepare, show, FILES,
    operations=lambda cell: costs.CELL + costs.eigenvalues(cell.num_points),
)
_SPECTRA = (
    finding("The largest eigenvalues of kernel matrices are significantly larger than the others.", SOURCE, STUDY.name,
            lambda rows: {row["data"]: row["head_ratio"] for row in rows},
            f"first / {HEAD + 1}th eigenvalue", above=3),
    finding("There is a long tail of eigenvalues that are not negligible.", SOURCE, STUDY.name,
            lambda rows: {row["data"]: row["tail_share"] for row in rows},
            f"share of the trace beyond the first {TAIL} eigenvalues", above=0.01),
)
# eigenvalues of given matrices: other seeds would only select other rows of the same sets
FINDINGS = tuple(replace(claim, exact=True) for claim in _SPECTRA)
