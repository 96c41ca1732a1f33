"""The kernel error of every map, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean

from torch import Generator, Tensor

from bochner.report import Page
from bochner.studies import map_error
from bochner.studies.drawing import add_curve, finish, new_axes
from bochner.studies.findings import Finding, Verdict, by
from bochner.studies.ledger import Result
from bochner.studies.study import Row, Size, Study, Where


@dataclass(frozen=True)
class Cell:
    """A map of scikit-learn's digits."""

    map: str
    num_features: int
    seed: int


def cells(size: Size) -> list[Cell]:
    sizes, seeds = {
        "smoke": ((64, 256), range(1)),
        "small": ((64, 128, 256, 512, 1024), range(5)),
        "paper": ((64, 128, 256, 512, 1024), range(10)),
    }[size]
    names = [case.map for case in map_error.cases(map_error.digits()[0])]
    return [Cell(name, count, seed) for name in names for count in sizes for seed in seeds]


def measuring(where: Where) -> Callable[[Cell], Result]:
    """Digits come with scikit-learn: no file is read."""
    train, heldout = (X.to(where.device) for X in map_error.digits())
    known = {case.map: case for case in map_error.cases(train)}

    @cache
    def exact(name: str) -> Tensor:
        return known[name].kernel(heldout)

    def measure(cell: Cell) -> Result:
        case = known[cell.map]
        z = case.make(cell.num_features, Generator().manual_seed(cell.seed)).to(where.device)
        error = float(map_error.relative_error(z, heldout, exact(cell.map)))
        return {"family": case.family, "kernel": map_error.kernel_name(case.kernel), "error": error}

    return measure


def show(page: Page, rows: Sequence[Row]) -> None:
    drawn = []
    for (family,), mine in by(rows, "family").items():
        figure, axes = new_axes(family, "features D", "relative kernel error")
        for style, ((name,), found) in enumerate(by(mine, "map").items()):
            groups = sorted(
                (count, [row["error"] for row in each]) for (count,), each in by(found, "num_features").items()
            )
            points = [(count, fmean(errors), min(errors), max(errors)) for count, errors in groups]
            add_curve(axes, points, label=name, style=style)
        drawn.append((finish(figure, axes), f"{family}: mean over seeds, with least and most."))
    page.figures(drawn)
    body = [
        [*key, fmean(row["error"] for row in found), len(found)]
        for key, found in by(rows, "kernel", "map", "num_features").items()
    ]
    page.table(["kernel", "map", "D", "relative kernel error", "seeds"], body)


def orthogonal_is_lower(rows: Sequence[Row]) -> Verdict | None:
    """Orthogonal against independent frequencies in the same form, at every number of features."""
    means = {key: fmean(row["error"] for row in found) for key, found in by(rows, "map", "num_features").items()}
    sizes = sorted(count for name, count in means if name == "orthogonal" and ("iid, paired", count) in means)
    if not sizes:
        return None
    lower = [count for count in sizes if means["orthogonal", count] < means["iid, paired", count]]
    return Verdict(len(lower) == len(sizes), f"at {len(lower)} of {len(sizes)} numbers of features, on digits")


STUDIES = (
    Study(
        "map-error",
        "Kernel error of every feature map",
        "every map of the papers, side by side",
        map_error.PROTOCOL,
        "map_error",
        Cell,
        cells,
        measuring,
        show,
    ),
)
FINDINGS = (
    Finding(
        "Orthogonal random features approximate the Gaussian kernel better than independent ones.",
        "Alber et al. 2017, Section 3",
        "map-error",
        orthogonal_is_lower,
    ),
)
