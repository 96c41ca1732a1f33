"""Which maps of which sizes are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from bochner.studies.nystrom_rff.cells import KMEANS, NYSTROM, RFF, Cell
from bochner.studies.study import Size

ALL_SETS = ("a9a", "covtype", "cpu", "house", "mnist", "timit")
KERNELS = ("gaussian", "laplacian", "sparse-gaussian")


@dataclass(frozen=True)
class Grid:
    """Sets, rows, features of each kind; `seeds` up to `few_above` features, one seed above.

    Seeds of `draws` beside those measure errors alone: a map without a model is cheap, and bias is a matter of draws.
    `effect_sets` and `effect_features` are those of the other kernels.
    """

    sets: tuple[str, ...]
    num_rows: int | None
    pairs_of: int
    epochs: int
    landmarks: tuple[int, ...]
    features: tuple[int, ...]
    seeds: tuple[int, ...]
    draws: tuple[int, ...]
    few_above: Mapping[str, int]
    effect_sets: tuple[str, ...]
    effect_features: tuple[int, ...]


GRIDS: Mapping[Size, Grid] = MappingProxyType(
    {
        "smoke": Grid(
            ("digits", "a9a", "cpu"), 1_000, 300, 8, (32, 64, 128), (32, 64, 128, 256, 512), (0,), (0, 1, 2), {},
            ("digits", "a9a"), (32, 64, 128, 256),
        ),
        "small": Grid(
            ALL_SETS, 5_000, 1_000, 20, (125, 250, 500, 1_000),
            (125, 250, 500, 1_000, 2_000, 4_000, 8_000, 16_000), (0, 1, 2), (0, 1, 2),
            {RFF: 500, NYSTROM: 250, KMEANS: 250},
            ("covtype", "mnist", "timit"), (250, 500, 1_000, 2_000, 4_000),
        ),
        "paper": Grid(
            ALL_SETS, None, 5_000, 100, (1_250, 2_500, 5_000, 10_000, 20_000),
            (1_250, 2_500, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000), tuple(range(10)), (0, 1, 2),
            {RFF: 20_000, NYSTROM: 2_500, KMEANS: 2_500},
            ("covtype", "mnist", "timit"), (5_000, 10_000, 25_000, 50_000, 100_000),
        ),
    }
)  # fmt: skip


def cells(size: Size) -> list[Cell]:
    """The Gaussian kernel by all three maps, small ones first.

    >>> found = cells("smoke")
    >>> len(found), sum(cell.epochs > 0 for cell in found)  # 3 sets, 3 draws of 5 + 3 maps and 3 by k-means
    (81, 33)
    """
    grid, found = GRIDS[size], []
    for name in grid.sets:
        for kind, counts in ((RFF, grid.features), (NYSTROM, grid.landmarks), (KMEANS, grid.landmarks)):
            for count in counts:
                seeds = grid.seeds if count <= grid.few_above.get(kind, count) else grid.seeds[:1]
                found += [_cell(grid, name, kind, count, seed) for seed in seeds]
                drawn = () if kind == KMEANS else [seed for seed in grid.draws if seed not in seeds]
                found += [replace(_cell(grid, name, kind, count, seed), epochs=0) for seed in drawn]
    return found


def effect_cells(size: Size) -> list[Cell]:
    """Fourier features of three kernels."""
    grid = GRIDS[size]
    return [
        _cell(grid, name, RFF, count, seed, kernel)
        for name in grid.effect_sets for kernel in KERNELS for count in grid.effect_features
        for seed in grid.seeds[: 3 if count <= grid.few_above.get(RFF, count) else 1]
    ]  # fmt: skip


def _cell(grid: Grid, name: str, kind: str, count: int, seed: int, kernel: str = "gaussian") -> Cell:
    return Cell(name, kind, count, grid.num_rows, grid.pairs_of, grid.epochs, seed, kernel)
