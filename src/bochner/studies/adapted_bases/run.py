"""Which cells the study has, and running them one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

from bochner import checks
from bochner.studies.adapted_bases.cells import BASES, Cell, measuring
from bochner.studies.adapted_bases.maps import MULTIPLES
from bochner.studies.adapted_bases.sets import FILES
from bochner.studies.ledger import Ledger
from bochner.studies.measuring import measure_cells
from bochner.studies.study import Where


@dataclass(frozen=True)
class Size:
    """The numbers of features, the trials and how long each cell is trained; see `cells.EFFORTS`."""

    num_features: tuple[int, ...]
    seeds: tuple[int, ...]
    effort: str


SIZES: Mapping[str, Size] = MappingProxyType(
    {
        "smoke": Size((10, 30), (0,), "smoke"),
        "small": Size((10, 30, 100, 300, 1_000), (0, 1, 2), "small"),
        "large": Size((10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000), (0, 1, 2), "small"),
        "paper": Size((10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000), (0, 1, 2), "paper"),
    }
)
FIGURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "figure 1": ("gaussian", "gaussian cosine", "arccos1"),
        "figure 2": ("gaussian cosine",),
        "figure 3": ("arccos1", "arccos2", "arccos3"),
        "figure 4": ("gaussian cosine", "hadamard1", "hadamard2", "hadamard3"),
        "other kernels": ("laplacian", "sparse gaussian"),
        "other bandwidths": tuple(f"gaussian x{multiple}" for multiple in MULTIPLES),
    }
)
TABLE = ("figure 1", "other bandwidths")  # what Table 1 chooses from
TRANSFER = "figure 2"
TRANSFER_SET, TRANSFER_SPLITS = "mnist", 5  # halves of the classes vary more than draws of a basis


def cells_of(figure: str, size: Size, sets: Sequence[str]) -> list[Cell]:
    """The cells of one figure, small maps first.

    >>> len(cells_of("figure 1", SIZES["smoke"], ["mnist"]))  # 2 sizes, 3 kernels, 4 bases
    24
    """
    checks.one_of("parts", figure, FIGURES)
    for name in sets:
        checks.one_of("sets", name, FILES)
    transfer = figure == TRANSFER
    seeds = range(TRANSFER_SPLITS) if transfer and len(size.seeds) > 1 else size.seeds
    return [
        Cell(data, kernel, basis, num_features, size.effort, seed, transfer)
        for num_features, data, kernel, basis, seed in product(size.num_features, sets, FIGURES[figure], BASES, seeds)
        if not transfer or data == TRANSFER_SET
    ]


def run(cells: Sequence[Cell], data_dir: Path, ledger: Ledger[Cell], *, device: str = "cpu") -> None:
    """Measure the cells that `ledger` does not have and keep each as soon as it is done.

    A cell that fails is told at once and the others go on; at the end it is an error.
    """

    def describe(cell: Cell) -> str:
        return f"{cell.data}, {cell.kernel}, {cell.basis}, D = {cell.num_features}"

    measure_cells(cells, measuring(Where(data_dir, device)), ledger, describe=describe)
