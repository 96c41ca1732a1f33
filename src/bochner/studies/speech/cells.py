"""One model on one task: what it is, and which of them each study has."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from bochner.acoustic.settings import KERNELS
from bochner.studies.speech.sizes import BOTH, SIZES, Tricks
from bochner.studies.study import Size

NETWORK = "network"
DEPTH = 4


@dataclass(frozen=True)
class Cell:
    """A model with a seed on a task, at the effort of a size.

    `metric`, "ce" or "erll:1", is what halves the rate. `num_features` is 0 of networks, `width` and `depth` are 0 of
    kernels. `data` names the speech, which is synthetic, and its recipe.
    """

    data: str
    model: str
    selection: bool
    bottleneck: bool
    criterion: str
    num_features: int
    width: int
    depth: int
    effort: Size
    seed: int


@dataclass(frozen=True)
class BestCell:
    """The best model of a kind, "kernel" or "network", on dev over some seeds, which then reads test."""

    data: str
    kind: str
    effort: Size
    seeds: tuple[int, ...]


def kernel_cells(size: Size) -> list[Cell]:
    """Kernel x selection x bottleneck x ERLL.

    >>> len(kernel_cells("small"))
    18
    """
    sizes = SIZES[size]
    return [
        _kernel(task, kernel, selects, tricks, sizes.num_features, size, seed)
        for task, kernel, selects, tricks, seed in product(
            sizes.tasks, KERNELS, (False, True), sizes.tricks, sizes.seeds
        )
    ]


def network_cells(size: Size) -> list[Cell]:
    """Widths x bottleneck x ERLL, of four layers."""
    sizes = SIZES[size]
    return [
        _network(task, width, DEPTH, tricks, size, seed)
        for task, width, tricks, seed in product(sizes.tasks, sizes.widths, sizes.tricks, sizes.seeds)
    ]


def all_cells(size: Size) -> list[Cell]:
    """Both ablations."""
    return kernel_cells(size) + network_cells(size)


def feature_cells(size: Size) -> list[Cell]:
    """Kernel models with a bottleneck, by ERLL, of few and of many features."""
    sizes = SIZES[size]
    return [
        _kernel(task, kernel, selects, BOTH, count, size, seed)
        for task, (kernel, selects), count, seed in product(sizes.tasks, sizes.many, sizes.features, sizes.seeds)
    ]


def depth_cells(size: Size) -> list[Cell]:
    """Networks with a bottleneck, by ERLL, of many depths and widths."""
    sizes = SIZES[size]
    return [
        _network(task, width, depth, BOTH, size, seed)
        for task, width, depth, seed in product(sizes.tasks, sizes.widths, sizes.depths, sizes.seeds)
    ]


def best_cells(size: Size) -> list[BestCell]:
    """The best of each kind."""
    sizes = SIZES[size]
    return [BestCell(task, kind, size, sizes.seeds) for task in sizes.tasks for kind in ("kernel", NETWORK)]


def _kernel(task: str, kernel: str, selects: bool, tricks: Tricks, count: int, size: Size, seed: int) -> Cell:
    return Cell(task, kernel, selects, *tricks, count, 0, 0, size, seed)


def _network(task: str, width: int, depth: int, tricks: Tricks, size: Size, seed: int) -> Cell:
    return Cell(task, NETWORK, False, *tricks, 0, width, depth, size, seed)
