"""The spectrum of the kernel matrix (Figure 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bochner.report import Page
from bochner.studies.drawing import add_curve, finish, new_axes
from bochner.studies.findings import Verdict, over_sets
from bochner.studies.ledger import Result
from bochner.studies.nystrom_rff.cells import make_kernel
from bochner.studies.nystrom_rff.tasks import loader
from bochner.studies.study import Row, Size, Where

PLACES = 40  # eigenvalues that are kept, evenly over log j
HEAD, TAIL = 10, 100


@dataclass(frozen=True)
class Cell:
    """The kernel matrix of `num_points` training rows."""

    data: str
    num_points: int
    seed: int = 0


def cells(size: Size) -> list[Cell]:
    sets, num_points = {
        "smoke": (("digits", "a9a", "cpu"), 500),
        "small": (("a9a", "covtype", "cpu", "house", "mnist", "timit"), 3_000),
        "paper": (("a9a", "covtype", "cpu", "house", "mnist", "timit"), 20_000),
    }[size]
    return [Cell(name, num_points) for name in sets]


def measuring(where: Where) -> Callable[[Cell], Result]:
    loaded = loader(where)

    def measure(cell: Cell) -> Result:
        X = loaded(cell.data, cell.num_points).train.X.double()
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
    figure, axes = new_axes("eigenvalues of K / n", "place j", "eigenvalue")
    for style, row in enumerate(rows):
        points = [(j, v, v, v) for j, v in zip(row["places"], row["eigenvalues"], strict=True) if v > 1e-12]
        add_curve(axes, points, label=f"{row['data']}, n = {row['num_points']:,}", style=style)
    page.figure(finish(figure, axes), "The spectrum of the Gaussian kernel matrix of training rows, divided by n.")
    page.table(
        ["set", "n", f"first over {HEAD + 1}th eigenvalue", f"share of the trace beyond the first {TAIL}"],
        [[row["data"], row["num_points"], row["head_ratio"], row["tail_share"]] for row in rows],
    )


def heavy_head(rows: Sequence[Row]) -> Verdict | None:
    values = {row["data"]: row["head_ratio"] for row in rows}
    return over_sets(values, f"first over {HEAD + 1}th eigenvalue", above=3)


def long_tail(rows: Sequence[Row]) -> Verdict | None:
    values = {row["data"]: row["tail_share"] for row in rows}
    return over_sets(values, f"share of the trace beyond the first {TAIL} eigenvalues", above=0.01)
