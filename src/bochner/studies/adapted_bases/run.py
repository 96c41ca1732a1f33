"""Which cells the study has, and running them one by one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType

from tqdm import tqdm

from bochner import checks
from bochner.studies.adapted_bases.cells import BASES, Cell, measure
from bochner.studies.adapted_bases.sets import FILES
from bochner.studies.ledger import Ledger


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
        "paper": Size((10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000), (0, 1, 2), "paper"),
    }
)
FIGURES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "figure 1": ("gaussian", "gaussian cosine", "arccos1"),
        "figure 2": ("gaussian", "gaussian cosine"),
        "figure 3": ("arccos1", "arccos2", "arccos3"),
        "figure 4": ("gaussian cosine", "hadamard1", "hadamard2", "hadamard3"),
        "other kernels": ("laplacian", "sparse gaussian"),
    }
)
TRANSFER = "figure 2"
TRANSFER_SET = "mnist"


def cells_of(figure: str, size: Size, sets: Sequence[str]) -> list[Cell]:
    """The cells of one figure, small maps first.

    >>> len(cells_of("figure 1", SIZES["smoke"], ["mnist"]))  # 2 sizes, 3 kernels, 4 bases
    24
    """
    checks.one_of("parts", figure, FIGURES)
    for name in sets:
        checks.one_of("sets", name, FILES)
    transfer = figure == TRANSFER
    return [
        Cell(data, kernel, basis, num_features, size.effort, seed, transfer)
        for num_features, data, kernel, basis, seed in product(
            size.num_features, sets, FIGURES[figure], BASES, size.seeds
        )
        if not transfer or data == TRANSFER_SET
    ]


def run(cells: Sequence[Cell], data_dir: Path, ledger: Ledger[Cell], *, device: str = "cpu") -> None:
    """Measure the cells that `ledger` does not have and keep each as soon as it is done.

    A cell that fails is told at once and the others go on; at the end it is an error.
    """
    left = [cell for cell in dict.fromkeys(cells) if ledger.get(cell) is None]
    failed = 0
    for cell in (bar := tqdm(left, unit="cell", disable=None)):
        bar.set_description(f"{cell.data}, {cell.kernel}, {cell.basis}, D = {cell.num_features}")
        try:
            ledger.add(cell, measure(cell, data_dir, device=device))
        except (ValueError, RuntimeError, FloatingPointError) as error:
            tqdm.write(f"{cell} failed: {error}", file=sys.stderr)
            failed += 1
    if failed:
        raise RuntimeError(f"{failed} of {len(left)} cells failed, as told above; the others are in {ledger.path}.")
